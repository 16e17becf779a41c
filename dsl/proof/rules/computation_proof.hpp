// Runs computations on symbols. A value keeps its contributions, and the way in which it was calculated: only
// values that were calculated alike can be combined, and a result that is promised to all ranks must be
// calculated alike on all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/proof/rules/completion.hpp"
#include "dsl/proof/rules/selection_proof.hpp"
#include "dsl/proof/rules/state_proof.hpp"
#include "dsl/proof/rules/strand_proof.hpp"
#include "dsl/proof/symbols/contents.hpp"
#include "dsl/proof/symbols/selections.hpp"
#include "dsl/proof/symbols/symbolic_value.hpp"

namespace hocket::dsl {

class ComputationProof {
  public:
    ComputationProof(const Subject& subject, Contents& contents, StrandProof& strands, Selections& selections,
                     const StateProof& states, Completion& completion)
        : subject_(subject),
          graph_(subject.graph),
          contents_(contents),
          sets_(contents.sets),
          traits_(contents.traits),
          strands_(strands),
          selections_(selections),
          states_(states),
          sparse_(subject, contents, strands, selections, states),
          completion_(completion) {}

    void begin() { was_read_.assign(subject_.places(), false); }  // a start
    // index: of the step.
    void run(std::size_t index);

  private:
    SymbolicValue value_at(const Step& step, std::int64_t buffer, std::uint32_t atom);
    // may_be_any: the result need not be a multiple of the rank's part.
    SymbolicValue run_formula(const Step& step, std::uint32_t atom, bool may_be_any = false);
    void check_is_no_rest(const Step& step, std::size_t to) const;
    SymbolicValue joined(const Step& step, const Formula::Item& item, const SymbolicValue* operands,
                         std::uint32_t atom);
    void check_is_whole_or_linear(const Step& step, const SymbolicValue& value, std::uint32_t atom);
    void assign(std::size_t index, const SelectionProof::Pieces& pieces, const MadeOf& scalars);
    void keep_selection(const Step& step, const MadeOf& scalars);
    void check_is_not_added_yet(const Step& step, std::uint32_t atom) const;
    void write(std::size_t index, std::size_t to, SetId set, TraitId trait);
    void note_terms(const Step& step, std::uint32_t atom, const std::vector<std::uint32_t>& summands,
                    TraitId sum);
    void add_elements(const Step& step, std::uint32_t atom, MadeOf& of) const;

    const Subject& subject_;
    const StepGraph& graph_;
    Contents& contents_;
    Contributions& sets_;
    Traits& traits_;
    StrandProof& strands_;
    Selections& selections_;
    const StateProof& states_;
    SelectionProof sparse_;
    Completion& completion_;
    std::vector<bool> was_read_;  // by place, of states: true if the content was used
};

}  // namespace hocket::dsl
