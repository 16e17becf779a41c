// How ranks find each other where no address is known beforehand: by an id that the program hands to them, or
// by a store of the program's own, in which they find that id.
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

// How many processes wait at it to be taken in. Throws Error(invalid_argument).
std::size_t waiting_at(const hkt_unique_id& id);

// Turns away those that wait at it. Throws Error(invalid_argument).
void close_door(const hkt_unique_id& id);

// Whether the ranks meet so. Throws Error(invalid_argument) if the caller says in two ways where they meet.
bool meets_by_invitation(const hkt_comm_options& given);

// Puts into the options where the ranks meet, if they meet by invitation. Waits, in the store, for rank 0.
// Throws Error (invalid_argument; bootstrap, timeout: what the store says).
void accept_invitation(const hkt_comm_options& given, engine::Options& options);

// An error of joining, with how the ranks meet, if they do so in a store.
Error with_rendezvous(const hkt_comm_options& given, const Error& error);

}  // namespace hocket::capi
