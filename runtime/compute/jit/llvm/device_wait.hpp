// The code by which a thread of a device plan waits for a local peer, and gives up.
#pragma once

#include <llvm/IR/Module.h>

#include "runtime/compute/jit/llvm/device_target.hpp"

namespace hocket::jit {

// Words that a block's threads share: the stripe at work; whether the block gives up; the epoch; the time
// when the block began.
inline constexpr unsigned ticket_word = 0, given_up_word = 1, epoch_word = 2, start_word = 3;
static_assert(start_word < shared_words);

// Adds an internal function to the module:
//
//   wait(arguments, context, line, wanted, peer, operation, stripe, start)
//
// It returns when the line's sequence has reached `wanted`. If that will not be (DeviceReport::Reason), it
// writes the report, unless another thread has, sets the abort words of this rank and of all local peers and
// the block's given_up_word, and returns, too. start: when the block began (DeviceTarget::now).
// peer, operation: 32 bits; line: an address; wanted, stripe, start: 64 bits.
llvm::Function* build_wait(const DeviceShape& shape, const DeviceTarget& target, llvm::Module& module);

// Adds an internal function to the module:
//
//   take(arguments, context, packet, wanted, peer, operation, index, start)
//
// It returns the data (32 bits) of the packet with this index, once the packet is of the start `wanted`. It
// gives up like wait(). A local peer that goes by lines may wait for this rank meanwhile, because it has
// started something else: so take() also gives the first signal after a while.
llvm::Function* build_take(const DeviceShape& shape, const DeviceTarget& target, llvm::Module& module);

// Emits the store of the first signal of an epoch to a local peer's line, with the identity of what this rank
// has started.
struct SignalValues {
    llvm::Value *arguments, *context, *line, *sequence;
};
void emit_signal(llvm::IRBuilder<>& ir, const DeviceTarget& target, const SignalValues& values,
                 bool has_identity);

// Returns the address of a local peer's object of the current epoch. of_peers: an array of addresses by local
// peer; most: the objects of an epoch; bytes: of an object.
struct OfEpoch {
    llvm::Value *of_peers, *peer, *epoch, *most, *index;
    std::uint64_t bytes;
};
llvm::Value* address_in_epoch(llvm::IRBuilder<>& ir, const OfEpoch& what);

// Returns `identity` so changed that no other number of stripes makes the same of it; from that, it returns
// the identity again.
llvm::Value* of_stripes(llvm::IRBuilder<>& ir, llvm::Value* arguments, llvm::Value* identity);

// The members of a DeviceReport.
struct ReportValues {
    llvm::Value *reason, *operation, *peer, *stripe, *seen;
};
// Writes the report, unless it is taken.
void emit_report(llvm::IRBuilder<>& ir, const DeviceTarget& target, llvm::Value* report,
                 const ReportValues& values);

}  // namespace hocket::jit
