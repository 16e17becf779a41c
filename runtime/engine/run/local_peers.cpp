#include "runtime/engine/run/local_peers.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hocket::engine {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t whole_pages(std::size_t bytes) {
    return (bytes + page - 1) / page * page;
}

// The space for the copies of all slots.
constexpr std::size_t all_copies_bytes = LocalPeers::slots * 2 * LocalPeers::copies_bytes;

// Fetches a line that local peers have read before this rank has to write it.
void about_to_write(const void* line) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0"
                 :
                 : "m"(*static_cast<const char*>(line)));  // a no-op on processors without this instruction
#else
    __builtin_prefetch(line, 1);
#endif
}

void relax() {
#if defined(__x86_64__)
    _mm_pause();
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

// The reserved part of a slice holds the board, then the copies of all slots, then the mailboxes.
std::size_t LocalPeers::reserved_bytes(int members) {
    return whole_pages(sizeof(Board)) + all_copies_bytes + static_cast<std::size_t>(members) * mailbox_bytes;
}

std::byte* LocalPeers::mailbox(Member owner, Member sender) const {
    return window_->reserved(owner) + reserved_bytes(sender);
}

bool LocalPeers::can_fence_others() {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

LocalPeers::LocalPeers(std::unique_ptr<transport::Window> window, std::vector<dsl::Rank> ranks, int cores,
                       bool fences_others)
    : window_(std::move(window)),
      ranks_(std::move(ranks)),
      members_of_(static_cast<std::size_t>(ranks_.back() + 1), -1),
      agreed_(ranks_.size(), -1),
      heard_(ranks_.size(), 0),
      ranks_per_core_((static_cast<int>(ranks_.size()) + cores - 1) / cores),
      // Where ranks share cores, each tile costs switches between them. Elsewhere there is space for more
      // tiles than are in flight: lines that leave the peers' own caches before they are written again cost
      // the writer no wait for a peer.
      tile_bytes_(ranks_per_core_ > 1 ? 2 * least_tile_bytes : least_tile_bytes),
      spins_(ranks_per_core_ > 1 ? crowded_spins : spins),
      fences_others_(fences_others) {
    for (std::size_t member = 0; member < ranks_.size(); ++member)
        members_of_[static_cast<std::size_t>(ranks_[member])] = static_cast<Member>(member);
    if (!kernels::has_path_past_caches) hand_over_path_ = kernels::Path::cache;
}

std::byte* LocalPeers::copies(Member member, std::uint64_t number, std::uint64_t tile, dsl::AreaId area,
                              std::uint64_t bytes) const {
    if (area == dsl::input_area && bytes <= tiny_bytes) return line(member, number).tiny;
    const std::uint64_t place =
        (number % slots * 2 + area) * copies_bytes + tile * tile_bytes_ % copies_bytes;
    return window_->reserved(member) + whole_pages(sizeof(Board)) + place;
}

bool LocalPeers::agrees(Member member, std::uint64_t number, std::uint32_t checksum) {
    const Line& theirs = line(member, number);
    if (theirs.checksum != checksum) return false;
    agreed_[member] = std::max(agreed_[member], static_cast<std::int64_t>(number));
    heard_[member] = std::max(heard_[member], theirs.completed);
    return true;
}

bool LocalPeers::shows(Member member, std::uint64_t number, std::uint32_t checksum) {
    if (shown(member, number).checksum != checksum) return false;
    agreed_[member] = std::max(agreed_[member], static_cast<std::int64_t>(number));
    return true;
}

std::int64_t LocalPeers::agreed_until(dsl::Rank rank) const {
    const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
    return found == ranks_.end() ? -1 : agreed_[static_cast<std::size_t>(found - ranks_.begin())];
}

// A rank that falls asleep after the store sees the new value; one that fell asleep before is seen here. If
// the sleepers do not ensure that order by a fence in this process, the store must be complete before the
// load, which takes as long as fetching the line from a local peer's cache.
void LocalPeers::publish(std::atomic<std::uint64_t>& word, std::uint64_t value) {
    if (fences_others_) {
        word.store(value, std::memory_order_release);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
        word.exchange(value);
    }
    if (board(0).sleepers.load() != 0) ring_sleepers();
}

void LocalPeers::signal(std::uint64_t number, std::uint64_t tile, std::uint64_t value) {
    publish(reached(line(self(), number), tile), stamp(number, value));
}

void LocalPeers::ring_sleepers() {
    for (Member member = 0; member < members(); ++member)
        if (member != self() && board(member).asleep.load() != 0 && board(member).asleep.exchange(0) != 0)
            window_->ring(member);
}

bool LocalPeers::has_reached(Member member, std::uint64_t number, std::uint64_t tile,
                             std::uint64_t value) const {
    for (int i = 0; i < spins_; ++i) {
        if (is_there(member, number, tile, value)) return true;
        relax();
    }
    return is_there(member, number, tile, value);
}

void LocalPeers::complete(std::uint64_t number) {
    if (number == completed_) return;
    completed_ = number;
    publish(board(self()).completed, number);
    about_to_write(&line(self(), number));
    about_to_write(&line(self(), number).tiny[16]);
}

bool LocalPeers::is_free(std::uint64_t number) {
    if (number < slots) return true;
    for (Member member = 0; member < members(); ++member) {
        if (member == self() || heard_[member] > number - slots) continue;
        heard_[member] = board(member).completed.load(std::memory_order_acquire);
        if (heard_[member] <= number - slots) return false;
    }
    return true;
}

std::optional<dsl::Rank> LocalPeers::busy_since(std::uint64_t number) const {
    for (Member member = 0; member < members(); ++member)
        if (member != self() && number >= slots && heard_[member] <= number - slots) return ranks_[member];
    return std::nullopt;
}

// Either the owner sees that a copy is under way, or this rank sees that the memory was withdrawn.
bool LocalPeers::begin_pull(Member of) {
    board(self()).pulls.fetch_add(1);
    if (board(of).is_withdrawn.load() == 0) return true;
    end_pull();
    return false;
}

void LocalPeers::end_pull() {
    board(self()).pulls.fetch_sub(1);
}

bool LocalPeers::withdraw(std::chrono::steady_clock::time_point until) {
    board(self()).is_withdrawn.store(1);
    const auto has_ended = [this] {
        for (Member member = 0; member < members(); ++member)
            if (member != self() && board(member).pulls.load() != 0) return false;
        return true;
    };
    while (!has_ended()) {
        if (std::chrono::steady_clock::now() >= until) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

void LocalPeers::fall_asleep() {
    board(self()).asleep.store(1);
    board(0).sleepers.fetch_add(1);
    // This precedes the last look at the others: either their values are visible by then, or they will ring.
    if (fences_others_) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

void LocalPeers::wake_up() {
    board(0).sleepers.fetch_sub(1);
    board(self()).asleep.store(0);
    window_->quiet();
}

}  // namespace hocket::engine
