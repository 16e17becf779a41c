// Communicators of some of a communicator's ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/engine/communicator.hpp"

namespace hocket::engine {

// Collective over all ranks of the parent: those that give the same color make a communicator, in the order
// of their keys, then of their ranks in the parent. Null on ranks that give no color. It has the parent's
// settings except the topology, which is found, what the parent has read and proved of schedules, and sockets
// and plans of its own. Throws hocket::Error as Communicator::create does.
//
// what: all ranks must say the same; otherwise throws Error(mismatch) on all of them.
std::unique_ptr<Communicator> split(Communicator& parent, const std::string& what, std::optional<int> color,
                                    int key);

// Collective over the ranks of the parent that are left: a communicator of them, in their order. The parent
// is as good as failed. If others are lost meanwhile, it is one of those that remain after that. Throws
// hocket::Error: timeout (a rank that has not ended does not call this), and as Communicator::create does.
std::unique_ptr<Communicator> shrink(Communicator& parent);

// Instead of how many new processes: all that wait at rank 0's invitation.
inline constexpr int those_waiting = 0;

// Collective over the ranks of the parent: a communicator of them, with their ranks, and of `newcomers` more
// processes that come to rank 0's invitation (Options::is_newcomer), with the ranks after these. Null if it
// was to be of those that wait, and none does. The parent stays as it is, also if not all come in time. All
// its ranks have the new communicator or none, and the new processes only if these have. invitation: rank
// 0's, as text; what other ranks give does not matter. Throws hocket::Error as Communicator::create does;
// mismatch: another number on another rank; invalid_argument on all ranks if rank 0's is none that is open in
// its process.
std::unique_ptr<Communicator> grow(Communicator& parent, int newcomers, const std::string& invitation);

}  // namespace hocket::engine
