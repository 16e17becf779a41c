#include "dsl/proof/verify.hpp"

#include <algorithm>
#include <utility>

#include "dsl/graph/atoms.hpp"
#include "dsl/proof/order.hpp"
#include "dsl/proof/rules/verifier.hpp"

namespace hocket::dsl {
namespace {

void require_plain(const StepGraph& graph) {
    const Contract& contract = contract_of(graph.collective);
    const auto refuse = [&](const char* why) { throw AsymmetryError(graph.header, why); };
    if (contract.own) refuse("its collective is defined by a file");
    if (contract.has_root()) refuse("the root differs from the others");
    if (!graph.computations.empty() || !graph.extras.empty()) refuse("it computes");
}

// Returns the steps by which data come to rank 0.
StepGraph received(const StepGraph& graph) {
    StepGraph result = graph;
    std::erase_if(result.steps, [](const Step& step) { return step.destination != 0; });
    return result;
}

Atoms atoms_of(const std::vector<Region>& regions, std::int64_t buffers) {
    Atoms atoms;
    atoms.add(regions);
    atoms.settle(buffers);
    return atoms;
}

}  // namespace

Completion verify(const StepGraph& graph, const std::string& subject, const Deadline& deadline) {
    return Verifier(graph, subject, deadline).run();
}

OrderNeeds order_needs_of(const StepGraph& graph, const Deadline& deadline) {
    const std::string subject = "the order of operands";
    return Verifier(graph, subject, deadline).order_needs();
}

ProofBySymmetry verify_by_symmetry(const StepGraph& graph, const DataSymmetry& symmetry,
                                   const std::string& subject, const Deadline& deadline) {
    require_plain(graph);
    const StepGraph steps = received(graph);
    const Completion completion = Verifier(steps, subject, deadline, &symmetry).run();
    const Atoms atoms = atoms_of({symmetry.intervals()}, graph.buffers);
    ProofBySymmetry proof;
    for (std::size_t i = 0; i < steps.steps.size(); ++i) {
        const std::uint32_t of = completion.of(i);
        if (of == Completion::nothing) continue;
        const Region& region = of == Completion::all ? steps.regions[steps.steps[i].target]
                                                     : completion.parts[of - Completion::first_part];
        for (const AtomRange range : atoms.of(region))
            for (std::uint32_t cell = range.begin; cell < range.end; ++cell)
                proof.completed.emplace_back(steps.executions[steps.steps[i].phase], cell);
    }
    std::sort(proof.completed.begin(), proof.completed.end());
    return proof;
}

Completion ProofBySymmetry::completion_of(const StepGraph& graph, const DataSymmetry& symmetry) const {
    Completion completion;
    if (!completes(contract_of(graph.collective))) return completion;
    completion.by_step.assign(graph.steps.size(), Completion::nothing);
    const Region cells = symmetry.intervals();
    const Atoms atoms = atoms_of({cells}, graph.buffers);
    for (std::size_t i = 0; i < graph.steps.size(); ++i) {
        const Step& step = graph.steps[i];
        if (!step.combines) continue;
        const std::vector<Rank> back = symmetry.ranks.amounts_back(symmetry.topology, step.destination);
        Region part;
        std::size_t all = 0;
        for (const AtomRange range : atoms.of(graph.regions[step.target]))
            for (std::uint32_t cell = range.begin; cell < range.end; ++cell, ++all)
                if (std::binary_search(completed.begin(), completed.end(),
                                       std::pair(graph.executions[step.phase], symmetry.moved(cell, back))))
                    part.push_back(cells[cell]);
        if (part.empty()) continue;
        completion.by_step[i] = Completion::all;
        if (part.size() == all) continue;
        completion.by_step[i] = Completion::first_part + static_cast<std::uint32_t>(completion.parts.size());
        completion.parts.push_back(merged(std::move(part)));
    }
    return completion;
}

}  // namespace hocket::dsl
