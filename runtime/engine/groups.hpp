// Communicators of some of a communicator's ranks, or of more.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/engine/communicator.hpp"

namespace hocket::engine {

// Splits the parent. Collective over all its ranks: ranks that give the same color make a communicator,
// ordered by their keys, then by their ranks in the parent. Returns null on ranks that give no color. The new
// communicator has the parent's settings except the topology, which is detected; it shares what the parent
// has read and proved of schedules, and has sockets and plans of its own. Throws hocket::Error as
// Communicator::create does.
//
// what: must be the same text on all ranks; otherwise throws Error(mismatch) on all of them.
std::unique_ptr<Communicator> split(Communicator& parent, const std::string& what, std::optional<int> color,
                                    int key);

// Makes a communicator of the parent's surviving ranks, in their order. Collective over these ranks. The
// parent is treated as failed. If further ranks are lost meanwhile, the communicator consists of the ranks
// that then remain. Throws hocket::Error: timeout (a surviving rank does not call this), and as
// Communicator::create does.
std::unique_ptr<Communicator> shrink(Communicator& parent);

// In place of the number of new processes: all that are waiting at rank 0's invitation.
inline constexpr int those_waiting = 0;

// Makes a communicator of the parent's ranks, which keep their ranks, and of `newcomers` new processes that
// come to rank 0's invitation (Options::is_newcomer), which get the following ranks. Collective over the
// parent's ranks. Returns null for those_waiting if no process is waiting. The parent stays usable, even if
// not all new processes come in time. Either all ranks of the parent have the new communicator or none, and
// the new processes have it only if these ranks do. invitation: rank 0's, as text; ignored on other ranks.
// Throws hocket::Error as Communicator::create does; mismatch: ranks give different numbers; invalid_argument
// on all ranks if rank 0's invitation is not open in its process.
std::unique_ptr<Communicator> grow(Communicator& parent, int newcomers, const std::string& invitation);

}  // namespace hocket::engine
