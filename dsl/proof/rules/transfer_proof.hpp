// Runs transfers on symbols, a phase at a time, and finds the places that they complete.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/proof/rules/completion.hpp"
#include "dsl/proof/rules/fold_order.hpp"
#include "dsl/proof/rules/state_proof.hpp"
#include "dsl/proof/rules/strand_proof.hpp"
#include "dsl/proof/symbols/contents.hpp"

namespace hocket::dsl {

class TransferProof {
  public:
    TransferProof(const Subject& subject, Contents& contents, StrandProof& strands, const StateProof& states,
                  FoldOrder& order, Completion& completion)
        : subject_(subject),
          graph_(subject.graph),
          contents_(contents),
          sets_(contents.sets),
          traits_(contents.traits),
          strands_(strands),
          states_(states),
          order_(order),
          completion_(completion) {}

    // Runs all reads of a phase, its steps [begin, end), before its writes.
    void run(std::size_t begin, std::size_t end);

  private:
    void read(const Step& step);
    [[noreturn]] void refuse_undefined(const Step& step, std::uint32_t atom) const;
    void write(std::size_t index, std::size_t& value);
    void overwrite(std::size_t index, std::size_t to, std::size_t value);
    void combine(std::size_t index, std::size_t to, std::size_t value);
    void combine_traits(const Step& step, std::size_t to, std::size_t value);
    void find_completed(std::size_t index);
    [[noreturn]] void refuse_combine_of_none(const Step& step, std::size_t to, std::size_t value) const;
    [[noreturn]] void refuse_combine(const Step& step, std::size_t to, std::size_t value) const;

    const Subject& subject_;
    const StepGraph& graph_;
    Contents& contents_;
    Contributions& sets_;
    Traits& traits_;
    StrandProof& strands_;
    const StateProof& states_;
    FoldOrder& order_;
    Completion& completion_;
    // The values that the current phase reads, in order.
    std::vector<SetId> values_;
    std::vector<std::uint32_t> value_atoms_;
    std::vector<TraitId> value_traits_;
};

}  // namespace hocket::dsl
