// An invitation to a job, for programs that have their own way to pass a short text to all ranks: the address
// of rank 0, with a port that the system has chosen, and a fresh secret.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "runtime/transport/bootstrap/lobby.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

struct Invitation {
    Endpoint at;
    std::string secret;

    static constexpr std::size_t longest_text = 127;
    std::string text() const;
    // Throws Error(invalid_argument).
    static Invitation parse(const std::string& text);
};

// Opens a socket in this process, which is to be rank 0, and keeps it until it is taken. address: numeric,
// where the other ranks reach this host. At most 1024 invitations are open at a time. Thread-safe. Throws
// Error(bootstrap).
Invitation invite(const std::string& address);

// Returns the lobby of an invitation that invite() gave in this process; null if it has been taken, or
// belongs to another process. Thread-safe.
std::unique_ptr<Lobby> take_lobby(const Invitation& invitation);

// Returns how many processes wait there (Lobby::waiting); nullopt where take_lobby() would return null.
// Thread-safe. Throws Error(transport).
std::optional<std::size_t> waiting_at(const Invitation& invitation);

}  // namespace hocket::transport
