#include "tools/schedc/imports/mscclpp/matching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace hocket::tools::imports::mscclpp {
namespace {

struct Use {
    Place place;
    Loop loop;
};
using Uses = std::vector<Use>;

std::string text_of(const Loop& loop) {
    if (loop.unit == 0) return "outside of pipelines";
    return fmt::format("in a pipeline of {} chunk{} in units of {} bytes", loop.chunks,
                       loop.chunks == 1 ? "" : "s", loop.unit);
}

class Matching {
  public:
    explicit Matching(const Plan& plan)
        : plan_(plan), signals_(plan.streams.size()), waits_(plan.streams.size()) {}

    void check() {
        for (int g = 0; g < plan_.algorithm.ranks(); ++g)
            for (int b = 0; b < static_cast<int>(plan_.blocks[g].size()); ++b) {
                lanes_.clear();
                for (int s = 0; s < static_cast<int>(plan_.blocks[g][b].size()); ++s)
                    add(plan_.blocks[g][b][s], {g, b, s});
            }
        for (std::size_t stream = 0; stream < plan_.streams.size(); ++stream) check_stream(stream);
        for (const auto& [key, uses] : barriers_) check_barrier(key.second, uses);
        for (const auto& [key, semaphore] : semaphores_) check_semaphore(key.second, semaphore);
    }

  private:
    [[noreturn]] void fail(const Place& place, const std::string& message, const std::string& hint) const {
        refuse(plan_.algorithm, place, message, hint);
    }

    // The order of operations of one threadblock is the order of signals.
    void add_use(Uses& uses, const Use& use, int lane, const char* what) {
        if (!uses.empty() && uses.back().place.block != use.place.block)
            fail(use.place,
                 fmt::format("threadblock {} {}, too: which of them comes first is not known",
                             uses.back().place.block, what),
                 "give each threadblock its own");
        const auto [known, is_new] = lanes_.try_emplace(&uses, lane);
        if (!is_new && known->second != lane)
            fail(
                use.place,
                fmt::format("thread {} {}, and thread {} does so, too: no nop says which of them comes first",
                            known->second, what, lane),
                "let a nop stand between two operations, or let the channel or semaphore have the same place "
                "in their lists");
        uses.push_back(use);
    }

    void add(const Operation& op, const Place& place) {
        const Use use{place, op.loop};
        for (std::size_t i = 0; i < op.streams.size(); ++i) {
            const int lane = static_cast<int>(i);
            if (op.kind == Kind::signal || op.signals)
                add_use(signals_[op.streams[i]], use, lane, "signals on the same channel");
            if (op.kind == Kind::wait) add_use(waits_[op.streams[i]], use, lane, "waits on the same channel");
        }
        for (std::size_t i = 0; i < op.semaphores.size(); ++i) {
            Semaphore& one = semaphores_[{place.gpu, op.semaphores[i]}];
            if (op.kind == Kind::acquire)
                add_use(one.acquires, use, static_cast<int>(i), "acquires the same semaphore");
            else
                add_use(one.releases, use, static_cast<int>(i), "releases the same semaphore");
        }
        if (op.kind == Kind::nop || op.kind == Kind::barrier) lanes_.clear();
        if (op.kind == Kind::barrier) add_barrier(op, use);
    }

    void add_barrier(const Operation& op, const Use& use) {
        const Place& place = use.place;
        Barrier& barrier = barriers_[{place.gpu, op.barrier}];
        if (barrier.participants > 0 && barrier.participants != op.participants)
            fail(place,
                 fmt::format("barrier {} is one of {} threadblocks, but of {} in {}", op.barrier,
                             op.participants, barrier.participants,
                             short_text(plan_.algorithm, barrier.uses.begin()->second[0].place)),
                 "write the same number in all of its operations");
        barrier.participants = op.participants;
        barrier.uses[place.block].push_back(use);
    }

    static std::vector<const Use*> in_loops(const Uses& uses) {
        std::vector<const Use*> result;
        for (const Use& use : uses)
            if (use.loop.unit > 0) result.push_back(&use);
        return result;
    }

    // The n-th use in a loop belongs to the n-th other one in a loop, and there are as many uses as others.
    void check_rounds(const Uses& uses, const char* what, const Uses& others, const char* counterpart) const {
        const std::vector<const Use*> mine = in_loops(uses), theirs = in_loops(others);
        const auto has_same = [](const Use* one, const Use* other) { return one->loop == other->loop; };
        const auto differs = std::ranges::mismatch(mine, theirs, has_same);
        if (differs.in1 == mine.end() && differs.in2 == theirs.end()) return;
        const auto is_outside = [](const Use& use) { return use.loop.unit == 0; };
        const Use& use = differs.in1 != mine.end() ? **differs.in1 : *std::ranges::find_if(uses, is_outside);
        const Use& other =
            differs.in2 != theirs.end() ? **differs.in2 : *std::ranges::find_if(others, is_outside);
        fail(use.place,
             fmt::format("it {} {}, and {} {} ({}): their rounds are not equally many", what,
                         text_of(use.loop), counterpart, text_of(other.loop),
                         short_text(plan_.algorithm, other.place)),
             "let both stand in pipelines with the same num_chunks and unit_size");
    }

    void check_stream(std::size_t number) const {
        const Stream& stream = plan_.streams[number];
        const Uses &signals = signals_[number], &waits = waits_[number];
        if (signals.size() == waits.size()) {
            check_rounds(signals, "signals", waits, "the wait for it stands");
            return;
        }
        const std::string channel = fmt::format("{} channel {} to gpu {}", stream.is_port ? "port" : "memory",
                                                stream.number, stream.to);
        const bool is_signal = signals.size() > waits.size();
        fail(is_signal ? signals[waits.size()].place : waits[signals.size()].place,
             is_signal
                 ? fmt::format("it signals on {}, which waits for {} signal{} of gpu {} there, not {}",
                               channel, waits.size(), waits.size() == 1 ? "" : "s", stream.from,
                               signals.size())
                 : fmt::format("it waits for gpu {}, which signals {} time{} on {}, not {}", stream.from,
                               signals.size(), signals.size() == 1 ? "" : "s", channel, waits.size()),
             fmt::format("the n-th channel of a kind that gpu {} has to gpu {} is the n-th one of gpu {} to "
                         "gpu {}: each "
                         "signal needs its wait",
                         stream.from, stream.to, stream.to, stream.from));
    }

    struct Semaphore {
        Uses acquires, releases;
    };

    // The next launch finds it as this one leaves it.
    void check_semaphore(int number, const Semaphore& semaphore) const {
        const Uses &acquires = semaphore.acquires, &releases = semaphore.releases;
        if (acquires.size() != releases.size())
            fail((releases.empty() ? acquires : releases)[0].place,
                 fmt::format(
                     "semaphore {} is acquired {} time{} and released {} time{}: the next launch would "
                     "find another value than this one",
                     number, acquires.size(), acquires.size() == 1 ? "" : "s", releases.size(),
                     releases.size() == 1 ? "" : "s"),
                 "release it as often as it is acquired");
        check_rounds(acquires, "acquires a semaphore", releases, "the release of it stands");
    }

    struct Barrier {
        int participants = 0;
        std::map<int, Uses> uses;  // by threadblock
    };

    void check_barrier(int number, const Barrier& barrier) const {
        const Uses& first = barrier.uses.begin()->second;
        if (static_cast<int>(barrier.uses.size()) != barrier.participants)
            fail(first[0].place,
                 fmt::format("barrier {} is one of {} threadblocks, but {} use{} it", number,
                             barrier.participants, barrier.uses.size(), barrier.uses.size() == 1 ? "s" : ""),
                 "let num_threadblocks be the number of threadblocks that come to the barrier");
        for (const auto& [block, uses] : barrier.uses) {
            if (uses.size() != first.size())
                fail(uses[0].place,
                     fmt::format("threadblock {} comes to barrier {} {} times, but threadblock {} {} times",
                                 block, number, uses.size(), first[0].place.block, first.size()),
                     "all threadblocks of a barrier come to it equally often");
            check_rounds(uses, "comes to a barrier", first, "another threadblock does so");
        }
    }

    const Plan& plan_;
    std::vector<Uses> signals_, waits_;
    std::map<std::pair<int, int>, Semaphore> semaphores_;  // by GPU and number
    std::map<std::pair<int, int>, Barrier> barriers_;
    std::map<const Uses*, int> lanes_;  // of this threadblock since its last nop: the thread
};

}  // namespace

void check_matching(const Plan& plan) {
    Matching(plan).check();
}

}  // namespace hocket::tools::imports::mscclpp
