// The proofs on a topology: each schedule is proved once, however often it is requested.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dsl/elaboration/elaborate.hpp"
#include "dsl/elaboration/symmetry_finder.hpp"
#include "dsl/proof/order.hpp"
#include "dsl/proof/verify.hpp"

namespace hocket::dsl {

// Returns a hash of all ranks' steps: equal exactly if all ranks do the same, however the text is spelled.
// symmetry: if it is not null, the graph has the steps of rank 0, and the motions make the others' of these.
// Then it also differs where motions of other kinds make the same steps.
std::uint64_t fingerprint(const StepGraph& graph, const DataSymmetry* symmetry = nullptr);

// On more ranks than this, one stands for all: it takes less time than to lay out the others' steps.
inline constexpr Rank most_ranks_proved_in_full = 256;

// The roots to try if none is given: all, if there are no more ranks than this; otherwise both ends and the
// middle.
inline constexpr Rank every_root_up_to = 64;
std::set<Rank> roots_to_try(Rank ranks);
std::set<Rank> ends_and_middle(Rank ranks);

// Verifies the algorithm by itself, on one level of this many ranks; if it has a root, with each of these.
// `on_right`, if given, is told each graph of all ranks' steps that is right. Throws DiagnosticError,
// DeadlineError.
void verify_algorithm(const Runnable& algorithm, const Library& library, Rank size,
                      const std::set<Rank>& roots, const Deadline& deadline = no_deadline,
                      const std::function<void(const StepGraph&)>& on_right = {});

// Returns a chooser that makes these choices, in this order.
Chooser chooser_of(std::vector<Choice> choices);

class Proofs {
  public:
    // All references must outlive it. deadline: of each proof; it may change between proofs.
    Proofs(const Library& library, const Topology& topology, const Deadline& deadline = no_deadline)
        : library_(library), topology_(topology), deadline_(deadline) {}

    struct BySymmetry {
        DataSymmetry symmetry;
        ProofBySymmetry proof;
    };
    struct Proof {
        std::shared_ptr<const StepGraph> graph;  // the steps of all ranks, as proved
        std::uint64_t fingerprint;               // of the graph
        std::shared_ptr<const Completion> completion;
        std::vector<Choice> choices;  // the chooser's choices this time
        // If it is not null, `graph` has the steps of rank 0, and `completion` is null: the motions make the
        // steps of other ranks of these.
        std::shared_ptr<const BySymmetry> symmetry = nullptr;
    };
    enum class Follow : std::uint8_t {
        by_size,  // rank 0 if there are more than most_ranks_proved_in_full, and it stands for all
        rank_0,   // which must stand for all: else AsymmetryError is thrown
        all_ranks,
    };
    // Throws DiagnosticError if the schedule is wrong; DeadlineError. `laid_out`, if not null, holds all
    // ranks' steps as this chooser lays them out, so that they are not laid out again.
    Proof prove(const Runnable& runnable, Rank root, const Chooser& choose,
                std::shared_ptr<const StepGraph> laid_out = nullptr, Follow follow = Follow::by_size);
    // Proves by the steps of rank 0. Throws AsymmetryError, too.
    Proof prove_by_symmetry(const Runnable& runnable, Rank root, const Chooser& choose);
    // Lays out the steps of some ranks of a schedule that was proved by symmetry, ascending; and finds what
    // they complete. All ranks' cells are among the graph's regions.
    std::pair<StepGraph, Completion> steps_of(const std::vector<Rank>& ranks, const Proof& proof,
                                              const Runnable& runnable, const Deadline& deadline) const;

    // Returns what the proved schedule needs of an operator. It must have been proved by all ranks' steps: an
    // order of ranks has no symmetry. Throws DeadlineError.
    const OrderNeeds& order_needs_of(const Proof& proof);

  private:
    using Algorithms = std::vector<const ast::Algorithm*>;
    using Key = std::tuple<const ast::Schedule*, const ast::Algorithm*, std::string, Rank>;

    // A graph lives as long as a caller holds it, or as long as there is room.
    struct Proved {
        std::uint64_t fingerprint;
        std::shared_ptr<const Completion> completion;
        std::weak_ptr<const StepGraph> graph;
    };

    // Algorithms in use, by their definitions, names with arguments, and groups' sizes.
    using Used = std::map<std::tuple<const ast::Algorithm*, std::string, Rank>, Runnable>;

    static Algorithms algorithms_of(const std::vector<Choice>& choices);
    std::shared_ptr<const StepGraph> keep(Proved& proved, std::shared_ptr<const StepGraph> graph);
    Completion verify_graph(const StepGraph& graph, const Runnable& runnable) const;
    Proof prove_by_symmetry(const Runnable& runnable, Rank root, const Chooser& choose,
                            SymmetryFinder::Levels levels);
    void refuse_wrong_algorithms(const StepGraph& graph, const Runnable& runnable) const;
    std::string subject_of(const StepGraph& graph, const Runnable& runnable) const;
    Proof prove_in_full(const Runnable& runnable, Rank root, const Chooser& choose,
                        std::shared_ptr<const StepGraph> laid_out);
    Used algorithms_in(const StepGraph& graph, const Runnable& runnable) const;
    std::shared_ptr<const StepGraph> lay_out(const Runnable& runnable, const ElaborateOptions& options) const;

    const Library& library_;
    const Topology& topology_;
    const Deadline& deadline_;
    std::map<Key, std::map<Algorithms, Proved>> proved_;        // by the chosen algorithms
    std::map<std::tuple<Key, Algorithms>, Proof> by_symmetry_;  // of one rank's steps, which are few
    std::map<std::uint64_t, OrderNeeds> order_needs_;           // by fingerprint
    std::deque<std::shared_ptr<const StepGraph>> kept_;  // the most recent ones for which there is room
    std::size_t kept_steps_ = 0;
};

}  // namespace hocket::dsl
