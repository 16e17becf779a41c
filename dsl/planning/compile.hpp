// The entry point of the language for code that runs schedules: turns a schedule's name into a checked
// program.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/elaborate.hpp"
#include "dsl/elaboration/find.hpp"
#include "dsl/elaboration/library.hpp"
#include "dsl/graph/operator.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/projection/explain.hpp"
#include "dsl/projection/project.hpp"
#include "dsl/projection/rank_program.hpp"
#include "dsl/proof/direct.hpp"
#include "dsl/proof/proof.hpp"

namespace hocket::dsl {

class Network;
struct Site;
struct ScheduleToPredict;
enum class WhoseSteps : std::uint8_t;
using NetworkOf = std::function<std::shared_ptr<const Network>(const Topology&)>;

// A request for a plan. Names are looked up in search_path (folders of .sched files), in order.
//   schedule: "blueconnect", "flat(ring, doubling)", "my.sched" (the one schedule of this collective in it),
//             "my.sched:name(args)", or "" for the library's choice for the topology and the size
//             (dsl/planning/choose.hpp).
//   topology: "2x3" (innermost first; "2mx3h": dsl/graph/topology.hpp), "bcube(3,2)", "file.sched",
//             "file.sched:name(args)", or "" for one level of all ranks.
struct PlanRequest {
    Collective collective = Collective::all_reduce;
    std::string schedule;
    std::string topology;
    std::vector<std::string> search_path;
    Rank ranks = 1;
    Rank root = 0;
    std::vector<int> hosts = {};  // by rank: ranks with the same number share memory. Empty: none do
    Protocol protocol = Protocol::bandwidth;  // between ranks that share memory
    std::uint64_t bytes = 0;                  // of x: the size for which choices are made. 0: 1 MiB
    Deadline deadline = {};                   // of the check, and of projections
    // by_pair, for all_to_all only: receivers copy out of local peers' inputs.
    Counts counts = Counts::alike;
    // The operator that the plan combines with, if a schedule file defines it; it must outlive the check. A
    // schedule that needs more of an operator than this one promises is refused, or not considered. Null: a
    // built-in operator, all of which may be reordered and regrouped.
    const Operator* op = nullptr;
    // For predictions: values of the parameters that the schedule takes at each start, by name. Only those
    // that are densities of selections matter; a density that is missing here counts as 0.01.
    std::map<std::string, double> start_parameters = {};
    // all_ranks: CheckedSchedule::graph() has the steps of all ranks, however many these are. rank_0 throws
    // AsymmetryError if it does not stand for all.
    Proofs::Follow follow = Proofs::Follow::by_size;
};

// A schedule that has passed verification on a topology. Immutable, thread-safe.
class CheckedSchedule {
  public:
    virtual ~CheckedSchedule() = default;
    // The steps of all ranks, as proved; those of rank 0 if the proof is by symmetry.
    virtual const StepGraph& graph() const = 0;
    virtual bool is_by_symmetry() const = 0;
    virtual RankProgram project(Rank rank) const = 0;  // from the steps that concern the rank
    virtual std::uint64_t fingerprint() const = 0;     // of graph(), and of the symmetry
    // Returns the seconds for this many bytes of x that a choice reckons with. value_bytes: of a selected
    // value.
    virtual double estimate(double bytes, double value_bytes) const = 0;
    virtual const std::string& name() const = 0;  // with arguments: "flat(ring, doubling)"
    virtual const std::string& topology() const = 0;
    virtual const Topology& levels() const = 0;
    virtual const std::vector<std::string>& choices()
        const = 0;  // the compiler's choices and their reasons, a line each
};

// Checks schedules. It remembers what it has read, laid out, estimated and proved, so that another check on
// the same topology, for example for another size, costs little. It reads the folders of the search path
// once, and reads a file again if a schedule names it and the file has changed. Not thread-safe; the results
// are, and may outlive it.
class Planner {
  public:
    Planner() = default;
    // `library`: the files already read from `search_path`, and further ones; none of them is read again.
    Planner(std::vector<std::string> search_path, const Library& library);

    // Throws like check_schedule.
    std::unique_ptr<CheckedSchedule> check(const PlanRequest& request);
    // Makes of a schedule what its prediction needs (dsl/planning/to_predict.hpp). Throws like check(), and
    // like `network_of`, which gives the network of the topology.
    ScheduleToPredict to_predict(const PlanRequest& request, const NetworkOf& network_of, WhoseSteps whose);

    // Returns the definitions in the folders of the search path.
    const Library& library(const std::vector<std::string>& search_path);

  private:
    using Key = std::tuple<std::vector<std::string>, std::string, Rank, std::string>;

    const std::shared_ptr<Site>& site_of(const PlanRequest& request);
    static std::recursive_mutex& mutex_of(Site& site);
    void forget_site(const PlanRequest& request);
    // A site may be incomplete after a deadline, or without memory, and is not used again.
    template <typename Action>
    auto on_site(const PlanRequest& request, Action action) {
        const std::shared_ptr<Site> site = site_of(request);
        try {
            const std::lock_guard lock(mutex_of(*site));
            return action(site);
        } catch (const DiagnosticError&) {
            throw;
        } catch (const NotFoundError&) {
            throw;
        } catch (...) {
            forget_site(request);
            throw;
        }
    }

    std::map<std::vector<std::string>, Library> libraries_;  // by search path; each site has its own copy
    std::map<Key, std::shared_ptr<Site>> sites_;  // by search path, topology, ranks, and schedule's file
};

// Throws DiagnosticError (dsl/base/diagnostic.hpp) for any fault in the text, the request or the schedule's
// meaning; its what() returns the whole rendered diagnostic. Throws NotFoundError (the same header) if a name
// or file does not exist, and DeadlineError (dsl/base/deadline.hpp) if the check takes too long.
std::unique_ptr<CheckedSchedule> check_schedule(const PlanRequest& request);

}  // namespace hocket::dsl
