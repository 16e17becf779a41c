// How ranks find each other without a known address: by an id that the program passes to them, or by a store
// of the program's own, from which they read that id.
#pragma once

#include <cstddef>
#include <string>

#include "capi/hocket.h"
#include "runtime/base/error.hpp"
#include "runtime/engine/job/options.hpp"

namespace hocket::capi {

// Opens a socket of this process, which is to be rank 0. Throws Error(bootstrap, invalid_argument).
void invite(hkt_unique_id& id);

std::string text_of(const hkt_unique_id& id);

// Returns how many processes are waiting at the id to be taken in. Throws Error(invalid_argument).
std::size_t waiting_at(const hkt_unique_id& id);

// Turns away the processes that are waiting at the id. Throws Error(invalid_argument).
void close_door(const hkt_unique_id& id);

// Returns true if the ranks meet by an id or a store. Throws Error(invalid_argument) if the caller names the
// meeting place in two ways.
bool meets_by_invitation(const hkt_comm_options& given);

// Sets the options' rendezvous if the ranks meet by invitation. With a store, waits for rank 0. Throws Error
// (invalid_argument; bootstrap, timeout: as the store reports).
void accept_invitation(const hkt_comm_options& given, engine::Options& options);

// Returns an error of joining, extended by how the ranks meet if they meet by a store.
Error with_rendezvous(const hkt_comm_options& given, const Error& error);

}  // namespace hocket::capi
