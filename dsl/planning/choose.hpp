// Chooses the schedule that runs if none is named: the one in the library with the lowest estimate.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsl/elaboration/elaborate.hpp"
#include "dsl/proof/direct.hpp"
#include "dsl/proof/proof.hpp"

namespace hocket::dsl {

class Estimate;
class GroupAlgorithms;
struct Candidate;

// Demands on a schedule besides what its collective promises.
struct Demands {
    Counts counts = Counts::alike;
    bool keeps_order = false;     // operands may not change places, if the operator is not commutative,
    bool keeps_grouping = false;  // nor be regrouped, if it is not associative (dsl/proof/order.hpp)
    Proofs::Follow follow = Proofs::Follow::by_size;  // all_ranks for an order of ranks: it has no symmetry

    bool concern_order() const { return keeps_order || keeps_grouping; }

    friend auto operator<=>(const Demands&, const Demands&) = default;
};

struct Chosen {
    std::string name;      // for PlanRequest::schedule: "direct", "flat(ring, ring)"
    std::string why;       // one line: the candidates and their estimates
    double seconds = 0.0;  // its estimate
};

// Chooses schedules on one topology. It remembers graphs and estimates, so that another choice, for another
// size, costs little; this memory does not influence the result. The choice is the same on all ranks.
class Choices {
  public:
    // All references must outlive it. deadline: of each call; may change between calls. Calls throw
    // DeadlineError once it has passed.
    Choices(Library& library, const Topology& topology, Proofs& proofs,
            const Deadline& deadline = no_deadline);
    ~Choices();

    // The candidates are all schedules of the collective in the library that run on the topology with their
    // parameters' defaults, and all its algorithms over all ranks. Of those that meet the demands and are
    // right, returns the one with the lowest estimate for `bytes` of x (0: 1 MiB). Throws DiagnosticError if
    // there is none. The result is valid until a call names another root. `proof`, if not null, receives the
    // proof of the choice, unless an earlier call has made the same choice.
    const Chosen& schedule(Collective collective, Rank root, std::uint64_t bytes,
                           std::optional<Proofs::Proof>* proof = nullptr, const Demands& demands = {});

    // Returns the names of the candidates of schedule(): its choice first, the others by estimate. Only
    // correct candidates are listed, and of several with the same steps only one.
    std::vector<std::string> names(Collective collective, Rank root, std::uint64_t bytes);

    // Returns a chooser of algorithms for the statements without `using` of a schedule on `bytes` of x (0: 1
    // MiB). For each statement it takes the library's algorithm with the lowest estimate for the part of x
    // that the group works on, among those that allow the group and are right on it. Library, topology and
    // the runnable's definition must outlive it.
    Chooser chooser(const Runnable& runnable, Rank root, std::uint64_t bytes);

    // Returns the schedule in the number of tiles with the lowest estimate for `bytes` of x (0: 1 MiB), if it
    // leaves that to the compiler and some number can be estimated; otherwise as it is. The schedule's
    // definition must outlive this object.
    Runnable in_tiles(const Runnable& runnable, Rank root, std::uint64_t bytes);

  private:
    struct Known;
    struct Entrant;
    struct Field;

    Chooser chooser(const Runnable& runnable, Rank root, double bytes, std::shared_ptr<Known> known);
    Field& field(Collective collective, Rank root);
    std::optional<Candidate> candidate_of(const Runnable& runnable, const std::shared_ptr<Known>& known,
                                          Rank root, double bytes);
    std::optional<Candidate> in_best_tiles(const Runnable& automatic, const std::shared_ptr<Known>& known,
                                           Rank root, double bytes);
    void rate(Candidate& candidate, const Estimate& estimate, double bytes);
    std::vector<Candidate> candidates(const Field& field, double bytes);
    static void sort_best_first(std::vector<Candidate>& candidates);
    const char* fault_of(const Proofs::Proof& proof, const Demands& demands);
    std::optional<Proofs::Proof> proof_if_right(const Candidate& candidate, Rank root,
                                                Proofs::Follow follow = Proofs::Follow::by_size);

    Library& library_;
    const Topology& topology_;
    Proofs& proofs_;
    const Deadline& deadline_;
    std::shared_ptr<GroupAlgorithms> groups_;  // shared with the choosers
    std::map<Collective, std::unique_ptr<Field>> fields_;
    // Of in_tiles(), by schedule: for the last root.
    std::map<const ast::Schedule*, std::pair<Rank, std::shared_ptr<Known>>> named_;
};

// For a topology on which only one choice is made.
Chosen choose_schedule(Library& library, const Topology& topology, Collective collective, Rank root,
                       std::uint64_t bytes, const Deadline& deadline = no_deadline);
// Returns the seconds that a choice reckons with for a schedule that is laid out already, on all ranks.
double estimate_as_candidate(const StepGraph& graph, const Topology& topology, double bytes,
                             const Deadline& deadline = no_deadline, double value_bytes = usual_value_bytes);
std::vector<std::string> candidate_names(Library& library, const Topology& topology, Collective collective,
                                         Rank root, std::uint64_t bytes,
                                         const Deadline& deadline = no_deadline);

}  // namespace hocket::dsl
