#include "runtime/engine/run/local_peers.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <thread>

namespace hocket::engine {
namespace {

// The space for the copies of all slots.
constexpr std::size_t all_copies_bytes = LocalPeers::slots * 2 * LocalPeers::copies_bytes;

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
                       bool fences_others, SingleCopy single_copy)
    : window_(std::move(window)),
      ranks_(std::move(ranks)),
      members_of_(static_cast<std::size_t>(ranks_.back() + 1), -1),
      agreed_(ranks_.size(), -1),
      heard_(ranks_.size(), 0),
      ranks_per_core_((static_cast<int>(ranks_.size()) + cores - 1) / cores),
      swaps_copies_(ranks_.size() == 2 && ranks_per_core_ == 1),
      // Where ranks share cores, each tile costs switches between them. Elsewhere there is space for more
      // tiles than are in flight: lines that leave the peers' own caches before they are written again cost
      // the writer no wait for a peer.
      tile_bytes_(ranks_per_core_ > 1 ? 2 * least_tile_bytes : least_tile_bytes),
      spins_(ranks_per_core_ > 1 ? crowded_spins : spins),
      fences_others_(fences_others),
      peer_memory_(single_copy, ranks_) {
    for (std::size_t member = 0; member < ranks_.size(); ++member)
        members_of_[static_cast<std::size_t>(ranks_[member])] = static_cast<Member>(member);
    if (!kernels::has_path_past_caches) hand_over_path_ = kernels::Path::cache;
    if (single_copy != SingleCopy::off) peer_memory_.show(board(self()).card);
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

void LocalPeers::ring_sleepers() {
    for (Member member = 0; member < members(); ++member)
        if (member != self()) ring_if_asleep(member);
}

void LocalPeers::ring_if_asleep(Member member) {
    if (board(member).asleep.load() != 0 && board(member).asleep.exchange(0) != 0) window_->ring(member);
}

// The same order as in publish().
void LocalPeers::publish_to(Member member, std::atomic<std::uint64_t>& word, std::uint64_t value) {
    word.exchange(value);
    if (board(0).sleepers.load() != 0) ring_if_asleep(member);
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

void LocalPeers::show_cost(kernels::Path path, std::uint64_t program, double per_byte) {
    const std::uint64_t cost = std::bit_cast<std::uint32_t>(static_cast<float>(per_byte));
    board(self()).costs[static_cast<std::size_t>(path)].store(program << 32 | cost,
                                                              std::memory_order_relaxed);
}

double LocalPeers::cost_of_others(kernels::Path path, std::uint64_t program) const {
    double sum = 0;
    for (Member member = 0; member < members(); ++member) {
        if (member == self()) continue;
        const std::uint64_t shown =
            board(member).costs[static_cast<std::size_t>(path)].load(std::memory_order_relaxed);
        if (shown >> 32 == (program & 0xffffffff))
            sum += std::bit_cast<float>(static_cast<std::uint32_t>(shown));
    }
    return sum;
}

// Copies stretches of some ms, so that a member that fails need not wait for long.
bool LocalPeers::copy_private(const PrivateCopy& copy) {
    constexpr std::uint64_t longest = std::uint64_t{16} << 20;
    struct End {
        LocalPeers& peers;
        ~End() { peers.end_pull(); }
    };
    for (std::uint64_t at = 0; at < copy.bytes; at += longest) {
        if (!begin_pull(copy.member)) return false;
        const End end{*this};
        const std::uint64_t bytes = std::min(longest, copy.bytes - at);
        const auto outcome = copy.reads
                                 ? peer_memory_.read(copy.member, copy.own + at, copy.theirs + at, bytes)
                                 : peer_memory_.write(copy.member, copy.theirs + at, copy.own + at, bytes);
        if (outcome != PeerMemory::Outcome::done) return false;
    }
    return true;
}

bool LocalPeers::open_joint(const PrivateCopy& copy, bool is_busy) {
    const bool is_worth_it = JointCopy::is_worth_it(copy.bytes) || (is_busy && ranks_per_core_ == 1);
    if (open_ || !is_worth_it) return false;
    JointCopy& joint = board(self()).joint;
    open_ = OpenCopy{.copy = copy,
                     .left = JointCopy::blocks_of(copy.bytes),
                     .copied_by_others = joint.copied_by_others().load(std::memory_order_relaxed)};
    publish_to(
        copy.member, joint.next(),
        joint.prepare({reinterpret_cast<std::uint64_t>(copy.own),
                       reinterpret_cast<std::uint64_t>(copy.theirs), copy.bytes, copy.member, copy.reads}));
    return true;
}

void LocalPeers::take_joint() {
    JointCopy& joint = board(self()).joint;
    const PrivateCopy& whole = open_->copy;
    while (const auto block = joint.take()) {
        // If the member has gone, the copy never ends, and the bootstrap tells of the loss.
        if (!copy_private(
                {whole.member, whole.reads, whole.own + block->at, whole.theirs + block->at, block->bytes}))
            return;
        --open_->left;
        ++joint_blocks_;
    }
    open_->are_all_taken = true;
}

bool LocalPeers::has_joint_ended() {
    if (!open_->are_all_taken) return false;
    const JointCopy& joint = board(self()).joint;
    for (int i = 0; i < spins_; ++i) {
        if (joint.have_others_copied(open_->left, open_->copied_by_others)) {
            open_.reset();
            return true;
        }
        relax();
    }
    return false;
}

// The opener's memory is the other one's here, and its reads are writes.
bool LocalPeers::help(Member member) {
    JointCopy& joint = board(member).joint;
    JointCopy::Copy copy{};
    const auto block = joint.take_for(self(), copy);
    if (!block) return false;
    // If the member has failed, its copy needs no end.
    if (!copy_private({member, !copy.reads, reinterpret_cast<std::byte*>(copy.others + block->at),
                       reinterpret_cast<std::byte*>(copy.own + block->at), block->bytes}))
        return false;
    ++joint_blocks_;
    publish_to(member, joint.copied_by_others(),
               joint.copied_by_others().load(std::memory_order_relaxed) + 1);
    return true;
}

bool LocalPeers::has_reached_by_help(Member member, std::uint64_t number, std::uint64_t tile,
                                     std::uint64_t value) {
    for (Member other = 0; other < members(); ++other)
        if (other != self()) help(other);
    for (int i = 0; i < spins_; ++i) {
        if (is_there(member, number, tile, value)) return true;
        if (!help(member)) relax();
    }
    return is_there(member, number, tile, value);
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
