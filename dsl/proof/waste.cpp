#include "dsl/proof/waste.hpp"

#include <cstdint>

#include "dsl/proof/symbols/subject.hpp"

namespace hocket::dsl {
namespace {

// Follows values through the graph, and then backward from the result what is needed of them.
class Waste {
  public:
    Waste(const Subject& subject, std::vector<Brought>& brought)
        : subject_(subject), steps_(subject.graph.steps), brought_(brought), value_(subject.places()) {}

    void find() {
        give_inputs();
        std::vector<std::size_t> phases;  // where each begins
        for (std::size_t begin = 0, end = 0; begin < steps_.size(); begin = end) {
            end = end_of_phase(begin);
            phases.push_back(begin);
            follow(begin, end);
        }
        ask_for_results();
        while (!phases.empty()) {
            look_back(phases.back(), end_of_phase(phases.back()));
            phases.pop_back();
        }
    }

  private:
    // A value's number: two places with the same one have the same bits. 0: nothing.
    using Value = std::uint64_t;

    std::size_t end_of_phase(std::size_t begin) const {
        std::size_t end = begin;
        while (end < steps_.size() && steps_[end].phase == steps_[begin].phase) ++end;
        return end;
    }
    // Calls with each place of the region on the rank, in order.
    template <typename Call>
    void for_places(Rank rank, std::uint32_t region, Call call) const {
        for (const AtomRange range : subject_.regions[region]) {
            subject_.count_work(range.end - range.begin);
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom) call(subject_.place(rank, atom));
        }
    }

    void give_inputs() {
        for (Rank rank = 0; rank < subject_.graph.ranks; ++rank)
            for (const AtomRange range : subject_.held_by(rank))
                for (std::uint32_t atom = range.begin; atom < range.end; ++atom)
                    value_[subject_.place(rank, atom)] = ++values_;
    }

    // A phase reads all before it writes.
    void follow(std::size_t begin, std::size_t end) {
        std::vector<Value> read;
        for (std::size_t i = begin; i < end; ++i)
            for_places(steps_[i].source, steps_[i].region,
                       [&](std::size_t at) { read.push_back(value_[at]); });
        std::size_t next = 0;
        for (std::size_t i = begin; i < end; ++i) {
            Brought& brought = brought_[steps_[i].origin];
            for_places(steps_[i].destination, steps_[i].target, [&](std::size_t at) {
                const bool is_there = !steps_[i].combines && value_[at] == read[next];
                value_[at] = steps_[i].combines ? ++values_ : read[next];
                ++next;
                ++brought.all;
                brought.there += is_there;
                was_there_.push_back(is_there);
            });
        }
    }

    void ask_for_results() {
        needed_.resize(subject_.places());
        const StepGraph& graph = subject_.graph;
        for (Rank rank = 0; rank < graph.ranks; ++rank) {
            std::vector<AtomRange> wanted;
            if (!graph.promise.is_given()) wanted = subject_.atoms_of(graph.output_of(rank), rank);
            for (Rank chunk = 0; graph.promise.is_given() && chunk < graph.promise.chunks; ++chunk)
                if (graph.promise.wanted[graph.promise.place(rank, chunk)].members != nothing)
                    wanted.push_back(subject_.atoms_of_chunk(chunk));
            for (const AtomRange range : wanted)
                for (std::uint32_t atom = range.begin; atom < range.end; ++atom)
                    needed_[subject_.place(rank, subject_.output.begin + atom)] = true;
        }
    }

    // From what is needed after a phase to what is needed before it. A transfer that brings what is there is
    // passed over: without it, the place holds the same.
    void look_back(std::size_t begin, std::size_t end) {
        std::vector<bool> is_needed;
        std::size_t first = was_there_.size();
        for (std::size_t i = begin; i < end; ++i)
            for_places(steps_[i].destination, steps_[i].target, [&](std::size_t) { --first; });
        std::size_t next = first;
        for (std::size_t i = begin; i < end; ++i)
            for_places(steps_[i].destination, steps_[i].target, [&](std::size_t at) {
                const bool counts = !was_there_[next++];
                is_needed.push_back(counts && needed_[at]);
                brought_[steps_[i].origin].unneeded += counts && !needed_[at];
            });
        next = first;
        for (std::size_t i = begin; i < end; ++i)
            for_places(steps_[i].destination, steps_[i].target, [&](std::size_t at) {
                if (!was_there_[next++] && !steps_[i].combines) needed_[at] = false;
            });
        next = 0;
        for (std::size_t i = begin; i < end; ++i)
            for_places(steps_[i].source, steps_[i].region, [&](std::size_t at) {
                if (is_needed[next++]) needed_[at] = true;
            });
        was_there_.resize(first);
    }

    const Subject& subject_;
    const std::vector<Step>& steps_;
    std::vector<Brought>& brought_;
    std::vector<Value> value_;     // by place
    Value values_ = 0;             // so far
    std::vector<bool> was_there_;  // by atom that a step writes, in order
    std::vector<bool> needed_;     // by place
};

}  // namespace

std::vector<Brought> brought_by(const StepGraph& graph, const Deadline& deadline) {
    if (!graph.extras.empty() || !graph.computations.empty()) return {};
    std::vector<Brought> brought(graph.origins.size());
    const std::string name = "what transfers bring";
    const Subject subject(graph, name, deadline);
    Waste(subject, brought).find();
    return brought;
}

}  // namespace hocket::dsl
