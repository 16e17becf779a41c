// The proof behind verify.hpp: runs a step graph on symbols.
#pragma once

#include <string>

#include "dsl/base/deadline.hpp"
#include "dsl/proof/rules/completion.hpp"
#include "dsl/proof/rules/computation_proof.hpp"
#include "dsl/proof/rules/fold_order.hpp"
#include "dsl/proof/rules/order_needs.hpp"
#include "dsl/proof/rules/state_proof.hpp"
#include "dsl/proof/rules/strand_proof.hpp"
#include "dsl/proof/rules/transfer_proof.hpp"
#include "dsl/proof/symbols/contents.hpp"
#include "dsl/proof/symbols/selections.hpp"
#include "dsl/proof/symbols/subject.hpp"

namespace hocket::dsl {

class Verifier {
  public:
    // All references must outlive it.
    Verifier(const StepGraph& graph, const std::string& subject, const Deadline& deadline,
             const DataSymmetry* symmetry = nullptr)
        : subject_(graph, subject, deadline, symmetry) {}
    Completion run();
    // Called instead of run(): returns what the graph needs of an operator.
    OrderNeeds order_needs();

  private:
    void learn_states();
    Completion run_known();  // a start, once the states are known
    void run_start();
    void check_end();

    // Each part knows those above it.
    const Subject subject_;
    Contents contents_{subject_};
    StrandProof strands_{subject_};
    Selections selections_{subject_};
    StateProof states_{subject_, contents_, selections_};
    FoldOrder order_{subject_, contents_};
    Completion completion_;
    TransferProof transfers_{subject_, contents_, strands_, states_, order_, completion_};
    ComputationProof computations_{subject_, contents_, strands_, selections_, states_, completion_};
};

}  // namespace hocket::dsl
