// A member's view of its job: the plans it has made, and the operations that it starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "runtime/engine/options.hpp"
#include "runtime/engine/plan.hpp"
#include "runtime/engine/progress.hpp"

namespace hocket::engine {

struct PlanChoice {
    dsl::Collective collective = dsl::Collective::all_reduce;
    DataType type = DataType::float32;
    ReduceOp op = ReduceOp::sum;
    int root = 0;                                        // broadcast only
    std::optional<std::string> schedule = std::nullopt;  // none: the communicator's
    ExecutorKind executor = ExecutorKind::automatic;     // automatic: the communicator's
    std::string purpose = "";                            // see Plan::make
};

// All functions are thread-safe and throw hocket::Error. Executions are handed out as in Progress.
class Communicator {
  public:
    // Joins the job; collective.
    static std::unique_ptr<Communicator> create(const Options& options);

    // Leaves it: gives the others up to 500 ms to take what this rank has sent them, then says goodbye.
    ~Communicator();

    int rank() const { return options_.rank; }
    int size() const { return options_.world_size; }
    const std::string& provider() const { return provider_; }  // "none" in a world of one
    const std::string& topology() const { return options_.topology; }
    const std::string& schedule_path() const { return schedule_path_; }
    const std::string& executor() const { return executor_; }

    std::shared_ptr<Plan> make_plan(const PlanChoice& choice) const;
    std::shared_ptr<Plan> cached_plan(const PlanChoice& choice);

    Execution& start(const std::shared_ptr<Plan>& plan, const void* send, void* recv, std::uint64_t count);
    bool test(Execution& execution) { return progress_->test(execution); }
    void wait(Execution& execution) { progress_->wait(execution); }
    void barrier();
    std::optional<Failure> failure() { return progress_->failure(); }

  private:
    explicit Communicator(const Options& options);
    void open_fabric(bool one_host);
    std::string own_schedule(dsl::Collective collective) const;
    std::shared_ptr<Plan> meeting(std::string purpose);
    void say_goodbye();

    using Key = std::tuple<dsl::Collective, DataType, ReduceOp, int, std::optional<std::string>, ExecutorKind,
                           std::string>;

    Options options_;
    std::string provider_ = "none", schedule_path_, executor_;
    std::unique_ptr<transport::Bootstrap> bootstrap_;
    std::unique_ptr<transport::Fabric> fabric_;
    std::unique_ptr<Progress> progress_;
    std::mutex plans_mutex_;
    std::map<Key, std::shared_ptr<Plan>> plans_;
};

}  // namespace hocket::engine
