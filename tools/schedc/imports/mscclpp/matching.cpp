#include "tools/schedc/imports/mscclpp/matching.hpp"

#include <fmt/format.h>

#include <map>

namespace hocket::tools::imports::mscclpp {
namespace {

using Uses = std::vector<Place>;

class Matching {
  public:
    explicit Matching(const Plan& plan)
        : plan_(plan), signals_(plan.streams.size()), waits_(plan.streams.size()) {}

    void check() {
        for (int g = 0; g < plan_.algorithm.ranks(); ++g)
            for (int b = 0; b < static_cast<int>(plan_.blocks[g].size()); ++b)
                for (int s = 0; s < static_cast<int>(plan_.blocks[g][b].size()); ++s)
                    add(plan_.blocks[g][b][s], {g, b, s});
        for (std::size_t stream = 0; stream < plan_.streams.size(); ++stream) check_stream(stream);
        for (const auto& [key, uses] : barriers_) check_barrier(key.second, uses);
    }

  private:
    [[noreturn]] void fail(const Place& place, const std::string& message, const std::string& hint) const {
        refuse(plan_.algorithm, place, message, hint);
    }

    // The order of operations of one threadblock is the order of signals.
    void add_use(Uses& uses, const Place& place, const char* what) const {
        if (!uses.empty() && uses.back().block != place.block)
            fail(place,
                 fmt::format("threadblock {} {}, too: which of them comes first is not known",
                             uses.back().block, what),
                 "give each threadblock its own");
        uses.push_back(place);
    }

    void add(const Operation& op, const Place& place) {
        if (op.kind == Kind::signal || op.signals)
            for (const int stream : op.streams)
                add_use(signals_[stream], place, "signals on the same channel");
        if (op.kind == Kind::wait)
            for (const int stream : op.streams) add_use(waits_[stream], place, "waits on the same channel");
        for (const int semaphore : op.semaphores) {
            const bool acquires = op.kind == Kind::acquire;
            add_use((acquires ? acquires_ : releases_)[{place.gpu, semaphore}], place,
                    acquires ? "acquires the same semaphore" : "releases the same semaphore");
        }
        if (op.kind != Kind::barrier) return;
        Barrier& barrier = barriers_[{place.gpu, op.barrier}];
        if (barrier.participants > 0 && barrier.participants != op.participants)
            fail(place,
                 fmt::format("barrier {} is one of {} threadblocks, but of {} in {}", op.barrier,
                             op.participants, barrier.participants,
                             short_text(plan_.algorithm, barrier.places.begin()->second[0])),
                 "write the same number in all of its operations");
        barrier.participants = op.participants;
        barrier.places[place.block].push_back(place);
    }

    void check_stream(std::size_t number) const {
        const Stream& stream = plan_.streams[number];
        const Uses &signals = signals_[number], &waits = waits_[number];
        if (signals.size() == waits.size()) return;
        const std::string channel = fmt::format("{} channel {} to gpu {}", stream.is_port ? "port" : "memory",
                                                stream.number, stream.to);
        const bool is_signal = signals.size() > waits.size();
        fail(is_signal ? signals[waits.size()] : waits[signals.size()],
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

    struct Barrier {
        int participants = 0;
        std::map<int, Uses> places;  // by threadblock
    };

    void check_barrier(int number, const Barrier& barrier) const {
        const Uses& first = barrier.places.begin()->second;
        if (static_cast<int>(barrier.places.size()) != barrier.participants)
            fail(first[0],
                 fmt::format("barrier {} is one of {} threadblocks, but {} use{} it", number,
                             barrier.participants, barrier.places.size(),
                             barrier.places.size() == 1 ? "s" : ""),
                 "let num_threadblocks be the number of threadblocks that come to the barrier");
        for (const auto& [block, places] : barrier.places)
            if (places.size() != first.size())
                fail(places[0],
                     fmt::format("threadblock {} comes to barrier {} {} times, but threadblock {} {} times",
                                 block, number, places.size(), first[0].block, first.size()),
                     "all threadblocks of a barrier come to it equally often");
    }

    const Plan& plan_;
    std::vector<Uses> signals_, waits_;
    std::map<std::pair<int, int>, Uses> acquires_, releases_;  // by GPU and number
    std::map<std::pair<int, int>, Barrier> barriers_;
};

}  // namespace

void check_matching(const Plan& plan) {
    Matching(plan).check();
}

}  // namespace hocket::tools::imports::mscclpp
