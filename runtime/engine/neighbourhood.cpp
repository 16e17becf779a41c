#include "runtime/engine/neighbourhood.hpp"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hocket::engine {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t round_up(std::size_t bytes) {
    return (bytes + page - 1) / page * page;
}

void relax() {
#if defined(__x86_64__)
    _mm_pause();
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

std::size_t Neighbourhood::reserved_bytes() {
    return round_up(sizeof(Board)) + lanes * 2 * copy_bytes;
}

Neighbourhood::Neighbourhood(std::unique_ptr<transport::Window> window, std::vector<dsl::Rank> ranks,
                             int cores)
    : window_(std::move(window)),
      ranks_(std::move(ranks)),
      members_of_(static_cast<std::size_t>(ranks_.back() + 1), -1),
      agreed_(ranks_.size(), -1),
      heard_(ranks_.size(), 0),
      ranks_per_core_((static_cast<int>(ranks_.size()) + cores - 1) / cores),
      spins_(ranks_per_core_ > 1 ? crowded_spins : spins) {
    for (std::size_t member = 0; member < ranks_.size(); ++member)
        members_of_[static_cast<std::size_t>(ranks_[member])] = static_cast<Member>(member);
}

std::byte* Neighbourhood::copies(Member member, std::uint64_t number, dsl::AreaId area) const {
    return window_->slice(member) + round_up(sizeof(Board)) + (number % lanes * 2 + area) * copy_bytes;
}

bool Neighbourhood::agrees(Member member, std::uint64_t number, std::uint32_t checksum) {
    const Line& theirs = line(member, number);
    const std::uint32_t their_checksum = theirs.checksum;
    const std::uint64_t completed = theirs.completed;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (theirs.reached.load(std::memory_order_relaxed) >> 28 != stamp(number, 0) >> 28) return true;
    if (their_checksum != checksum) return false;
    agreed_[member] = std::max(agreed_[member], static_cast<std::int64_t>(number));
    heard_[member] = std::max(heard_[member], completed);
    return true;
}

std::int64_t Neighbourhood::agreed_until(dsl::Rank rank) const {
    const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
    return found == ranks_.end() ? -1 : agreed_[static_cast<std::size_t>(found - ranks_.begin())];
}

// All in one order (seq_cst): whoever falls asleep after this sees the new value, whoever did before is
// seen.
void Neighbourhood::signal(std::uint64_t number, std::uint64_t value) {
    line(self(), number).reached.exchange(stamp(number, value));
    if (board(0).sleepers.load() != 0) ring_sleepers();
}

void Neighbourhood::ring_sleepers() {
    for (Member member = 0; member < members(); ++member)
        if (member != self() && board(member).asleep.load() != 0 && board(member).asleep.exchange(0) != 0)
            window_->ring(member);
}

bool Neighbourhood::has_reached(Member member, std::uint64_t number, std::uint64_t value) const {
    const Line& theirs = line(member, number);
    const std::uint64_t wanted = stamp(number, value);
    for (int i = 0; i < spins_; ++i) {
        if (is_at(theirs.reached.load(std::memory_order_acquire), wanted)) return true;
        relax();
    }
    return is_at(theirs.reached.load(std::memory_order_acquire), wanted);
}

void Neighbourhood::complete(std::uint64_t number) {
    if (number == completed_) return;
    completed_ = number;
    board(self()).completed.store(number);
    if (board(0).sleepers.load() != 0) ring_sleepers();
}

bool Neighbourhood::is_free(std::uint64_t number) {
    if (number < lanes) return true;
    for (Member member = 0; member < members(); ++member) {
        if (member == self() || heard_[member] > number - lanes) continue;
        heard_[member] = board(member).completed.load(std::memory_order_acquire);
        if (heard_[member] <= number - lanes) return false;
    }
    return true;
}

std::optional<dsl::Rank> Neighbourhood::busy_since(std::uint64_t number) const {
    for (Member member = 0; member < members(); ++member)
        if (member != self() && number >= lanes && heard_[member] <= number - lanes) return ranks_[member];
    return std::nullopt;
}

void Neighbourhood::fall_asleep() {
    board(self()).asleep.store(1);
    board(0).sleepers.fetch_add(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // before the last look at the others
}

void Neighbourhood::wake_up() {
    board(0).sleepers.fetch_sub(1);
    board(self()).asleep.store(0);
    window_->quiet();
}

}  // namespace hocket::engine
