#include "runtime/transport/bootstrap/invitation.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/forks.hpp"
#include "runtime/base/random.hpp"
#include "runtime/transport/net/listening.hpp"

namespace hocket::transport {
namespace {

constexpr const char* mark = "hocket1";
constexpr std::size_t secret_bytes = 16, most_open = 1024;
constexpr std::chrono::seconds time_to_bind{5};

struct OpenInvitations {
    std::mutex mutex;
    std::map<std::string, std::unique_ptr<Lobby>> lobbies;  // by text
};

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words(1);
    for (const char letter : text)
        if (letter == ' ')
            words.emplace_back();
        else
            words.back() += letter;
    return words;
}

}  // namespace

std::string Invitation::text() const {
    return fmt::format("{} {} {} {}", mark, at.host, at.port, secret);
}

Invitation Invitation::parse(const std::string& text) {
    const std::vector<std::string> words = words_of(text);
    Invitation result;
    if (words.size() == 4 && words[0] == mark && !words[1].empty() && words[3].size() == 2 * secret_bytes) {
        const char* const end = words[2].data() + words[2].size();
        const auto [stop, error] = std::from_chars(words[2].data(), end, result.at.port);
        if (error == std::errc() && stop == end && result.at.port > 0 && result.at.port < 65536) {
            result.at.host = words[1];
            result.secret = words[3];
            return result;
        }
    }
    throw Error(Status::invalid_argument,
                "this is not a unique id: pass on the whole id that hkt_unique_id_create wrote on rank 0");
}

Invitation invite(const std::string& host) {
    Socket listener = listen_on({host, 0}, Clock::now() + time_to_bind,
                                "it must be an address of this host; HOCKET_FABRIC_ADDR chooses another one");
    const auto bound = bound_to(listener);
    if (!bound) throw Error(Status::bootstrap, "a socket that was just bound has no address");
    Invitation invitation{{host, bound->port}, random_hex(secret_bytes)};
    OpenInvitations& open = forks::own<OpenInvitations>();
    const std::lock_guard lock(open.mutex);
    if (open.lobbies.size() >= most_open)
        throw Error(
            Status::bootstrap,
            fmt::format("{} unique ids were made here and not used; a communicator of rank 0 uses one",
                        most_open));
    open.lobbies.emplace(invitation.text(), std::make_unique<Lobby>(std::move(listener), invitation.secret));
    return invitation;
}

std::unique_ptr<Lobby> take_lobby(const Invitation& invitation) {
    OpenInvitations& open = forks::own<OpenInvitations>();
    const std::lock_guard lock(open.mutex);
    auto node = open.lobbies.extract(invitation.text());
    return node.empty() ? nullptr : std::move(node.mapped());
}

std::optional<std::size_t> waiting_at(const Invitation& invitation) {
    OpenInvitations& open = forks::own<OpenInvitations>();
    const std::lock_guard lock(open.mutex);
    const auto found = open.lobbies.find(invitation.text());
    if (found == open.lobbies.end()) return std::nullopt;
    return found->second->waiting();
}

}  // namespace hocket::transport
