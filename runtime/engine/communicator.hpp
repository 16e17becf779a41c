// A rank's view of its job: the plans that it has made, and the operations that it starts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dsl/planning/compile.hpp"
#include "runtime/base/log.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/engine/background.hpp"
#include "runtime/engine/job/agreement.hpp"
#include "runtime/engine/job/options.hpp"
#include "runtime/engine/job/planning.hpp"
#include "runtime/engine/job/tuning.hpp"
#include "runtime/engine/progress.hpp"
#include "runtime/engine/recorder.hpp"
#include "runtime/engine/sized_plans.hpp"

namespace hocket::engine {

struct PlanChoice {
    dsl::Collective collective = dsl::Collective::all_reduce;
    DataType type = DataType::float32;
    compute::Reduction op = ReduceOp::sum;
    int root = 0;                                        // for collectives with a root
    std::optional<std::string> schedule = std::nullopt;  // none: the communicator's
    ExecutorKind executor = ExecutorKind::automatic;     // automatic: the communicator's
    bool is_uneven = false;                              // for pieces of different counts
    std::vector<std::uint64_t> tensors = {};  // as in compute::ComputeOptions; not for a cached plan
    bool is_for_rendezvous = false;           // a barrier: the schedule is not the program's choice
};

// All functions are thread-safe and throw hocket::Error. Executions are lent as in Progress.
class Communicator {
  public:
    // Joins the job; collective.
    static std::unique_ptr<Communicator> create(const Options& options);

    // Leaves the job: gives the others up to 500 ms to take what this rank has sent them, then says goodbye.
    ~Communicator();

    const Options& options() const { return options_; }
    int rank() const { return options_.rank; }
    int size() const { return options_.world_size; }
    const std::string& provider_why() const { return provider_why_; }  // reasons for it; "" without messages
    const std::string& provider() const { return provider_; }          // "none" in a world of one
    const std::string& topology() const { return options_.topology; }
    const std::string& schedule_path() const { return schedule_path_; }
    std::string_view executor() const { return name_of(options_.executor); }
    const char* progress() const { return background_ ? "thread" : "calls"; }

    // The operator that schedule files define under this name, or in this file (dsl/elaboration/find.hpp).
    std::shared_ptr<const dsl::Operator> find_operator(const std::string& text) const;

    // make_plans makes the plans of a choice, the first of them at once, so that an error is reported now.
    std::unique_ptr<SizedPlans> make_plans(const PlanChoice& choice) const;
    SizedPlans& cached_plans(const PlanChoice& choice);
    const std::shared_ptr<StartablePlan>& cached_plan(const PlanChoice& choice, std::uint64_t count) {
        return plan_for(cached_plans(choice), count).plan;
    }

    // For an uneven choice. With counts for each pair, ranks have different counts but must all use the same
    // plan: that for the usual size.
    const std::shared_ptr<StartablePlan>& cached_plan(const PlanChoice& choice, const Layout& pieces) {
        const std::uint64_t element = element_size(choice.type);
        const std::uint64_t bytes =
            pieces.is_by_pair() ? usual_bytes : std::min(pieces.count(), UINT64_MAX / element) * element;
        return made_for_all(cached_plans(choice), bytes).plan;
    }

    // Returns the plan for `count`, as the collective's function takes it. It is about to be started: if it
    // cannot be made, the other ranks are told.
    const SizedPlans::Sized& plan_for(SizedPlans& plans, std::uint64_t count) const {
        const std::uint64_t bytes = plans.bytes_of(count);
        const SizedPlans::Sized* known = plans.find(bytes);
        return known ? *known : made_for_all(plans, bytes);
    }

    // Fails the operation that this rank was about to start, also on the other ranks, which would wait for
    // it.
    void cannot_start(const std::exception& error) { progress_->cannot_start(error); }

    // factor: for this rank's input, if the plan multiplies.
    Execution& start(const std::shared_ptr<StartablePlan>& plan, const void* send, void* recv, Extent extent,
                     double factor = 1) {
        if (may_use_device(extent))
            if (const auto buffers = buffers_on_device(*plan, send, recv, extent))
                return progress_->start(plan, std::move(extent), send, recv, factor, std::nullopt, &*buffers);
        return progress_->start(plan, std::move(extent), send, recv, factor);
    }
    void run(const std::shared_ptr<StartablePlan>& plan, const void* send, void* recv, Extent extent,
             double factor = 1) {
        if (may_use_device(extent))
            if (const auto buffers = buffers_on_device(*plan, send, recv, extent))
                return progress_->run(plan, std::move(extent), send, recv, factor, &*buffers);
        progress_->run(plan, std::move(extent), send, recv, factor);
    }
    // Calls the action while no other thread is working for this communicator.
    void while_still(const std::function<void()>& action) { progress_->while_still(action); }
    bool test(Execution& execution) { return progress_->test(execution); }
    bool wait(Execution& execution, Progress::Clock::time_point until = Progress::Clock::time_point::max()) {
        return progress_->wait(execution, until);
    }
    void barrier();
    Execution& start_barrier();
    // Throws Error(timeout), which names all ranks that have not come. The communicator stays usable, and the
    // next call goes on with the same barrier.
    void barrier_monitored(std::chrono::milliseconds timeout);
    MessageRequest& start(const MessageStart& message) {
        check_message(message);
        const auto buffers = buffer_on_device(message);
        return progress_->start(message, buffers ? &*buffers : nullptr);
    }
    void run(const MessageStart& message) {
        check_message(message);
        const auto buffers = buffer_on_device(message);
        progress_->run(message, buffers ? &*buffers : nullptr);
    }
    bool test(MessageRequest& request) { return progress_->test(request); }
    bool wait(MessageRequest& request,
              Progress::Clock::time_point until = Progress::Clock::time_point::max()) {
        return progress_->wait(request, until);
    }
    std::optional<std::size_t> wait_any(std::span<Request* const> requests,
                                        Progress::Clock::time_point until) {
        return progress_->wait_any(requests, until);
    }
    void tell_end(const Request& request, Endings::Way way) { progress_->tell_end(request, std::move(way)); }
    // Returns the thread that makes the calls promised by tell_end().
    Caller& caller() { return progress_->caller(); }
    std::optional<Failure> failure() { return progress_->failure(); }
    // Makes all calls fail from now on, here and on the other ranks.
    void abort(const std::string& reason) { progress_->abort(reason); }

    // Exchanges texts. Collective, in the same order on all ranks as all other collectives: every rank gives
    // a text (at most 1 MiB) and gets all texts, by rank. purpose: the name to report where ranks differ; ""
    // if it continues what another exchange has begun.
    std::vector<std::string> exchange(const std::string& text, const std::string& purpose);
    // Returns, for each place, the greatest of the values that the ranks give; all give the same number of
    // values. It is as cheap as a program's collective. purpose: its name where ranks differ, and in traces.
    std::vector<std::int64_t> greatest(const std::vector<std::int64_t>& own, const std::string& purpose);
    const std::string& secret() const { return options_.secret; }
    // Writes the record of the last operations to a file (record::Recording). Throws Error(io).
    void dump(const std::string& path) { recorder_->save_to(path, "call"); }
    // Throws Error(aborted) if a rank has called abort().
    void throw_if_aborted();
    // Returns true if the other ranks have given up this one: they may have gone on without it.
    bool was_given_up() const;
    // Returns the ranks that may have gone on without this one, and that have ended since if the failure has
    // been known here for longer than they wait for it. Numbers as in the recovery.
    std::set<int> may_have_gone_on() const;
    // Returns the ranks that are lost, as far as this rank knows, ascending.
    std::vector<int> lost();
    // Returns the numeric address at which the other ranks reach this one.
    std::string own_address() const;
    // Returns the number of this rank's host: ranks that share memory have the same number.
    int host() const { return agreement_.hosts[static_cast<std::size_t>(rank())]; }
    // If the first lost rank is one of these, says which rank was lost and how. Thread-safe, never blocks.
    std::optional<std::string> loss_among(const std::vector<int>& ranks) const;

    // Sets the stream for operations on device memory that the calling thread starts. Throws hocket::Error
    // (invalid_argument: this process has no driver).
    void set_stream(device::Stream stream);

    // Returns the memory that the ranks of this host share. This rank allocates in its own part.
    transport::Window& window() { return *window_; }

  private:
    static constexpr std::uint64_t usual_bytes = 1 << 20;
    static constexpr std::uint64_t most_without_look = 4096;  // elements

    explicit Communicator(const Options& options);
    void meet();
    void open_window(transport::WindowInvitation invitation);
    void open_fabric();
    JobShape shape() const;
    std::string own_schedule(dsl::Collective collective) const;
    ExecutorKind executor_of(const PlanChoice& choice) const;
    std::unique_ptr<dsl::CheckedSchedule> check(dsl::PlanRequest request) const;
    SizedPlans::Sized make_plan(const PlanChoice& choice, std::uint64_t bytes,
                                const SizedPlans::Made& made) const;
    std::unique_ptr<dsl::CheckedSchedule> tuned_schedule(dsl::PlanRequest request,
                                                         std::vector<std::string>& why) const;
    std::unique_ptr<SizedPlans> lazy_plans(const PlanChoice& choice) const;
    const SizedPlans::Sized& made_for_all(SizedPlans& plans, std::uint64_t bytes) const;
    std::shared_ptr<StartablePlan> make_rendezvous(const std::string& purpose,
                                                   DataType type = DataType::int32,
                                                   compute::Reduction op = ReduceOp::sum);
    void check_message(const MessageStart& message) const;
    // Small starts must not pay for looking whether a driver has been loaded.
    static bool may_use_device(const Extent& extent) {
        return device::known_driver() != nullptr || extent.count > most_without_look;
    }
    std::optional<device::Buffers> buffers_on_device(const Plan& plan, const void* send, const void* recv,
                                                     const Extent& extent);
    std::optional<device::Buffers> buffer_on_device(const MessageStart& message);
    std::optional<device::Place> place_of(const device::Driver& driver, const void* memory,
                                          const char* name) const;
    const std::shared_ptr<StartablePlan>& barrier_plan();
    void say_goodbye();
    record::Origin origin() const;
    void log_joining() const;
    void log_choice(const PlanChoice& choice, const SizedPlans::Sized& sized, std::uint64_t bytes,
                    const std::string& named_by, bool is_there_already) const;
    template <typename... Args>
    void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
        if (options_.log >= level)
            log_line("hocket: {}: {}", record::name_of(recorder_->origin()),
                     fmt::format(format, std::forward<Args>(args)...));
    }

    using Key = std::tuple<dsl::Collective, DataType, compute::Reduction, int, std::optional<std::string>,
                           ExecutorKind, bool>;
    static constexpr std::size_t collectives = std::size(dsl::all_collectives), types = std::size(all_types),
                                 operators = std::size(all_ops);

    Options options_;
    std::string provider_ = "none", provider_why_, schedule_path_;
    std::unique_ptr<transport::Bootstrap> bootstrap_;
    Agreement agreement_;
    Tuning tuning_;  // measured in jobs of this shape; the same on all ranks
    mutable std::atomic<bool> warned_ = false;
    bool one_host_ = false, is_leaving_ = false;
    std::unique_ptr<transport::Window> own_window_;  // if no memory is shared
    std::unique_ptr<LocalPeers> local_peers_;
    transport::Window* window_ = nullptr;
    std::unique_ptr<transport::Fabric> fabric_;
    device::Devices devices_;
    std::unique_ptr<Tracer> tracer_;  // null: no tracing
    std::unique_ptr<Progress> progress_;
    std::unique_ptr<Recorder> recorder_;
    std::unique_ptr<Background> background_;  // null: operations make progress only during calls
    // The collectives for which options_.schedule exists. Guarded by a turn of options_.planning.
    mutable std::optional<std::set<dsl::Collective>> own_collectives_;
    std::mutex exchanging_, rendezvous_;
    std::once_flag barrier_made_;
    std::shared_ptr<StartablePlan> barrier_;
    // Send and receive buffer of all barriers. The sum is not used.
    const std::int32_t here_ = 1;
    std::int32_t all_here_ = 0;
    std::mutex plans_mutex_;
    std::map<Key, std::unique_ptr<SizedPlans>> plans_;
    // The communicator's own choices with root 0, which are found without a lock.
    std::array<std::atomic<SizedPlans*>, collectives * types * operators> usual_plans_{};
};

}  // namespace hocket::engine
