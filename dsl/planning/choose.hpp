// What is run where nothing is named: of what the library has, that with the lowest estimate.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/elaboration/elaborate.hpp"
#include "dsl/proof/proof.hpp"

namespace hocket::dsl {

struct Chosen {
    std::string name;      // for PlanRequest::schedule: "direct", "flat(ring, ring)"
    std::string why;       // a line: the candidates and their estimates
    double seconds = 0.0;  // its estimate
};

// Chooses on one topology. Remembers what it has laid out and estimated, so that a further choice, for
// another size, costs little; what is chosen does not depend on it, and is the same on all ranks.
class Choices {
  public:
    // All must outlive it. deadline: of each call; may change between them: DeadlineError.
    Choices(Library& library, const Topology& topology, Proofs& proofs,
            const Deadline& deadline = no_deadline);
    ~Choices();

    // Of all schedules of the collective in the library that run on the topology, with their parameters'
    // defaults, and of all its algorithms over all ranks, the one with the lowest estimate for `bytes` of x
    // (0: 1 MiB) that is right. Throws DiagnosticError if there is none. Valid until it is asked about
    // another root. `proof`, if not null, gets its proof, unless the choice is known from before.
    // only_direct: only of those that are direct (dsl/proof/direct.hpp).
    const Chosen& schedule(Collective collective, Rank root, std::uint64_t bytes,
                           std::optional<Proofs::Proof>* proof = nullptr, bool only_direct = false);

    // The names of all that schedule() chooses among, its choice first, then by estimate. Right ones only,
    // and of those that come to the same steps one.
    std::vector<std::string> names(Collective collective, Rank root, std::uint64_t bytes);

    // Algorithms for the statements without `using` of a schedule on `bytes` of x (0: 1 MiB): for each, among
    // the library's algorithms that allow the group and are right on it, that with the lowest estimate for
    // the part of x that the group works on. Library, topology and the runnable's definition must outlive it.
    Chooser chooser(const Runnable& runnable, Rank root, std::uint64_t bytes);

  private:
    class ForGroups;
    struct Known;
    struct Field;
    struct Candidate;

    Chooser chooser(const Runnable& runnable, Rank root, double bytes, std::shared_ptr<Known> known);
    Field& field(Collective collective, Rank root);
    std::vector<Candidate> candidates(Field& field, double bytes);
    std::optional<Proofs::Proof> proof_if_right(const Candidate& candidate, Rank root);

    Library& library_;
    const Topology& topology_;
    Proofs& proofs_;
    const Deadline& deadline_;
    std::shared_ptr<ForGroups> groups_;  // shared with the choosers
    std::map<Collective, std::unique_ptr<Field>> fields_;
};

// For a topology that is asked about once.
Chosen choose_schedule(Library& library, const Topology& topology, Collective collective, Rank root,
                       std::uint64_t bytes, const Deadline& deadline = no_deadline);
std::vector<std::string> candidate_names(Library& library, const Topology& topology, Collective collective,
                                         Rank root, std::uint64_t bytes);

}  // namespace hocket::dsl
