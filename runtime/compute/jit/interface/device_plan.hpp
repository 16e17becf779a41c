// The one kernel that runs a rank's program on a device: everything that its code depends on, and the memory
// that it works on. docs/decisions/device-plans-as-kernels.md says why it is as it is.
//
// The threads of a device are in blocks. The work is divided into *stripes*: stripe s is the s-th stretch of
// each atom, which is what lies between two adjacent boundaries of the program. A block takes the next
// stripe, runs the whole program on it, in program order, and takes another. A stripe waits for the same
// stripe of local peers, and for nothing else.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/types.hpp"
#include "runtime/compute/jit/interface/kernel_shape.hpp"

namespace hocket::jit {

// ---- The code -----------------------------------------------------------------------------------

// A step of the program, on one stripe.
struct DeviceStep {
    enum class Kind : std::uint8_t {
        elements,  // a combine or a copy: `kernel`
        signal,    // tells all local peers that signal `message` has been reached
        await,     // waits until the local peer `peer` has reached its signal `message`
        push,      // sends this rank's input to all local peers, as packets
        pull,      // waits for the input of the local peer `peer`, which comes as packets
    };
    Kind kind;
    std::uint32_t operation;                // its index in the rank's program, or their number: for reports
    KernelShape kernel = {};                // elements
    std::vector<std::uint32_t> areas = {};  // elements: the destinations', then the operands'
    std::uint32_t operands = 0;             // elements
    std::uint32_t begin = 0, end = 0;       // elements: the boundaries of its region
    // elements: threads of a block divide each step's elements in another way, so a step that uses what an
    // earlier one has made waits for the block's other threads.
    bool synchronizes = false;
    std::uint32_t peer = 0;     // await, pull: index among the local peers
    std::uint32_t message = 0;  // signal, await: from 1 to most_signals

    std::uint32_t destinations() const { return static_cast<std::uint32_t>(areas.size()) - operands; }
    auto operator<=>(const DeviceStep&) const = default;
};

// The program. Counts are not part of it.
struct DeviceShape {
    std::vector<DeviceStep> steps;
    // Of starts whose inputs travel as packets, by one block, on all elements at once; empty: none can.
    std::vector<DeviceStep> packet_steps;
    std::uint32_t areas = 0;  // of the program, and two more: the caller's input and output
    std::uint32_t peers = 0;  // the other ranks

    auto operator<=>(const DeviceShape&) const = default;
};

// Ranks differ in numbers that the code reads from a table: a step's areas, then its boundaries; an await's
// local peer, message and operation; a pull's local peer and operation. Returns them, in the order of the
// packet steps and then of the others.
std::vector<std::uint32_t> numbers_of(const DeviceShape& shape);
inline constexpr std::size_t numbers_of_await = 3, numbers_of_pull = 2;
// Returns everything on which the code depends: the shape with a 0 for each of these numbers. Most programs
// leave the same for all ranks of a schedule.
DeviceShape without_numbers(DeviceShape shape);

// The table's name in PTX. The generator writes it without its content, on a line of its own.
inline constexpr const char* numbers_name = "hocket_numbers";

// Blocks may have any number of threads up to this.
inline constexpr std::uint32_t most_device_threads = 256;

// The kernel's name in PTX. Its only parameter is the address of DeviceArguments.
inline constexpr const char* device_kernel_name = "hocket_plan";

// ---- The memory ---------------------------------------------------------------------------------

// How far a rank is with one stripe, as told to one local peer: in memory of the peer, so that the peer polls
// its own memory. Written by one rank, read by the other.
struct DeviceLine {
    std::uint64_t sequence;  // sequence_of() the last signal that the rank has reached
    // Of what it has started: DeviceArguments::identity, and the number of stripes. Written with signal 1.
    std::uint64_t identity;
};

// Numbers never come around: at a million starts a second they last for eight years.
inline constexpr std::uint32_t signal_bits = 16;
inline constexpr std::uint32_t most_signals = (1u << signal_bits) - 1;
constexpr std::uint64_t sequence_of(std::uint64_t epoch, std::uint32_t signal) {
    return epoch << signal_bits | signal;
}

// A part of a rank's input and the number of its start, in memory of the local peer that reads it: one access
// of 64 bits, `start` in the upper half. The reader polls the packet itself, so no signal follows the data,
// and no order between accesses is needed.
struct DevicePacket {
    std::uint32_t data, start;
};

// The most bytes of an input that goes by packets: packets need room for each local peer, and one block moves
// them.
inline constexpr std::uint64_t most_packet_bytes = 16 << 10;

// The first packets of an input hold DeviceArguments::identity.
inline constexpr std::uint64_t header_packets = sizeof(std::uint64_t) / sizeof(DevicePacket::data);
// Numbers of starts come around, but never to 0, which is in memory that was cleared. A rank clears its
// packets in the last two starts, one of each epoch, of each period of half that length, so none that was
// left by a larger start is taken for a new one.
inline constexpr std::uint64_t packet_starts = std::uint64_t{1} << 31, clearing_period = packet_starts / 2;
constexpr std::uint64_t start_of_packets(std::uint64_t epoch) {
    return epoch % packet_starts + 1;
}

// Belongs to a rank's plan. Zero before the first start; later only the kernel writes it, except for `abort`.
struct DeviceControl {
    std::uint32_t ticket;  // the next stripe
    std::uint32_t left;    // blocks that have nothing more to do
    std::uint64_t epoch;   // starts that have ended. The last block to leave counts, so that a graph replays
    // Not 0: the plan is dead, and later starts do nothing but report it. Set by this rank's kernel and by
    // local peers'.
    std::uint32_t abort;
    std::uint32_t unused;
};

// The first wait of a rank that was given up; or that another rank has given up before this one's kernel has
// ended, which may have taken in what that rank has overwritten since.
struct DeviceReport {
    enum class Reason : std::uint32_t {
        none,
        deadline,  // the deadline has passed
        peer,      // another rank has given up
        host,      // the host wants it
        // The local peer has started something else, or divides it in another way: `seen` is its identity, if
        // it has as many stripes.
        mismatch,
    };
    static constexpr std::uint32_t at_no_wait = ~std::uint32_t{0};

    std::uint32_t taken;      // 0; the first that gives up sets it, and fills in the rest
    std::uint32_t reason;     // Reason
    std::uint32_t operation;  // DeviceStep::operation, or at_no_wait
    std::uint32_t peer;       // index among the local peers, or at_no_wait
    std::uint64_t stripe;
    std::uint64_t seen;  // the sequence that the local peer has reached
    // A wait of the start that runs now which has lasted for a while, also one that has ended since:
    // wait_of(). 0: none has.
    std::uint64_t waiting;
};
constexpr std::uint64_t wait_of(std::uint32_t operation, std::uint32_t peer) {
    return (std::uint64_t{operation} + 1) << 32 | peer;
}
constexpr std::uint32_t operation_of_wait(std::uint64_t waiting) {
    return static_cast<std::uint32_t>((waiting >> 32) - 1);
}
constexpr std::uint32_t peer_of_wait(std::uint64_t waiting) {
    return static_cast<std::uint32_t>(waiting);
}

// In memory of the device. The same for all starts with the same buffers and count, so that graphs replay.
//
// Lines and packets: of even epochs, then those of odd ones, because a rank may be one start ahead of a local
// peer.
struct DeviceArguments {
    // The virtual bases of areas (dsl/projection/rank_program.hpp), and behind them those of the caller's
    // input and output: shape.areas.
    std::byte* const* areas;
    const std::uint64_t* boundaries;    // in bytes
    const std::uint64_t* stretches;     // the bytes of a stripe, by atom: stretches_of()
    const DeviceLine* const* inboxes;   // by local peer: its lines for this rank, here
    DeviceLine* const* outboxes;        // by local peer: this rank's lines for it, there
    std::uint32_t* const* peer_aborts;  // by local peer: its DeviceControl::abort
    DeviceControl* control;
    const std::uint32_t* host_abort;  // in memory of the host: not 0 if the host wants the kernel to give up
    DeviceReport* report;
    // Of the start, the same on all ranks: it covers schedule, count, type and operator. The kernel itself
    // compares the numbers of stripes.
    std::uint64_t identity;
    std::uint64_t deadline;      // nanoseconds from a block's begin
    double factor;               // of the input, for kernels that multiply
    std::uint64_t stripes;       // of this start; the same on all ranks
    std::uint64_t most_stripes;  // of any start: the lines of an epoch for one local peer
    // Of a start that goes by packets, on all ranks; `stripes` is 1 then.
    std::uint64_t packets;               // of an input, with the header; 0: the start goes by lines
    std::uint64_t most_packets;          // of any start: the packets of an epoch for one local peer
    const std::byte* pushed;             // this rank's copy of its input, of whole packets
    DevicePacket* const* packets_here;   // by local peer: those for this rank
    DevicePacket* const* packets_there;  // by local peer: those of this rank
    std::byte* const* pulled;            // by local peer: the memory for its input, of whole packets
};

// Returns the bytes of a stripe of each atom. Stripes begin where an atom's alignment repeats; the last ones
// may be shorter, or empty. stripes: not 0.
std::vector<std::uint64_t> stretches_of(const std::vector<std::uint64_t>& boundaries, std::uint64_t stripes);

// ---- The twin -----------------------------------------------------------------------------------

// The same code for the processor, so that it can be run where there is no device. Each thread of each block
// is a thread of the process, and calls TwinCode with a TwinThread of its own.
struct TwinThread {
    std::uint64_t thread, threads;  // of the block
    std::uint64_t blocks;
    std::uint64_t* shared;  // shared_words, of the block
    void (*barrier)(const TwinThread*);
    std::uint64_t (*now)(const TwinThread*);  // nanoseconds
    void (*pause)(const TwinThread*);         // called while it waits
    // Called if the code was compiled for it, before each access to elements, before a line's sequence is
    // released, and after one is acquired. number: the bytes of the elements, or the sequence.
    void (*touch)(const TwinThread*, const void* memory, std::uint64_t number, std::uint32_t access);
};
inline constexpr std::size_t shared_words = 4;
enum class TwinAccess : std::uint32_t { read, write, acquire, release };

using TwinCode = void (*)(const DeviceArguments*, const TwinThread*);

}  // namespace hocket::jit
