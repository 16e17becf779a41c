#include "tests/runtime/engine/run/puppets.hpp"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <thread>

#include "runtime/engine/run/graph_run.hpp"
#include "runtime/engine/run/tiles.hpp"
#include "tests/runtime/engine/extents.hpp"
#include "tests/support/expect.hpp"

namespace hocket::test {
namespace {

using engine::LocalPeers;
using transport::Window;

// A number that identifies its origin, and small, as it is multiplied.
std::int64_t number_of(dsl::Rank rank, std::uint64_t start, std::uint64_t index) {
    return (static_cast<std::int64_t>(rank) + 1) * 1'000'003 +
           static_cast<std::int64_t>(start * 17 + index * 5);
}

double factor_of(dsl::Rank rank) {
    return 2 * rank + 3;
}

dsl::PlanRequest request_of(const Play& play) {
    dsl::PlanRequest request{play.collective, play.schedule, "", {HOCKET_SCHEDULES_DIR}};
    request.ranks = static_cast<dsl::Rank>(play.hosts.size());
    request.root = play.root;
    request.protocol = play.protocol;
    request.hosts.assign(play.hosts.begin(), play.hosts.end());
    return request;
}

// By rank; null for a rank that is alone on its host. All members open their windows at once.
std::vector<std::unique_ptr<LocalPeers>> open_local_peers(const std::string& hosts, bool shares_cores) {
    std::map<char, std::vector<dsl::Rank>> members;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
        members[hosts[rank]].push_back(static_cast<dsl::Rank>(rank));
    const bool fences_others = LocalPeers::can_fence_others();
    std::vector<std::unique_ptr<LocalPeers>> all(hosts.size());
    for (const auto& [host, ranks] : members) {
        if (ranks.size() == 1) continue;
        const int size = static_cast<int>(ranks.size());
        std::vector<transport::WindowInvitation> invitations(ranks.size());
        std::vector<std::string> names;
        for (const auto& invitation : invitations) names.push_back(invitation.name());
        std::vector<std::thread> threads;
        for (int member = 0; member < size; ++member)
            threads.emplace_back([&, member] {
                auto window = Window::open(std::move(invitations[static_cast<std::size_t>(member)]), names,
                                           member, LocalPeers::reserved_bytes(size),
                                           std::chrono::steady_clock::now() + std::chrono::seconds(20));
                all[static_cast<std::size_t>(ranks[static_cast<std::size_t>(member)])] =
                    std::make_unique<LocalPeers>(std::move(window), ranks, shares_cores ? 1 : size,
                                                 fences_others);
            });
        for (std::thread& thread : threads) thread.join();
    }
    return all;
}

}  // namespace

Puppet::Puppet(const Play& play, const dsl::CheckedSchedule& schedule, dsl::Rank rank,
               std::unique_ptr<LocalPeers> local_peers, Post& post)
    : play_(play),
      rank_(rank),
      ranks_(static_cast<dsl::Rank>(play.hosts.size())),
      local_peers_(std::move(local_peers)),
      plan_(engine::StartablePlan::make(schedule.project(rank), DataType::int64, play.op, play.executor)),
      box_(post, rank) {}

Puppet::~Puppet() {
    if (first_) engine::give_back(*first_);
}

std::vector<std::int64_t> Puppet::input(std::uint64_t number, std::uint64_t count) const {
    std::vector<std::int64_t> values(Extents(play_.collective, play_.root, rank_, ranks_, count).sent);
    for (std::uint64_t i = 0; i < values.size(); ++i) values[i] = number_of(rank_, number, i);
    return values;
}

std::vector<std::int64_t> Puppet::expected(std::uint64_t number, std::uint64_t count) const {
    const Extents extents(play_.collective, play_.root, rank_, ranks_, count);
    std::vector<std::int64_t> values(extents.received);
    const std::uint64_t begin = extents.recv_begin;  // in x
    if (contract_of(play_.collective).combines()) {
        for (dsl::Rank rank = 0; rank < ranks_; ++rank) {
            const auto factor = row_of(play_.op).multiplies ? static_cast<std::int64_t>(factor_of(rank)) : 1;
            for (std::uint64_t i = 0; i < values.size(); ++i)
                values[i] += factor * number_of(rank, number, begin + i);
        }
        return values;
    }
    for (std::uint64_t i = 0; i < values.size(); ++i) {
        const dsl::Rank sender = sender_of(play_.collective, play_.root, count, begin + i);
        values[i] = number_of(sender, number, place_at_sender(play_.collective, rank_, count, begin + i));
    }
    return values;
}

std::int64_t* Puppet::room(std::vector<std::int64_t>& own, std::uint64_t elements) {
    if (play_.in_window && local_peers_ && elements > 0) {
        blocks_.push_back(local_peers_->window().allocate(8 * elements, 64));
        return static_cast<std::int64_t*>(blocks_.back());
    }
    own.assign(elements + 1, -1);
    return own.data();
}

void Puppet::begin(std::uint64_t number, std::uint64_t count, std::uint32_t checksum) {
    number_ = number;
    count_ = count;
    const auto values = input(number, count);
    const std::uint64_t received = Extents(play_.collective, play_.root, rank_, ranks_, count).received;
    send_ = room(own_send_, values.size());
    recv_ = play_.in_place && received == values.size() ? send_ : room(own_recv_, received);
    std::copy(values.begin(), values.end(), send_);
    engine::Start start;
    start.plan = plan_.get();
    start.count = count;
    start.send = reinterpret_cast<const std::byte*>(send_);
    start.recv = reinterpret_cast<std::byte*>(recv_);
    start.factor = factor_of(rank_);
    start.number = number;
    start.sequence = next_sequence_;
    start.checksum = checksum;
    engine::divide(start);
    next_sequence_ += start.tiles();
    first_ = &engine::begin_tiles(*plan_, start, local_peers_.get());
}

std::size_t Puppet::tiles() const {
    std::size_t tiles = 0;
    for (const engine::Execution* tile = first_; tile; tile = tile->next_tile()) ++tiles;
    return tiles;
}

bool Puppet::move(std::uint64_t budget) {
    bool moved = false;
    for (engine::Execution* tile = first_; tile; tile = tile->next_tile()) {
        std::uint64_t left = budget;
        if (tile->status() == Status::in_progress) moved |= tile->advance(&box_, left);
    }
    transport::Completion completion;
    if (box_.poll({&completion, 1}) == 0) return moved;
    expect(completion.ok && !completion.truncated, "a message that fits");
    const auto& transfer = *static_cast<engine::Transfer*>(completion.message->user);
    transfer.execution->complete(transfer.op);
    return true;
}

std::string Puppet::end() {
    const auto right = expected(number_, count_);
    std::string wrong;
    for (std::uint64_t i = 0; i < right.size() && wrong.empty(); ++i)
        if (recv_[i] != right[i])
            wrong = fmt::format("rank {}, start {} of {}: element {} is {}, not {}", rank_, number_, count_,
                                i, recv_[i], right[i]);
    const auto sent = input(number_, count_);
    if (send_ != recv_ && wrong.empty() && !std::equal(sent.begin(), sent.end(), send_))
        wrong = fmt::format("rank {}, start {} of {}: the input was written to", rank_, number_, count_);
    engine::give_back(*first_);
    first_ = nullptr;
    if (local_peers_) local_peers_->complete(next_sequence_);
    for (void* block : blocks_) local_peers_->window().release(block);
    blocks_.clear();
    return wrong;
}

Stage::Stage(const Play& play, unsigned seed) : post(seed) {
    const auto schedule = dsl::check_schedule(request_of(play));
    auto local_peers = open_local_peers(play.hosts, play.shares_cores);
    for (std::size_t rank = 0; rank < play.hosts.size(); ++rank)
        puppets.push_back(std::make_unique<Puppet>(play, *schedule, static_cast<dsl::Rank>(rank),
                                                   std::move(local_peers[rank]), post));
}

std::string Stage::play(const std::vector<std::uint64_t>& counts) {
    constexpr std::uint64_t budgets[] = {1, 1000, 128 * 1024, 1 << 30};
    std::vector<std::size_t> next(size(), 0), at_work;  // by rank: its next start
    for (std::size_t rank = 0; rank < size(); ++rank) at_work.push_back(rank);
    std::vector<bool> has_begun(size(), false);
    for (int idle = 0; !at_work.empty();) {
        // Moves one rank for a random time, so that some are as far ahead of others as they can be.
        const std::size_t place = post.draw(static_cast<std::uint32_t>(at_work.size())),
                          rank = at_work[place];
        Puppet& puppet = *puppets[rank];
        for (std::uint32_t moves = 1 + post.draw(20); moves > 0 && next[rank] < counts.size(); --moves) {
            if (!has_begun[rank]) puppet.begin(next[rank], counts[next[rank]]);
            has_begun[rank] = true;
            idle = puppet.move(budgets[post.draw(4)]) ? 0 : idle + 1;
            if (!puppet.is_done()) continue;
            has_begun[rank] = false;
            if (const std::string wrong = puppet.end(); !wrong.empty()) return wrong;
            if (++next[rank] == counts.size())
                at_work.erase(at_work.begin() + static_cast<std::ptrdiff_t>(place));
        }
        if (idle > 100'000) return fmt::format("rank {} is stuck in start {}", rank, next[rank]);
    }
    return post.is_empty() ? "" : "messages are left over";
}

void Stage::settle() {
    for (int idle = 0; idle < 100;) {
        bool moved = false;
        for (const auto& puppet : puppets)
            if (!puppet->is_done()) moved |= puppet->move();
        idle = moved ? 0 : idle + 1;
    }
}

}  // namespace hocket::test
