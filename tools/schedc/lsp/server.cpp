#include "tools/schedc/lsp/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "tools/schedc/lsp/answers.hpp"

namespace hocket::tools::lsp {
namespace {

// Codes of the protocol.
enum Code {
    parse_error = -32700,
    invalid_request = -32600,
    method_not_found = -32601,
    invalid_parameters = -32602,
    internal_error = -32603,
    not_initialized = -32002,
    request_cancelled = -32800,
};

struct Refusal : std::runtime_error {
    Refusal(Code why, const std::string& text) : std::runtime_error(text), code(why) {}
    Code code;
};

constexpr double seconds_of_a_proof = 2;  // of one definition on one topology

Json capabilities() {
    constexpr int incremental = 2;
    return {{"capabilities",
             {{"positionEncoding", "utf-16"},
              {"textDocumentSync", {{"openClose", true}, {"change", incremental}}},
              {"hoverProvider", true},
              {"definitionProvider", true},
              {"documentSymbolProvider", true},
              {"documentFormattingProvider", true},
              {"completionProvider", {{"triggerCharacters", {"."}}}}}},
            {"serverInfo", {{"name", "schedc"}, {"version", HOCKET_VERSION}}}};
}

bool is_request(const Json& message) {
    return message.contains("id");
}

}  // namespace

Server::Server(std::vector<std::string> search_path, std::function<void(const std::string&)> send)
    : search_path_(std::move(search_path)),
      send_(std::move(send)),
      prover_(search_path_, seconds_of_a_proof) {}

void Server::refuse(const Json& id, int code, const std::string& why) const {
    send({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", why}}}});
}

void Server::receive(const std::string& content) {
    Json message = Json::parse(content, nullptr, false);
    if (message.is_discarded()) {
        refuse(nullptr, parse_error, "the content of a message is not JSON");
        return;
    }
    const bool is_message = message.is_object() && message.value("method", Json()).is_string();
    if (!is_message) {
        // The answer to a request of ours; there are none.
        const bool is_answer =
            message.is_object() && (message.contains("result") || message.contains("error"));
        if (!is_answer) refuse(nullptr, invalid_request, "a message is an object with a method");
        return;
    }
    if (message["method"] != "$/cancelRequest") {
        waiting_.push_back(std::move(message));
        return;
    }
    const Json id = message.value("params", Json::object()).value("id", Json());
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Json& other) {
        return is_request(other) && other["id"] == id;
    });
    if (found == waiting_.end()) return;  // it was answered
    waiting_.erase(found);
    refuse(id, request_cancelled, "cancelled");
}

void Server::handle_all() {
    while (!waiting_.empty() && !ended_) {
        const Json message = std::move(waiting_.front());
        waiting_.pop_front();
        handle(message);
    }
}

void Server::handle(const Json& message) {
    const std::string method = message["method"];
    const Json parameters = message.value("params", Json::object());
    try {
        if (!is_request(message)) {
            if (is_initialized_ || method == "exit") notify(method, parameters);
            return;
        }
        if (!is_initialized_ && method != "initialize")
            throw Refusal(not_initialized, "the first request is initialize");
        if (is_shut_down_) throw Refusal(invalid_request, "after shutdown comes exit");
        send({{"jsonrpc", "2.0"}, {"id", message["id"]}, {"result", answer(method, parameters)}});
    } catch (const Refusal& refusal) {
        if (is_request(message)) refuse(message["id"], refusal.code, refusal.what());
    } catch (const Json::exception& wrong) {
        if (is_request(message)) refuse(message["id"], invalid_parameters, wrong.what());
    } catch (const std::exception& error) {
        if (is_request(message)) refuse(message["id"], internal_error, error.what());
    }
}

void Server::notify(const std::string& method, const Json& parameters) {
    if (method == "exit") {
        ended_ = is_shut_down_ ? 0 : 1;
    } else if (method == "textDocument/didOpen") {
        open(parameters);
    } else if (method == "textDocument/didChange") {
        change(parameters);
    } else if (method == "textDocument/didSave") {
        library_.reset();  // another file may use what was saved
    } else if (method == "textDocument/didClose") {
        const std::string uri = opened(parameters).document.uri();
        prover_.forget(uri);
        documents_.erase(uri);
        send({{"jsonrpc", "2.0"},
              {"method", "textDocument/publishDiagnostics"},
              {"params", {{"uri", uri}, {"diagnostics", Json::array()}}}});
    }
}

Json Server::answer(const std::string& method, const Json& parameters) {
    if (method == "initialize") {
        is_initialized_ = true;
        return capabilities();
    }
    if (method == "shutdown") {
        is_shut_down_ = true;
        return nullptr;
    }
    const auto offset = [&](const Document& document) {
        return document.offset_of(position_from(parameters.at("position")));
    };
    using Answer = Json (*)(const Document&, std::size_t, const dsl::Library&);
    const std::pair<std::string_view, Answer> at_places[] = {{"textDocument/hover", hover},
                                                             {"textDocument/definition", definition},
                                                             {"textDocument/completion", completion}};
    for (const auto& [name, at_place] : at_places)
        if (method == name) {
            const Document& document = opened(parameters).document;
            return at_place(document, offset(document), library());
        }
    if (method == "textDocument/documentSymbol") return document_symbols(opened(parameters).document);
    if (method == "textDocument/formatting") return formatting(opened(parameters).document);
    throw Refusal(method_not_found, method + " is not known here");
}

Server::Open& Server::opened(const Json& parameters) {
    const std::string uri = parameters.at("textDocument").at("uri");
    const auto found = documents_.find(uri);
    if (found == documents_.end()) throw Refusal(invalid_parameters, uri + " is not open");
    return found->second;
}

void Server::open(const Json& parameters) {
    const Json& document = parameters.at("textDocument");
    const std::string uri = document.at("uri");
    Open opened{Document(uri, document.at("text")), 0, document.value("version", Json())};
    look_at(documents_.insert_or_assign(uri, std::move(opened)).first->second);
}

void Server::change(const Json& parameters) {
    Open& open = opened(parameters);
    open.editors_version = parameters.at("textDocument").value("version", Json());
    for (const Json& one : parameters.at("contentChanges")) open.document.change(one);
    look_at(open);
}

// Says at once what is wrong with the grammar, and later what a proof finds.
void Server::look_at(Open& open) {
    open.version = ++versions_;
    open.proved.clear();
    publish(open);
    prover_.prove(open.document.uri(), open.version, open.document.source());
}

void Server::publish(const Open& open) {
    std::vector<Json> faults = open.document.syntax_faults();
    // A text that does not parse has no other proof than that.
    if (faults.empty()) faults = open.proved;
    Json parameters{{"uri", open.document.uri()}, {"diagnostics", faults}};
    if (!open.editors_version.is_null()) parameters["version"] = open.editors_version;
    send({{"jsonrpc", "2.0"}, {"method", "textDocument/publishDiagnostics"}, {"params", parameters}});
}

void Server::take_proofs() {
    for (const Proved& proved : prover_.take()) {
        const auto found = documents_.find(proved.uri);
        if (found == documents_.end() || found->second.version != proved.version) continue;
        Open& open = found->second;
        for (const dsl::Report& report : proved.wrong) open.proved.push_back(open.document.fault(report));
        publish(open);
    }
}

const dsl::Library& Server::library() {
    if (!library_) library_ = std::make_unique<dsl::Library>(search_path_);
    return *library_;
}

}  // namespace hocket::tools::lsp
