#include "dsl/projection/project.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "dsl/projection/computations.hpp"
#include "dsl/projection/host_steps.hpp"
#include "dsl/projection/messages.hpp"
#include "dsl/projection/places.hpp"

namespace hocket::dsl {
namespace {

bool all_have_buffers(const StepGraph& graph) {
    for (Rank rank = 0; rank < graph.ranks; ++rank)
        if (graph.input_of(rank) == Share::none && graph.output_of(rank) == Share::none) return false;
    return true;
}

// Data that a member combines in a phase. They come from a local peer's memory, or from a message in a slot.
struct Arrival {
    Rank source;
    AtomRange atoms;          // the atoms that they are combined into
    std::uint32_t from;       // the first atom at the source
    std::uint32_t completes;  // as Completion::by_step
    std::optional<Member> local_peer = std::nullopt;
    AreaId slot = 0;        // of a message
    OpRef receive = no_op;  // of a message
    std::uint32_t origin = 0;

    std::uint32_t at_source(std::uint32_t atom) const { return from + (atom - atoms.begin); }
};

// The place where a part of a message lands.
struct Landing {
    AtomRange atoms;
    AreaId area;
    bool in_place, combines;  // neither: waits in a slot until its place is free
    std::uint32_t completes;  // as Completion::by_step
    std::uint32_t origin;

    bool is_followed_by(const Landing& next) const {
        return atoms.end == next.atoms.begin && area == next.area && in_place == next.in_place &&
               combines == next.combines && completes == next.completes && origin == next.origin;
    }
};

// A piece that a step moves from one rank of the host to another, or within a rank.
struct LocalPiece {
    Member source, destination;
    AtomRange from, to;
    std::uint32_t origin;
};

// A rank of the host.
struct Side {
    Rank rank;
    std::map<Rank, std::uint32_t> sent = {}, received = {};  // messages so far, by peer
    std::vector<Arrival> arrivals = {};                      // of the current phase
};

class Projector {
  public:
    Projector(const StepGraph& graph, std::vector<Rank> host, Protocol protocol, const Deadline& deadline,
              const Completion& completion, Copying copying);
    RankProgram run(Rank rank);

  private:
    using Call = std::function<void(const HostStep& step, const LocalPiece& piece)>;

    std::optional<Member> member_of(Rank rank) const;
    void run_phase(std::span<const HostStep> steps, std::uint32_t phase);
    void for_local_pieces(std::span<const HostStep> steps, const Call& call);

    void send(Member member, const Message& message);
    void receive(Member member, const Message& message);
    std::vector<Landing> landings_of(Member member, const Message& message);
    void combine_arrivals(Member member);
    bool completes(const Arrival& arrival, std::uint32_t atom) const;
    void combine(Member member, AtomRange atoms, const std::vector<const Arrival*>& arrivals);
    void overwrite(const std::vector<LocalPiece>& pieces);
    bool prefers_push(const std::vector<LocalPiece>& pieces) const;
    bool push(const LocalPiece& piece);
    void pull(const LocalPiece& piece);
    void complete_output(Member member);

    const StepGraph& graph_;
    DeadlineCounter deadline_;
    const Completion& completion_;
    std::vector<HostStep> steps_;  // the steps of the graph that concern the host
    std::vector<Rank> host_;
    Protocol protocol_;
    Copying copying_;
    OpBuilder builder_;
    Places places_;
    ComputationProjector computing_;
    std::vector<Side> sides_;
    Stage phase_stage_ = 0;
};

Projector::Projector(const StepGraph& graph, std::vector<Rank> host, Protocol protocol,
                     const Deadline& deadline, const Completion& completion, Copying copying)
    : graph_(graph),
      deadline_(deadline),
      completion_(completion),
      steps_(steps_of(graph, host, completion)),
      host_(std::move(host)),
      protocol_(host_.size() == 1 ? Protocol::bandwidth : protocol),
      copying_(copying),
      builder_(atoms_of(graph, steps_, host_, completion), host_, protocol_ == Protocol::latency),
      places_(graph, host_, protocol_, builder_),
      computing_(graph, completion, builder_, places_) {
    for (const Rank rank : host_) sides_.push_back({.rank = rank});
}

std::optional<Member> Projector::member_of(Rank rank) const {
    const auto found = std::lower_bound(host_.begin(), host_.end(), rank);
    if (found == host_.end() || *found != rank) return std::nullopt;
    return static_cast<Member>(found - host_.begin());
}

RankProgram Projector::run(Rank rank) {
    std::uint32_t phase = 0;
    for (std::size_t begin = 0; begin < steps_.size(); ++phase) {
        std::size_t end = begin;
        while (end < steps_.size() && steps_[end].phase == steps_[begin].phase) ++end;
        run_phase({steps_.data() + begin, end - begin}, phase);
        begin = end;
    }
    builder_.begin_stage(1 + phase * stages_of_a_phase, graph_.phases);
    for (Member member = 0; member < sides_.size(); ++member) complete_output(member);

    // Operations that complete the output have no source line.
    const auto end_origin = static_cast<std::uint32_t>(graph_.origins.size());
    const Member self = *member_of(rank);
    const auto kept =
        static_cast<std::uint32_t>(std::count_if(graph_.extras.begin(), graph_.extras.end(),
                                                 [](const ExtraBuffer& extra) { return extra.is_like_x(); }));
    RankProgram program = builder_.finish(self, end_origin, kept);
    computing_.describe(program);
    program.collective = graph_.collective;
    program.rank = rank;
    program.ranks = graph_.ranks;
    program.root = graph_.root;
    program.has_input = graph_.input_of(rank) != Share::none;
    program.has_output = graph_.output_of(rank) != Share::none;
    program.all_have_buffers = !is_own(graph_.collective) || all_have_buffers(graph_);
    program.protocol = protocol_;
    program.chunks = chunks_of(graph_);
    program.buffers = graph_.buffers;
    program.input_origin = program.input() == Share::own ? places_.own(self).begin : 0;
    program.output_origin = places_.output(self).begin;
    for (const StepOrigin& origin : graph_.origins)
        program.origins.push_back(
            {.location = location_of(origin.transfer),
             .text = folded_text(origin.transfer),
             .context =
                 origin.call.file ? folded_text(origin.call) + " (" + location_of(origin.call) + ")" : ""});
    program.origins.push_back(
        {.location = location_of(graph_.header), .text = folded_text(graph_.header), .context = ""});
    return program;
}

// Calls for each piece that does not leave the host.
void Projector::for_local_pieces(std::span<const HostStep> steps, const Call& call) {
    for (const HostStep& step : steps) {
        deadline_.check(projecting);
        const auto source = member_of(step.source), destination = member_of(step.destination);
        if (!source || !destination) continue;
        for (const Piece& piece : pieces_of(graph_, step))
            call(step, {.source = *source,
                        .destination = *destination,
                        .from = builder_.atoms_of(piece.from),
                        .to = builder_.atoms_of(piece.to),
                        .origin = step.origin});
    }
}

// Turns the steps of one phase into operations. All of them read what was there before the phase, so places
// change at its end.
void Projector::run_phase(std::span<const HostStep> steps, std::uint32_t phase) {
    phase_stage_ = 1 + phase * stages_of_a_phase;
    builder_.begin_stage(phase_stage_, steps[0].phase);
    if (steps[0].computes()) {
        for (const HostStep& step : steps) computing_.compute(*member_of(step.source), step, deadline_);
        places_.end_phase();
        return;
    }
    const std::vector<Message> messages = messages_of(graph_, steps, host_, builder_);
    for (const Message& message : messages)
        if (const auto source = member_of(message.source)) send(*source, message);
    for_local_pieces(
        steps, [&](const HostStep&, const LocalPiece& piece) { places_.lend(piece.source, piece.from); });
    for (const Message& message : messages)
        if (const auto destination = member_of(message.destination)) receive(*destination, message);
    std::vector<LocalPiece> overwrites;
    for_local_pieces(steps, [&](const HostStep& step, const LocalPiece& piece) {
        if (step.combines)
            sides_[piece.destination].arrivals.push_back({.source = step.source,
                                                          .atoms = piece.to,
                                                          .from = piece.from.begin,
                                                          .completes = step.completes,
                                                          .local_peer = piece.source,
                                                          .origin = step.origin});
        else
            overwrites.push_back(piece);
    });
    overwrite(overwrites);
    for (Member member = 0; member < sides_.size(); ++member) combine_arrivals(member);

    builder_.begin_stage(phase_stage_ + 1, steps[0].phase);
    places_.end_phase();
}

// ---- Messages -----------------------------------------------------------------------------------

Op message_op(Op::Kind kind, Rank peer, std::uint32_t number, std::uint32_t origin,
              const std::vector<MessagePart>& parts) {
    return {.kind = kind,
            .begin = parts[0].begin,
            .end = parts[0].end,
            .area = parts[0].area,
            .further = {parts.begin() + 1, parts.end()},
            .peer = peer,
            .message = number,
            .origin = origin};
}

// Sends pieces from where they are, each from its area.
void Projector::send(Member member, const Message& message) {
    std::vector<MessagePart> parts;
    for (const Passage& passage : message.passages)
        places_.for_runs(member, passage.from, [&](AtomRange run) {
            const AreaId area = places_.at(member, run.begin);
            if (!parts.empty() && parts.back().end == run.begin && parts.back().area == area)
                parts.back().end = run.end;
            else
                parts.push_back({.begin = run.begin, .end = run.end, .area = area});
        });
    const std::uint32_t number = sides_[member].sent[message.destination]++;
    const OpRef op = builder_.add(
        member, message_op(Op::Kind::send, message.destination, number, message.passages[0].origin, parts));
    for (const MessagePart& part : parts)
        builder_.reads(op, Memory{member, part.area}, AtomRange{part.begin, part.end});
}

// Data that this phase sends must not be overwritten before they are sent. A receive must not wait for a send
// of its own phase, however: if the peer did the same, both would wait for ever. Such a message lands in a
// slot instead.
std::vector<Landing> Projector::landings_of(Member member, const Message& message) {
    std::vector<Landing> landings;
    for (const Passage& passage : message.passages) {
        const AreaId home = places_.home(member, passage.to);
        const bool in_place = !passage.combines && !places_.is_lent(member, home, passage.to) &&
                              !builder_.read_since(Memory{member, home}, passage.to, phase_stage_);
        const Landing next{.atoms = passage.to,
                           .area = home,
                           .in_place = in_place,
                           .combines = passage.combines,
                           .completes = passage.completes,
                           .origin = passage.origin};
        if (!landings.empty() && landings.back().is_followed_by(next))
            landings.back().atoms.end = next.atoms.end;
        else
            landings.push_back(next);
    }
    for (Landing& landing : landings)
        if (!landing.in_place) landing.area = builder_.new_slot(member, landing.atoms);
    return landings;
}

void Projector::receive(Member member, const Message& message) {
    const std::vector<Landing> landings = landings_of(member, message);
    std::vector<MessagePart> parts;
    for (const Landing& landing : landings)
        parts.push_back({.begin = landing.atoms.begin, .end = landing.atoms.end, .area = landing.area});
    const std::uint32_t number = sides_[member].received[message.source]++;
    const OpRef receive = builder_.add(
        member, message_op(Op::Kind::receive, message.source, number, landings[0].origin, parts));
    for (const Landing& landing : landings) {
        if (landing.in_place)
            places_.write(receive, member, landing.area, landing.atoms);
        else if (landing.combines)
            sides_[member].arrivals.push_back({.source = message.source,
                                               .atoms = landing.atoms,
                                               .from = landing.atoms.begin,
                                               .completes = landing.completes,
                                               .slot = landing.area,
                                               .receive = receive,
                                               .origin = landing.origin});
        else
            places_.write_late(member, landing.atoms, landing.area, receive, landing.origin);
    }
}

// ---- Combining ----------------------------------------------------------------------------------

// Emits one operation for all that a phase combines into one place, with operands in rank order.
void Projector::combine_arrivals(Member member) {
    std::vector<Arrival>& arrivals = sides_[member].arrivals;
    std::stable_sort(arrivals.begin(), arrivals.end(),
                     [](const Arrival& a, const Arrival& b) { return a.source < b.source; });
    std::vector<std::uint32_t> cuts;
    for (const Arrival& arrival : arrivals) {
        cuts.push_back(arrival.atoms.begin);
        cuts.push_back(arrival.atoms.end);
        if (arrival.completes < Completion::first_part) continue;
        for (const Interval& part : completion_.parts[arrival.completes - Completion::first_part])
            for (const std::uint32_t cut : {builder_.atoms_of(part).begin, builder_.atoms_of(part).end})
                if (arrival.atoms.begin < cut && cut < arrival.atoms.end) cuts.push_back(cut);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        const AtomRange atoms{cuts[i], cuts[i + 1]};
        deadline_.check(projecting, arrivals.size());
        std::vector<const Arrival*> here;
        for (const Arrival& arrival : arrivals)
            if (arrival.atoms.begin <= atoms.begin && atoms.end <= arrival.atoms.end)
                here.push_back(&arrival);
        if (here.empty()) continue;
        const auto same_places = [&](std::uint32_t a, std::uint32_t b) {
            return places_.at(member, a) == places_.at(member, b) &&
                   std::all_of(here.begin(), here.end(), [&](const Arrival* arrival) {
                       return !arrival->local_peer ||
                              places_.at(*arrival->local_peer, arrival->at_source(a)) ==
                                  places_.at(*arrival->local_peer, arrival->at_source(b));
                   });
        };
        for_runs(atoms, same_places, [&](AtomRange run) { combine(member, run, here); });
    }
    arrivals.clear();
}

// Returns true if the arrival completes the atom; then so do all others that arrive there in this phase.
bool Projector::completes(const Arrival& arrival, std::uint32_t atom) const {
    if (arrival.completes < Completion::first_part) return arrival.completes == Completion::all;
    const Region& part = completion_.parts[arrival.completes - Completion::first_part];
    return std::any_of(part.begin(), part.end(), [&](const Interval& interval) {
        const AtomRange atoms = builder_.atoms_of(interval);
        return atoms.begin <= atom && atom < atoms.end;
    });
}

void Projector::combine(Member member, AtomRange atoms, const std::vector<const Arrival*>& arrivals) {
    const Side& side = sides_[member];
    const AreaId own_place = places_.at(member, atoms.begin);
    const auto from = [&](const Arrival& arrival) {
        return AtomRange{arrival.at_source(atoms.begin), arrival.at_source(atoms.end)};
    };
    const auto place_at = [&](const Arrival& arrival) {
        return places_.at(*arrival.local_peer, from(arrival).begin);
    };
    const auto operand = [&](const Arrival& arrival) {
        if (!arrival.local_peer) return arrival.slot;
        return builder_.shifted(member, builder_.area_for(member, *arrival.local_peer, place_at(arrival)),
                                from(arrival).begin, atoms.begin);
    };
    Op op{.kind = Op::Kind::combine,
          .begin = atoms.begin,
          .end = atoms.end,
          .area = 0,
          .completes = completes(*arrivals[0], atoms.begin),
          .origin = arrivals[0]->origin};
    bool own_added = false;
    for (const Arrival* arrival : arrivals) {
        if (!own_added && arrival->source > side.rank) {
            op.operands.push_back(own_place);
            own_added = true;
        }
        op.operands.push_back(operand(*arrival));
    }
    if (!own_added) op.operands.push_back(own_place);
    const std::optional<AreaId> target = places_.free_home(member, atoms);
    const AreaId area = op.area = target ? *target : builder_.new_slot(member, atoms);
    const OpRef combine = builder_.add(member, std::move(op));
    for (const Arrival* arrival : arrivals) {
        if (arrival->local_peer)
            builder_.reads(combine, Memory{*arrival->local_peer, place_at(*arrival)}, from(*arrival));
        else
            builder_.after(combine, arrival->receive);
    }
    builder_.reads(combine, Memory{member, own_place}, atoms);
    if (target)
        places_.write(combine, member, area, atoms);
    else
        places_.write_late(member, atoms, area, combine, arrivals[0]->origin);
}

// ---- Overwriting among local peers ---------------------------------------------------------------

void Projector::overwrite(const std::vector<LocalPiece>& pieces) {
    std::vector<LocalPiece> runs;
    for (const LocalPiece& whole : pieces)
        places_.for_runs(whole.source, whole.from, [&](AtomRange run) {
            const std::uint32_t begin = whole.to.begin + (run.begin - whole.from.begin);
            runs.push_back({.source = whole.source,
                            .destination = whole.destination,
                            .from = run,
                            .to = {begin, begin + (run.end - run.begin)},
                            .origin = whole.origin});
        });
    const bool pushes = prefers_push(runs);
    for (const LocalPiece& run : runs) {
        // Cheapest of all, another operation writes the data along with its own result.
        if (protocol_ == Protocol::bandwidth && run.from.begin == run.to.begin &&
            places_.extend(run.source, run.from, run.destination))
            continue;
        if (pushes && push(run)) continue;
        pull(run);
    }
}

// Pushing reads the data once for all receivers; but if few ranks send to many, the receivers share the work.
bool Projector::prefers_push(const std::vector<LocalPiece>& pieces) const {
    if (protocol_ == Protocol::latency || copying_ == Copying::by_receivers) return false;
    std::vector<double> pushed(sides_.size(), 0), pulled(sides_.size(), 0);
    for (const LocalPiece& piece : pieces) {
        const auto& boundaries = builder_.boundaries();
        const Rational width = boundaries[piece.to.end] - boundaries[piece.to.begin];
        const double length = width.value();
        pushed[piece.source] += length;
        pulled[piece.destination] += length;
    }
    return *std::max_element(pushed.begin(), pushed.end()) <= *std::max_element(pulled.begin(), pulled.end());
}

bool Projector::push(const LocalPiece& piece) {
    const auto [source, destination, from, to, origin] = piece;
    const std::optional<AreaId> target = places_.free_home(destination, to);
    if (!target) return false;
    // Within this phase the source cannot wait until the destination has sent its data there; the destination
    // can.
    if (builder_.read_since(Memory{destination, *target}, to, phase_stage_)) return false;
    const AreaId place = places_.at(source, from.begin);
    const OpRef op =
        builder_.add(source, {.kind = Op::Kind::copy,
                              .begin = to.begin,
                              .end = to.end,
                              .area = builder_.area_for(source, destination, *target),
                              .operands = {builder_.shifted(source, place, from.begin, to.begin)},
                              .origin = origin});
    builder_.reads(op, Memory{source, place}, from);
    places_.write(op, destination, *target, to);
    return true;
}

void Projector::pull(const LocalPiece& piece) {
    const auto [source, destination, from, to, origin] = piece;
    const AreaId place = places_.at(source, from.begin);
    const std::optional<AreaId> target = places_.free_home(destination, to);
    const AreaId area = target ? *target : builder_.new_slot(destination, to);
    const AreaId read =
        builder_.shifted(destination, builder_.area_for(destination, source, place), from.begin, to.begin);
    const OpRef op = builder_.add(destination, {.kind = Op::Kind::copy,
                                                .begin = to.begin,
                                                .end = to.end,
                                                .area = area,
                                                .operands = {read},
                                                .origin = origin});
    builder_.reads(op, Memory{source, place}, from);
    if (target)
        places_.write(op, destination, area, to);
    else
        places_.write_late(destination, to, area, op, origin);
}

void Projector::complete_output(Member member) {
    const auto origin = static_cast<std::uint32_t>(graph_.origins.size());
    std::vector<AtomRange> runs;
    places_.for_runs(member, places_.output(member), [&](AtomRange run) { runs.push_back(run); });
    for (const AtomRange run : runs) {
        const AreaId place = places_.at(member, run.begin);
        // Nowhere: the contract leaves it open, and no value ever comes there.
        if (place == output_area || place == Places::nowhere) continue;
        if (protocol_ == Protocol::bandwidth && places_.extend(member, run, member)) continue;
        places_.copy(member, run, place, output_area, origin);
    }
}

}  // namespace

RankProgram project(const StepGraph& graph, Rank rank, std::vector<Rank> host, Protocol protocol,
                    const Deadline& deadline, const Completion& completion, Copying copying) {
    return Projector(graph, std::move(host), protocol, deadline, completion, copying).run(rank);
}

}  // namespace hocket::dsl
