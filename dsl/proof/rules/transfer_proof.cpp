#include "dsl/proof/rules/transfer_proof.hpp"

#include <fmt/format.h>

namespace hocket::dsl {

void TransferProof::run(std::size_t begin, std::size_t end) {
    values_.clear();
    value_atoms_.clear();
    value_traits_.clear();
    for (std::size_t i = begin; i < end; ++i) read(graph_.steps[i]);
    if (order_.is_of_interest()) order_.fold(begin, end, values_, value_traits_);
    std::size_t value = 0;
    for (std::size_t i = begin; i < end; ++i) write(i, value);
    order_.number_sums();
    if (!completes(subject_.contract)) return;
    for (std::size_t i = begin; i < end; ++i)
        if (graph_.steps[i].combines) find_completed(i);
}

void TransferProof::read(const Step& step) {
    for (const AtomRange range : subject_.regions[step.region]) {
        subject_.count_work(range.end - range.begin);
        for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
            const std::size_t from = subject_.place(step.source, atom);
            if (contents_.set[from] == Contributions::undefined) refuse_undefined(step, atom);
            strands_.read(step, from);
            values_.push_back(contents_.set_of(step.source, from));
            if (graph_.moves) value_atoms_.push_back(contents_.atom_of(step.source, from));
            if (contents_.has_traits()) value_traits_.push_back(contents_.trait[from]);
        }
    }
}

void TransferProof::refuse_undefined(const Step& step, std::uint32_t atom) const {
    const auto brings_it = [&](const Step& other) {
        return other.phase == step.phase && other.destination == step.source && !other.computes() &&
               std::ranges::any_of(subject_.regions[other.target], [&](const AtomRange& range) {
                   return range.begin <= atom && atom < range.end;
               });
    };
    const bool comes_now = std::ranges::any_of(graph_.steps, brings_it);
    subject_.refuse(step,
                    fmt::format("rank {} sends {} to rank {} before anything is in it", step.source,
                                subject_.chunk_text(atom), step.destination),
                    {},
                    comes_now
                        ? "another iteration of the same each brings it, and all of them happen at once: "
                          "put a `for` around the each for what happens in turn"
                        : "");
}

void TransferProof::write(std::size_t index, std::size_t& value) {
    const Step& step = graph_.steps[index];
    for (const AtomRange range : subject_.regions[step.target]) {
        subject_.count_work(range.end - range.begin);
        for (std::uint32_t atom = range.begin; atom < range.end; ++atom, ++value) {
            const std::size_t to = subject_.place(step.destination, atom);
            strands_.write(step, to);
            if (step.combines)
                combine(index, to, value);
            else
                overwrite(index, to, value);
            contents_.writer[to] = static_cast<std::uint32_t>(index);
        }
    }
}

void TransferProof::overwrite(std::size_t index, std::size_t to, std::size_t value) {
    const Step& step = graph_.steps[index];
    if (contents_.writer[to] != nothing && graph_.steps[contents_.writer[to]].phase == step.phase)
        subject_.refuse(step,
                        fmt::format("rank {} is sent {} twice at the same time: by rank {} and by rank {}",
                                    step.destination, subject_.chunk_text(to),
                                    graph_.steps[contents_.writer[to]].source, step.source),
                        contents_.last_write(to, "the other transfer"),
                        subject_.contract.exchanges()
                            ? "data of different ranks need places of their own: x[q] : r -> y[r] : q"
                            : "simultaneous transfers to one place must all combine (+>)");
    contents_.set[to] = values_[value];
    if (graph_.moves) contents_.atom[to] = value_atoms_[value];
    if (contents_.has_traits()) contents_.trait[to] = value_traits_[value];
}

void TransferProof::combine(std::size_t index, std::size_t to, std::size_t value) {
    const Step& step = graph_.steps[index];
    if (contents_.writer[to] != nothing) {
        const Step& other = graph_.steps[contents_.writer[to]];
        if (other.phase == step.phase && !other.combines)
            subject_.refuse(
                step,
                fmt::format(
                    "rank {} is sent {} twice at the same time, once to combine and once to overwrite",
                    step.destination, subject_.chunk_text(to)),
                contents_.last_write(to, "the other transfer"),
                "simultaneous transfers to one place must all combine (+>)");
    }
    if (contents_.set[to] == Contributions::undefined)
        subject_.refuse(step,
                        fmt::format("rank {} combines into {}, which holds nothing yet", step.destination,
                                    subject_.chunk_text(to)),
                        {}, "the first transfer to a place overwrites: write '->'");
    if (graph_.moves && contents_.atom[to] != value_atoms_[value])
        subject_.refuse(
            step,
            fmt::format("rank {} combines the values that rank {} sends from {} into {}, which holds {}",
                        step.destination, step.source, subject_.chunk_text(value_atoms_[value]),
                        subject_.chunk_text(to), subject_.chunk_text(contents_.atom[to])),
            {}, "only values from the same place of all ranks' inputs can be combined");
    if (contents_.has_traits()) combine_traits(step, to, value);
    if (contents_.set[to] == Contributions::of_none || values_[value] == Contributions::of_none) {
        if (states_.are_known()) refuse_combine_of_none(step, to, value);
        if (contents_.set[to] == Contributions::of_none) contents_.set[to] = values_[value];
        return;
    }
    const SetId sum = sets_.unite(contents_.set[to], values_[value]);
    if (sum == Contributions::overlap)
        subject_.refuse(
            step,
            fmt::format("rank {} adds the part of rank {} to {} a second time (from rank {})",
                        step.destination, sets_.common(contents_.set[to], values_[value]),
                        subject_.chunk_text(to), step.source),
            contents_.last_write(to, "written before by this"),
            graph_.origins[step.origin].call.file
                ? "these are combined already: leave one of the statements out, or let each combine a "
                  "part of its own"
                : "");
    contents_.set[to] = sum;
}

// Merges the traits of the value that is sent and the one here, which must have been calculated alike.
void TransferProof::combine_traits(const Step& step, std::size_t to, std::size_t value) {
    const Trait sent = traits_[value_traits_[value]];
    Trait trait = traits_[contents_.trait[to]];
    if (sent.left_by != 0 || trait.left_by != 0) refuse_combine_of_none(step, to, value);
    if (trait.history != sent.history) refuse_combine(step, to, value);
    trait.states |= sent.states;
    trait.carried |= sent.carried;
    trait.selected = traits_.both_pieces(trait.selected, sent.selected);
    trait.packed = traits_.both_pieces(trait.packed, sent.packed);
    trait.has_sent |= sent.has_sent;
    contents_.trait[to] = traits_.intern(trait);
}

void TransferProof::refuse_combine_of_none(const Step& step, std::size_t to, std::size_t value) const {
    const bool is_sent = values_[value] == Contributions::of_none;
    const std::uint32_t left_by = traits_[is_sent ? value_traits_[value] : contents_.trait[to]].left_by;
    subject_.refuse(
        step,
        fmt::format("rank {} combines {} of rank {} with its own, but {} {}", step.destination,
                    subject_.chunk_text(to), step.source, is_sent ? "the sent value" : "its own value",
                    left_by != 0 ? fmt::format("is the rest that {} left", graph_.extras[left_by - 1].name)
                                 : "contains no rank's input"),
        contents_.last_write(to, "its own was last written by this"),
        "collectives combine x, or values that were calculated from it");
}

void TransferProof::refuse_combine(const Step& step, std::size_t to, std::size_t value) const {
    subject_.refuse(
        step,
        fmt::format("rank {} combines {} of rank {} with its own, but they were not calculated alike: {}",
                    step.destination, subject_.chunk_text(to), step.source,
                    contents_.difference_text("the one", traits_[value_traits_[value]].history, "its own",
                                              traits_[contents_.trait[to]].history)),
        contents_.last_write(to, "its own was last written by this"),
        "do the same on all ranks before they combine");
}

void TransferProof::find_completed(std::size_t index) {
    const Step& step = graph_.steps[index];
    const auto for_completed = [&](auto call) {
        std::size_t atoms = 0;
        for (const AtomRange range : subject_.regions[step.target])
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom, ++atoms)
                if (contents_.set[subject_.place(step.destination, atom)] == contents_.everyone) call(atom);
        return atoms;
    };
    std::size_t completed = 0;
    const std::size_t atoms = for_completed([&](std::uint32_t) { ++completed; });
    if (completed == 0) return;
    completion_.by_step[index] = Completion::all;
    if (completed == atoms) return;
    Region part;
    for_completed([&](std::uint32_t atom) { part.push_back(subject_.interval_of(atom)); });
    completion_.by_step[index] =
        Completion::first_part + static_cast<std::uint32_t>(completion_.parts.size());
    completion_.parts.push_back(merged(std::move(part)));
}

}  // namespace hocket::dsl
