// The ranks that share this host's memory: the state that they publish for each other there, and how they
// wait for each other.
//
// Every start of the communicator uses a *slot*, the same on all ranks. Several starts can be in flight, and
// slots are used in turn. In a slot each rank has a line that only it writes: its progress, and the places of
// its buffers. A slot also has room for copies of small or private buffers.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/processor.hpp"
#include "runtime/compute/kernels/cpu/hand_over.hpp"
#include "runtime/device/exported.hpp"
#include "runtime/engine/plan/address.hpp"
#include "runtime/engine/run/joint_copy.hpp"
#include "runtime/engine/run/peer_memory.hpp"
#include "runtime/transport/window/window.hpp"

namespace hocket::engine {

using Member = int;  // index of a rank of the host, in the order of ranks

// The memory by which a rank's kernel works with those of other ranks (SharedKernel), as they see it.
struct KernelCard {
    device::Exported memory;
    std::uint64_t context;  // of the device, in the rank's process
    // The offsets of its input, output and work area in the memory, and the boundaries of x at which the
    // first two begin.
    std::array<std::uint64_t, 3> areas;
    std::array<std::uint32_t, 2> origins;
    // The most that the rank's device runs at a time, and the most stripes that its program allows.
    std::uint32_t blocks, threads;
    std::uint64_t stripes;
    // The most bytes of an input that goes by packets, 0 if none can; and where packets lie in the memory.
    std::uint64_t packet_bytes, packets;
};

class LocalPeers {
  public:
    static constexpr std::uint64_t slots = 8;
    static constexpr std::uint64_t tiles_in_flight = 2;  // of each start
    static constexpr std::uint64_t mailbox_bytes = 260 * 1024;

    // A slot's space for copies of tiles' inputs, and as much for copies of their outputs.
    static constexpr std::uint64_t copies_bytes = 512 * 1024;
    static constexpr std::uint64_t least_tile_bytes = copies_bytes / (2 * tiles_in_flight);
    static std::size_t reserved_bytes(int members);  // of each slice of the window

    // Returns true if a rank that falls asleep can order the others' memory accesses remotely, so that a
    // signal costs no more than a store. If one of the ranks cannot, the signals of all ranks use fences.
    static bool can_fence_others();

    // ranks: the host's, ascending; the window's members are in the same order. cores: how many all of them
    // together may use. fences_others: true if can_fence_others() holds on all of them.
    LocalPeers(std::unique_ptr<transport::Window> window, std::vector<dsl::Rank> ranks, int cores,
               bool fences_others, SingleCopy single_copy = SingleCopy::off);

    transport::Window& window() { return *window_; }
    const std::vector<dsl::Rank>& ranks() const { return ranks_; }
    Member self() const { return window_->self(); }
    Member members() const { return window_->members(); }
    Member member_of(dsl::Rank rank) const {
        return members_of_[static_cast<std::size_t>(rank)];
    }  // a rank of the member
    // Returns the area in which this rank's program has the member's input, output or work. Not for this rank
    // itself, which is not among its program's local peers.
    dsl::AreaId area_of(Member member, dsl::AreaId area) const {
        const auto index = static_cast<std::size_t>(member < self() ? member : member - 1);
        return dsl::RankProgram::local_peer_area(index, area);
    }

    // The state that a rank publishes for a start that could go from device to device.
    struct alignas(128) Shown {
        std::atomic<std::uint64_t> marked;  // a stamp(); see DirectRun for the marks
        std::uint32_t checksum;             // as in Line
        bool is_direct, has_opened;         // it can go direct; it could open the memory that it needs
        // Those of its input, output and work that local peers use: the memory, and the bytes of positions
        // that lie before it (the memory less these bytes is the area's virtual base).
        std::array<device::Exported, dsl::areas_of_a_rank> areas;
        std::array<std::uint64_t, dsl::areas_of_a_rank> skipped;
        KernelCard kernel;  // of a start that is to be a kernel of the device
    };

    // The state that a rank publishes for one start. A tiny input lies in the line itself, so that only one
    // cache line moves instead of two.
    static constexpr std::uint64_t tiny_bytes = 192;
    struct alignas(128) Line {
        std::atomic<std::uint64_t> reached;         // see stamp(); the rest is valid from its first stamp on
        std::uint64_t bases[dsl::areas_of_a_rank];  // virtual bases of input, output, work in the slice
        std::uint64_t completed;                    // see complete()
        std::uint32_t checksum;                     // of all operations that this rank has started
        std::uint8_t in_windows;                    // bit_of() those areas that are the caller's buffers
        // The extents of the slice that contain the areas; 0 for areas not used there.
        std::array<std::uint8_t, dsl::areas_of_a_rank> extents;
        alignas(16) std::byte tiny[tiny_bytes];
        std::atomic<std::uint64_t> reached_in_odd_tiles;
        // For a single copy by the kernel: where the process has its input and output, as virtual bases; true
        // if its peers may use them there; at member 0, true if they shall.
        std::array<std::uint64_t, 2> private_bases;
        bool can_lend, is_copied_once;
        // The plan's start that this rank ended last, and its time from when all had come.
        std::uint64_t timed_number, time;  // time: in nanoseconds
        Shown shown;

        static constexpr std::uint8_t bit_of(dsl::AreaId area) {
            return static_cast<std::uint8_t>(1u << area);
        }
        // offset: of the area in the slice, `skipped` bytes after its virtual base.
        void show(dsl::AreaId area, std::uint64_t offset, std::uint64_t skipped) {
            bases[area] = offset - skipped;
            extents[area] = static_cast<std::uint8_t>(transport::extent_of(offset));
        }
    };
    Line& line(Member member, std::uint64_t number) const { return board(member).lines[number % slots]; }
    // Returns the virtual base, in this process, of an area that a member has published. Throws as
    // Window::origin() does.
    std::byte* base(Member member, std::uint64_t number, dsl::AreaId area) const {
        const Line& shown = line(member, number);
        return address(window_->origin(member, shown.extents[area]), shown.bases[area]);
    }
    std::uint64_t tile_bytes() const { return tile_bytes_; }  // the most of a tile
    // The place of a member's copy of its input or output in a tile of a start.
    struct TileCopy {
        Member member;
        dsl::AreaId area;
        std::uint64_t bytes;   // of x in the tile
        std::uint64_t unused;  // of them, before the first position that another member uses; less than bytes
        bool is_swapped;       // is_swapped() when the tile began
    };
    // Returns the place of the tile's first position.
    std::byte* place_of(const TileCopy& copy, std::uint64_t number, std::uint64_t tile) const;
    bool swaps_copies() const { return swaps_copies_; }
    // Tells if the copies of the start's tile of this index lie in each other's slices. The same on all
    // members until each has called note_copies() for the tile.
    bool is_swapped(std::uint64_t number, std::uint64_t tile) const {
        return are_swapped_[number % slots][tile % tiles_in_flight];
    }
    // Call once for each tile whose copies are made, also if this rank makes none.
    void note_copies(std::uint64_t number, std::uint64_t tile) {
        are_swapped_[number % slots][tile % tiles_in_flight] ^= swaps_copies_;
    }
    // Returns the space for data that one member sends to another. It is zeroed, and takes no memory until it
    // is touched.
    std::byte* mailbox(Member owner, Member sender) const;

    // Encodes a rank's progress in start `number`, for its even or its odd tiles. It grows with `value`,
    // which is less than 2^28. While a rank is in a start, no local peer can be in the next start of that
    // slot.
    static std::uint64_t stamp(std::uint64_t number, std::uint64_t value) {
        return (number / slots + 1) << 28 | value;
    }
    void signal(std::uint64_t number, std::uint64_t tile, std::uint64_t value);
    bool is_there(Member member, std::uint64_t number, std::uint64_t tile, std::uint64_t value) const {
        return reached(line(member, number), tile).load(std::memory_order_acquire) - stamp(number, value) <
               (1u << 28);
    }
    Shown& shown(Member member, std::uint64_t number) const { return line(member, number).shown; }
    void mark(std::uint64_t number, std::uint64_t value) {
        publish(shown(self(), number).marked, stamp(number, value));
    }
    bool has_marked(Member member, std::uint64_t number, std::uint64_t value) const {
        return shown(member, number).marked.load(std::memory_order_acquire) - stamp(number, value) <
               (1u << 28);
    }
    // Polls for a moment; afterwards the caller sleeps, or tries again.
    bool has_reached(Member member, std::uint64_t number, std::uint64_t tile, std::uint64_t value) const;
    // Returns true if a local peer has completed start `number` without entering it, because its count was 0.
    bool has_passed_by(Member member, std::uint64_t number) const {
        return board(member).completed.load(std::memory_order_acquire) > number &&
               !is_there(member, number, 0, 1);
    }
    // Returns true if a local peer that has entered start `number` has started the same operations as this
    // rank.
    bool agrees(Member member, std::uint64_t number, std::uint32_t checksum);
    // The same, by the checksum that the local peer has published (shown()).
    bool shows(Member member, std::uint64_t number, std::uint32_t checksum);
    // Returns the last start on which the local peer agreed; -1 if there is none.
    std::int64_t agreed_until(dsl::Rank rank) const;

    // Notes that all starts before `number` are complete on this rank, which will use the line of `number`
    // next.
    void complete(std::uint64_t number);
    std::uint64_t completed() const { return completed_; }
    // Returns true if every local peer has completed the previous start in this slot.
    bool is_free(std::uint64_t number);
    std::optional<dsl::Rank> busy_since(
        std::uint64_t number) const;  // a rank that is not known to have completed it

    // Stores a word that other ranks poll, and wakes the ranks that are asleep.
    void publish(std::atomic<std::uint64_t>& word, std::uint64_t value);
    // As publish(), for a word that one member alone polls.
    void publish_to(Member member, std::atomic<std::uint64_t>& word, std::uint64_t value);

    // Enclose a copy from or to a local peer's memory that is not in the window. begin_pull() returns false
    // if the local peer has failed; its memory must no longer be used.
    bool begin_pull(Member of);
    void end_pull();
    // Call after a failure. Once it has returned true, no local peer reads or writes this rank's memory
    // outside the window, nor will it later. Waits for copies that are under way, until the given time.
    bool withdraw(std::chrono::steady_clock::time_point until);

    // Between these two calls, every signal of a local peer rings this rank's doorbell.
    void fall_asleep();
    void wake_up();

    PeerMemory& peer_memory() { return peer_memory_; }
    const PeerMemory& peer_memory() const { return peer_memory_; }
    // Returns true if this rank can use the private memory of all members.
    bool reaches_private_memory() {
        return peer_memory_.reaches_all(
            [this](Member member) -> const PeerMemory::Card& { return board(member).card; });
    }
    // A copy between this process's memory and a member's private memory: to `own`, or from there.
    struct PrivateCopy {
        Member member;
        bool reads;
        std::byte *own, *theirs;
        std::uint64_t bytes;
    };
    // Returns false if the member has failed or its process has ended, of which the bootstrap will tell.
    // Throws what PeerMemory throws.
    bool copy_private(const PrivateCopy& copy);
    // As copy_private(), with the member's help. open_joint() returns false if another start of this rank has
    // one open, or if the copy is too small. is_busy: this rank has something else to do meanwhile, so that a
    // small one is worth it if the member has a core to itself. take_joint() copies what nobody has taken
    // yet. has_joint_ended() polls for a moment; once it has returned true, all is copied, and nothing open.
    bool open_joint(const PrivateCopy& copy, bool is_busy);
    void take_joint();
    bool has_joint_ended();
    // The member that has taken blocks of this rank's open copy, and is not at their end; none while this
    // rank itself has blocks to take.
    std::optional<Member> awaited_helper() const {
        return open_ && open_->are_all_taken ? std::optional(open_->copy.member) : std::nullopt;
    }
    // The blocks that this rank has copied so far, of its joint copies and of others'.
    std::uint64_t joint_blocks() const { return joint_blocks_; }
    // Copies a block for a member if it has a copy with this rank open. Returns false if it has none.
    bool help(Member member);
    // As has_reached(), and helps that member meanwhile, and once all others, for which it may wait.
    bool has_reached_by_help(Member member, std::uint64_t number, std::uint64_t tile, std::uint64_t value);

    // What the last timed tile of a program took this rank's processor, in nanoseconds for each byte of x,
    // and what it took the others together. program: its fingerprint.
    void show_cost(kernels::Path path, std::uint64_t program, double per_byte);
    double cost_of_others(kernels::Path path, std::uint64_t program) const;

    int ranks_per_core() const { return ranks_per_core_; }  // rounded up
    // The path of all data to local peers; nullopt: each run decides (SharedRun::begin).
    void hand_over_by(kernels::Path path) { hand_over_path_ = path; }
    std::optional<kernels::Path> hand_over_path() const { return hand_over_path_; }

  private:
    struct Board {
        alignas(128) std::atomic<std::uint64_t> completed;
        alignas(128) std::atomic<std::uint32_t> asleep;
        alignas(128) std::atomic<std::uint32_t> sleepers;  // of the whole host, on the first member's board
        alignas(128) std::atomic<std::uint32_t> pulls;     // copies that begin_pull() has allowed
        std::atomic<std::uint32_t> is_withdrawn;
        PeerMemory::Card card;
        JointCopy joint;
        // By path: a program's, and the cost as a float.
        alignas(128) std::atomic<std::uint64_t> costs[2];
        Line lines[slots];
    };
    static constexpr int crowded_spins = 2, spins = 400;

    static constexpr std::size_t whole_pages(std::size_t bytes) {
        constexpr std::size_t page = 4096;
        return (bytes + page - 1) / page * page;
    }

    static std::atomic<std::uint64_t>& reached(Line& line, std::uint64_t tile) {
        return tile % tiles_in_flight == 0 ? line.reached : line.reached_in_odd_tiles;
    }
    Board& board(Member member) const { return *reinterpret_cast<Board*>(window_->reserved(member)); }
    // Returns the copies of all slots in a member's slice of the window.
    std::byte* copies_of(Member member) const {
        return window_->reserved(member) + whole_pages(sizeof(Board));
    }
    void ring_sleepers();
    void ring_if_asleep(Member member);

    std::unique_ptr<transport::Window> window_;
    std::vector<dsl::Rank> ranks_;
    std::vector<Member> members_of_;    // by rank
    std::vector<std::int64_t> agreed_;  // by member
    std::vector<std::uint64_t> heard_;  // by member: the starts it has completed, as far as known
    std::uint64_t completed_ = 0;
    int ranks_per_core_;
    bool swaps_copies_;  // two ranks, each on a core of its own
    std::array<std::array<bool, tiles_in_flight>, slots> are_swapped_{};
    std::uint64_t tile_bytes_;
    int spins_;
    bool fences_others_;
    std::optional<kernels::Path> hand_over_path_;
    PeerMemory peer_memory_;
    // The copy that this rank has open: its blocks that nobody is known to have copied, and the number of
    // others' blocks when it was opened.
    struct OpenCopy {
        PrivateCopy copy;
        std::uint64_t left, copied_by_others;
        bool are_all_taken = false;
    };
    std::optional<OpenCopy> open_;
    std::uint64_t joint_blocks_ = 0;
};

// ---- Inline ----------------------------------------------------------------------------------------------
//
// Calls of these functions would make collectives of some bytes, which take 200 ns, 2 to 6 % slower.

// A line is cheapest to write for the core that has read it last: many processors hand a changed line over to
// its reader, and the earlier writer would have to fetch it back. So two ranks swap the memory of their
// copies each time that it is used again. For that the first byte that the other one reads has one place in
// it, whatever its position in x.
inline std::byte* LocalPeers::place_of(const TileCopy& copy, std::uint64_t number, std::uint64_t tile) const {
    if (copy.area == dsl::input_area && copy.bytes <= tiny_bytes) return line(copy.member, number).tiny;
    const std::uint64_t copies_of_area = (number % slots * 2 + copy.area) * copies_bytes;
    if (!swaps_copies_)
        return address(copies_of(copy.member), copies_of_area + tile * tile_bytes_ % copies_bytes);
    constexpr std::uint64_t room = copies_bytes / tiles_in_flight;
    return address(copies_of(copy.is_swapped ? 1 - copy.member : copy.member),
                   copies_of_area + tile % tiles_in_flight * room + room / 2 - copy.unused);
}

inline bool LocalPeers::agrees(Member member, std::uint64_t number, std::uint32_t checksum) {
    const Line& theirs = line(member, number);
    if (theirs.checksum != checksum) return false;
    agreed_[member] = std::max(agreed_[member], static_cast<std::int64_t>(number));
    heard_[member] = std::max(heard_[member], theirs.completed);
    return true;
}

// A rank that falls asleep after the store sees the new value; one that fell asleep before is seen here. If
// the sleepers do not ensure that order by a fence in this process, the store must be complete before the
// load, which takes as long as fetching the line from a local peer's cache.
inline void LocalPeers::publish(std::atomic<std::uint64_t>& word, std::uint64_t value) {
    if (fences_others_) {
        word.store(value, std::memory_order_release);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
        word.exchange(value);
    }
    if (board(0).sleepers.load() != 0) ring_sleepers();
}

inline void LocalPeers::signal(std::uint64_t number, std::uint64_t tile, std::uint64_t value) {
    publish(reached(line(self(), number), tile), stamp(number, value));
}

inline bool LocalPeers::has_reached(Member member, std::uint64_t number, std::uint64_t tile,
                                    std::uint64_t value) const {
    for (int i = 0; i < spins_; ++i) {
        if (is_there(member, number, tile, value)) return true;
        relax();
    }
    return is_there(member, number, tile, value);
}

inline void LocalPeers::complete(std::uint64_t number) {
    if (number == completed_) return;
    completed_ = number;
    publish(board(self()).completed, number);
    about_to_write(&line(self(), number));
    about_to_write(&line(self(), number).tiny[16]);
}

inline bool LocalPeers::is_free(std::uint64_t number) {
    if (number < slots) return true;
    for (Member member = 0; member < members(); ++member) {
        if (member == self() || heard_[member] > number - slots) continue;
        heard_[member] = board(member).completed.load(std::memory_order_acquire);
        if (heard_[member] <= number - slots) return false;
    }
    return true;
}

}  // namespace hocket::engine
