// An invitation to a job, for programs that have a way of their own to hand a short text to all ranks: where
// rank 0 listens, on a port that the system has chosen, and a fresh secret.
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

// Opens a socket in this process, which is to be rank 0's, and keeps it until it is taken. address: numeric,
// at which the other ranks reach this host. At most 1024 invitations are open at a time.
// Thread-safe. Throws Error(bootstrap).
Invitation invite(const std::string& address);

// Where those come to whom invite() gave this invitation in this process; null if that has been taken, or is
// another process's. Thread-safe.
std::unique_ptr<Lobby> take_lobby(const Invitation& invitation);

// How many processes wait there (Lobby::waiting); nothing where take_lobby() would give null. Thread-safe.
// Throws Error(transport).
std::optional<std::size_t> waiting_at(const Invitation& invitation);

}  // namespace hocket::transport
