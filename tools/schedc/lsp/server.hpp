// The language server: schedules in editors.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/elaboration/library.hpp"
#include "tools/schedc/lsp/document.hpp"
#include "tools/schedc/lsp/prover.hpp"

namespace hocket::tools::lsp {

// Answers messages in their order. For one thread.
class Server {
  public:
    // send: writes the content of a message.
    Server(std::vector<std::string> search_path, std::function<void(const std::string&)> send);

    // Takes the content of a message, which is handled by handle_all(). So a request that is cancelled before
    // it is handled is not.
    void receive(const std::string& content);
    void handle_all();

    // Readable when take_proofs() has something to do.
    int descriptor() const { return prover_.descriptor(); }
    void take_proofs();

    // The exit code, once the editor has said that it ends.
    std::optional<int> ended() const { return ended_; }

  private:
    struct Open {
        Document document;
        std::uint64_t version = 0;      // of this server, larger with each text
        Json editors_version;           // null if the editor has none
        std::vector<Json> proved = {};  // diagnostics of the last proof, of this version
    };

    void handle(const Json& message);
    void notify(const std::string& method, const Json& parameters);
    Json answer(const std::string& method, const Json& parameters);
    void open(const Json& parameters);
    void change(const Json& parameters);
    void look_at(Open& open);
    void publish(const Open& open);
    Open& opened(const Json& parameters);
    const dsl::Library& library();

    void send(const Json& message) const {
        send_(message.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    void refuse(const Json& id, int code, const std::string& why) const;

    const std::vector<std::string> search_path_;
    const std::function<void(const std::string&)> send_;
    std::deque<Json> waiting_;
    std::map<std::string, Open> documents_;  // by URI
    std::uint64_t versions_ = 0;
    std::unique_ptr<dsl::Library> library_;  // read when something asks for it
    bool is_initialized_ = false, is_shut_down_ = false;
    std::optional<int> ended_;
    Prover prover_;
};

}  // namespace hocket::tools::lsp
