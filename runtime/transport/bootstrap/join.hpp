// Joining: rank 0 (the host) admits the other ranks (its guests).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/transport/bootstrap/bootstrap.hpp"
#include "runtime/transport/bootstrap/link.hpp"

namespace hocket::transport {

// Both return when all ranks have joined, and throw like Bootstrap::join. When prepare is called, a
// newcomer's options hold its rank, world size and time to join. prepare: does everything else that this rank
// needs to be a member; called before the job starts. If it throws, or anything else fails after a rank was
// admitted, all ranks fail to join, with the same status and the failing rank's words.
std::vector<Link> admit_guests(const BootstrapOptions& options,
                               const std::function<void()>& prepare);  // by rank; entry 0 is empty
Link join_host(BootstrapOptions& options, const std::function<void()>& prepare);

// The payload of an abort frame. decode_abort throws ProtocolError.
std::string encode_abort(const Error& error);
Error decode_abort(std::string_view payload);

}  // namespace hocket::transport
