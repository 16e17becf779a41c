#include "dsl/project.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "dsl/op_builder.hpp"

namespace hocket::dsl {
namespace {

// A message to this rank that is not received in place: where it lands, and who wrote it.
struct Landed {
    Rank source;
    AtomRange atoms;
    AreaId slot;
    OpId receive;
    std::uint32_t origin;
};

class Projector {
  public:
    Projector(const StepGraph& graph, Rank rank);
    RankProgram run();

  private:
    void set_initial_places();
    void run_phase(std::size_t begin, std::size_t end);
    void send(const Step& step, AtomRange atoms);
    AreaId gather_for_sending(AtomRange atoms, std::uint32_t origin);
    void receive(const Step& step, AtomRange atoms);
    void combine_landed();
    void combine(AtomRange atoms, AreaId target, const std::vector<const Landed*>& messages);
    void complete_output();

    // Where new values of these atoms are written: the output where it has room for all of them, else the
    // work area.
    AreaId home(AtomRange atoms) const {
        return output_.begin <= atoms.begin && atoms.end <= output_.end ? output_area : work_area;
    }
    // Calls for each maximal run of atoms in which `key` is the same.
    template <typename Key>
    void for_runs(AtomRange atoms, Key key, const std::function<void(AtomRange)>& call) const;
    void set_place(AtomRange atoms, AreaId area) {
        std::fill(place_.begin() + atoms.begin, place_.begin() + atoms.end, area);
    }
    void copy(AtomRange atoms, AreaId from, AreaId to, std::uint32_t origin);

    static constexpr AreaId nowhere = ~AreaId{0};

    const StepGraph& graph_;
    Rank rank_;
    OpBuilder builder_;
    AtomRange own_{}, output_{};                     // this rank's piece; what the output has room for
    std::vector<AreaId> place_;                      // by atom: the area that holds its current value
    std::map<Rank, std::uint32_t> sent_, received_;  // messages so far, by peer
    std::vector<Landed> landed_;                     // of the current phase, to be combined
};

Atoms atoms_of(const StepGraph& graph) {
    Atoms atoms;
    atoms.add(graph.regions);
    atoms.add(graph.owned);
    atoms.settle();
    return atoms;
}

Projector::Projector(const StepGraph& graph, Rank rank)
    : graph_(graph), rank_(rank), builder_(atoms_of(graph)) {
    const AtomRange all{0, builder_.atoms()};
    own_ = graph.owned.empty() ? all : builder_.atoms_of(graph.owned_by(rank).front());
    output_ = graph.collective == Collective::reduce_scatter ? own_ : all;
    set_initial_places();
}

void Projector::set_initial_places() {
    place_.assign(builder_.atoms(), input_area);
    if (graph_.collective == Collective::broadcast && rank_ != graph_.root)
        place_.assign(builder_.atoms(), nowhere);
    if (graph_.collective == Collective::all_gather) {
        place_.assign(builder_.atoms(), nowhere);
        set_place(own_, input_area);
    }
}

RankProgram Projector::run() {
    for (std::size_t begin = 0; begin < graph_.steps.size();) {
        std::size_t end = begin;
        while (end < graph_.steps.size() && graph_.steps[end].phase == graph_.steps[begin].phase) ++end;
        run_phase(begin, end);
        begin = end;
    }
    complete_output();

    RankProgram program = builder_.finish();
    program.collective = graph_.collective;
    program.rank = rank_;
    program.ranks = graph_.ranks;
    program.root = graph_.root;
    program.input_origin = graph_.collective == Collective::all_gather ? own_.begin : 0;
    program.output_origin = output_.begin;
    for (const StepOrigin& origin : graph_.origins)
        program.origins.push_back(
            {location_of(origin.transfer), folded_text(origin.transfer),
             origin.call.file ? folded_text(origin.call) + " (" + location_of(origin.call) + ")" : ""});
    // The copy that completes the output has no line of its own.
    program.origins.push_back({location_of(graph_.header), folded_text(graph_.header), ""});
    return program;
}

// Sends read what was there before the phase, so they come first.
void Projector::run_phase(std::size_t begin, std::size_t end) {
    builder_.begin_phase(graph_.steps[begin].phase);
    for (std::size_t i = begin; i < end; ++i)
        if (graph_.steps[i].source == rank_)
            for (const Interval& interval : graph_.regions[graph_.steps[i].region])
                send(graph_.steps[i], builder_.atoms_of(interval));
    landed_.clear();
    for (std::size_t i = begin; i < end; ++i)
        if (graph_.steps[i].destination == rank_)
            for (const Interval& interval : graph_.regions[graph_.steps[i].region])
                receive(graph_.steps[i], builder_.atoms_of(interval));
    combine_landed();
}

template <typename Key>
void Projector::for_runs(AtomRange atoms, Key key, const std::function<void(AtomRange)>& call) const {
    for (std::uint32_t begin = atoms.begin; begin < atoms.end;) {
        std::uint32_t end = begin + 1;
        while (end < atoms.end && key(end) == key(begin)) ++end;
        call({begin, end});
        begin = end;
    }
}

void Projector::copy(AtomRange atoms, AreaId from, AreaId to, std::uint32_t origin) {
    const OpId op = builder_.add({.kind = Op::Kind::copy,
                                  .begin = atoms.begin,
                                  .end = atoms.end,
                                  .area = to,
                                  .operands = {from},
                                  .origin = origin});
    builder_.reads(op, atoms);
    builder_.writes(op, atoms);
    set_place(atoms, to);
}

// A message leaves from one area. Where its pieces live in several, they are brought to their common home
// first (if that is the output, it needs them anyway).
AreaId Projector::gather_for_sending(AtomRange atoms, std::uint32_t origin) {
    bool together = true;
    for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom)
        together &= place_[atom] == place_[atoms.begin];
    if (together) return place_[atoms.begin];
    const AreaId target = home(atoms);
    for_runs(
        atoms, [&](std::uint32_t atom) { return place_[atom]; },
        [&](AtomRange run) {
            if (place_[run.begin] != target) copy(run, place_[run.begin], target, origin);
        });
    return target;
}

void Projector::send(const Step& step, AtomRange atoms) {
    const AreaId area = gather_for_sending(atoms, step.origin);
    const OpId op = builder_.add({.kind = Op::Kind::send,
                                  .begin = atoms.begin,
                                  .end = atoms.end,
                                  .area = area,
                                  .operands = {},
                                  .peer = step.destination,
                                  .message = sent_[step.destination]++,
                                  .origin = step.origin});
    builder_.reads(op, atoms);
}

void Projector::receive(const Step& step, AtomRange atoms) {
    const std::uint32_t message = received_[step.source]++;
    Op op{.kind = Op::Kind::receive,
          .begin = atoms.begin,
          .end = atoms.end,
          .area = 0,
          .operands = {},
          .peer = step.source,
          .message = message,
          .origin = step.origin};
    // What this phase sends must be sent before it is overwritten; but a receive that waited for a send of
    // its own phase could wait for ever (the peer may do the same). So the message lands beside its place.
    const bool in_place = !step.combines && !builder_.read_in_phase(atoms);
    if (in_place) {
        op.area = home(atoms);
        const OpId receive = builder_.add(op);
        builder_.writes(receive, atoms);
        return set_place(atoms, op.area);
    }
    op.area = builder_.new_slot(atoms);
    const OpId receive = builder_.add(op);
    if (step.combines) {
        landed_.push_back({step.source, atoms, op.area, receive, step.origin});
        return;
    }
    const AreaId target = home(atoms);
    const OpId copy = builder_.add({.kind = Op::Kind::copy,
                                    .begin = atoms.begin,
                                    .end = atoms.end,
                                    .area = target,
                                    .operands = {op.area},
                                    .origin = step.origin});
    builder_.after(copy, receive);
    builder_.writes(copy, atoms);
    set_place(atoms, target);
}

// All messages of the phase that combine into one place do so in one operation, in the order of ranks.
void Projector::combine_landed() {
    if (landed_.empty()) return;
    std::stable_sort(landed_.begin(), landed_.end(),
                     [](const Landed& a, const Landed& b) { return a.source < b.source; });
    std::vector<std::uint32_t> cuts;
    for (const Landed& message : landed_) {
        cuts.push_back(message.atoms.begin);
        cuts.push_back(message.atoms.end);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        const AtomRange atoms{cuts[i], cuts[i + 1]};
        std::vector<const Landed*> messages;
        for (const Landed& message : landed_)
            if (message.atoms.begin <= atoms.begin && atoms.end <= message.atoms.end)
                messages.push_back(&message);
        if (messages.empty()) continue;
        const AreaId target = home(atoms);
        for_runs(
            atoms, [&](std::uint32_t atom) { return place_[atom]; },
            [&](AtomRange run) { combine(run, target, messages); });
        set_place(atoms, target);
    }
}

void Projector::combine(AtomRange atoms, AreaId target, const std::vector<const Landed*>& messages) {
    Op op{.kind = Op::Kind::combine,
          .begin = atoms.begin,
          .end = atoms.end,
          .area = target,
          .operands = {},
          .origin = messages[0]->origin};
    bool own_added = false;
    for (const Landed* message : messages) {
        if (!own_added && message->source > rank_) {
            op.operands.push_back(place_[atoms.begin]);
            own_added = true;
        }
        op.operands.push_back(message->slot);
    }
    if (!own_added) op.operands.push_back(place_[atoms.begin]);
    const OpId combine = builder_.add(std::move(op));
    for (const Landed* message : messages) builder_.after(combine, message->receive);
    builder_.reads(combine, atoms);
    builder_.writes(combine, atoms);
}

void Projector::complete_output() {
    builder_.begin_phase(graph_.phases);
    const auto origin = static_cast<std::uint32_t>(graph_.origins.size());
    for_runs(
        output_, [&](std::uint32_t atom) { return place_[atom]; },
        [&](AtomRange run) {
            if (place_[run.begin] != output_area) copy(run, place_[run.begin], output_area, origin);
        });
}

}  // namespace

RankProgram project(const StepGraph& graph, Rank rank) {
    return Projector(graph, rank).run();
}

}  // namespace hocket::dsl
