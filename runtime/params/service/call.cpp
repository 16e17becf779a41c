#include "runtime/params/service/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/params/links/link.hpp"
#include "runtime/params/service/identity.hpp"
#include "runtime/transport/net/dial.hpp"
#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::params {
namespace {

using Json = nlohmann::json;

// Receives one note, or the reason why the connection ended before it arrived.
class Listener final : public Link::Owner {
  public:
    std::optional<Json> heard;
    std::string trouble;

  private:
    void received(Link&, const Json& note) override { heard = note; }
    void received(Link& link, Message) override {
        broke(link, "it sent elements to a process that only asks for the status");
    }
    void broke(Link& link, const std::string& why) override {
        trouble = why;
        link.close();
    }
    ChunkShape shape_of(const Link&, Chunk) const override {
        throw transport::ProtocolError("it sent elements to a process that only asks for the status");
    }
    Bounds bounds(const Link&) const override { return {}; }
    PriorityGate* gate() const override { return nullptr; }
};

// After this time the worker logs that it waits for the server.
constexpr std::chrono::milliseconds quiet_time{2000};

// Logs after a while what the process waits for: people who started a worker cannot see it otherwise.
transport::Socket dial_with_patience(transport::Dial dial, transport::Clock::time_point until) {
    const auto gone_for =
        std::exchange(dial.gone_for, std::min<transport::Clock::duration>(dial.gone_for, quiet_time));
    try {
        return transport::dial(dial, {until});
    } catch (const transport::DialError& error) {
        if (error.kind != transport::DialError::Kind::unreachable || gone_for <= quiet_time ||
            transport::Clock::now() >= until)
            throw;
        log_line(
            "hocket-params: worker: there is no way to the parameter server {}: {}; it tries again for {}",
            dial.to.text(), error.what(),
            transport::seconds_text(
                std::chrono::ceil<std::chrono::seconds>(until - transport::Clock::now())));
    }
    dial.gone_for = gone_for - quiet_time;
    return transport::dial(dial, {until});
}

}  // namespace

transport::Socket call_server(const transport::Endpoint& server, const std::string& secret, int priority,
                              std::chrono::milliseconds timeout, std::chrono::milliseconds gone_for) try {
    if (secret.empty())
        throw Error(
            Status::invalid_argument,
            "a parameter service needs a secret: set HOCKET_SECRET to the same text in all of its processes");
    return dial_with_patience(
        {.to = server, .secret = secret, .identity = identity(priority), .gone_for = gone_for},
        transport::Clock::now() + timeout);
} catch (const transport::DialError& error) {
    if (error.kind != transport::DialError::Kind::refused) {
        const bool is_unreachable = error.kind == transport::DialError::Kind::unreachable;
        throw Error(Status::bootstrap,
                    fmt::format("there is no way to the parameter server {}: {}{}", server.text(),
                                error.what(), is_unreachable ? "; is one running there?" : ""));
    }
    // The server refuses this process for its secret, or else for its version.
    const bool is_mismatch = error.what() != std::string(wrong_secret);
    throw Error(is_mismatch ? Status::mismatch : Status::bootstrap,
                fmt::format("the parameter server {} refuses this process: {}", server.text(), error.what()));
}

std::string ask_for_stats(const transport::Endpoint& server, const std::string& secret,
                          std::chrono::milliseconds timeout) {
    const auto until = transport::Clock::now() + timeout;
    transport::SocketLoop loop(transport::SocketLoop::Way::poll);
    Listener listener;
    Link link(loop, call_server(server, secret, 0, timeout, {}), Memory::make(), listener);
    link.send(Json{{"say", "stats"}});
    while (!listener.heard && link.is_open() && transport::Clock::now() < until) loop.turn(until);
    if (listener.heard && listener.heard->value("say", "") == "stats") {
        listener.heard->erase("say");
        return listener.heard->dump();
    }
    if (!link.is_open())
        throw Error(Status::peer_lost, fmt::format("the connection with the parameter server {} broke: {}",
                                                   server.text(), listener.trouble));
    throw Error(Status::timeout, fmt::format("the parameter server {} has not answered within {}",
                                             server.text(), transport::seconds_text(timeout)));
}

}  // namespace hocket::params
