// How ranks find each other where no address is known beforehand: by an id that the program hands to them, or
// by a store of the program's own, in which they find that id.
#pragma once

#include "capi/hocket.h"
#include "runtime/engine/job/options.hpp"
#include "runtime/error.hpp"
#include "runtime/net/socket.hpp"

namespace hocket::capi {

// Opens a socket of this process, which is to be rank 0. Throws Error(bootstrap, invalid_argument).
void invite(hkt_unique_id& id);

// Whether the ranks meet so. Throws Error(invalid_argument) if the caller says in two ways where they meet.
bool meets_by_invitation(const hkt_comm_options& given);

// Puts into the options where the ranks meet, if they meet by invitation. Returns rank 0's socket, which must
// stay open until all have joined. Waits, in the store, for rank 0. Throws Error (invalid_argument;
// bootstrap, timeout: what the store says).
transport::Socket accept_invitation(const hkt_comm_options& given, engine::Options& options);

// An error of joining, with how the ranks meet, if they do so in a store.
Error with_meeting(const hkt_comm_options& given, const Error& error);

}  // namespace hocket::capi
