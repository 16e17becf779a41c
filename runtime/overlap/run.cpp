#include "runtime/overlap/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/overlap/median.hpp"

namespace hocket::overlap {
namespace {

constexpr std::size_t most_recent = 100;  // iterations in the summaries
constexpr std::size_t most_looked_at = 1000;
constexpr double clear_change = 0.1;         // of the time of an iteration
constexpr double far_off = 1.5;              // the ratio of measured to predicted, or its inverse
constexpr std::size_t worth_measuring = 20;  // a plan should run this many times as long as it is measured
constexpr std::size_t most_patience = 64;

// The call was refused without any effect; the run can continue.
struct Refusal : Error {
    explicit Refusal(const std::string& text) : Error(Status::invalid_argument, text) {}
};
[[noreturn]] void refuse_run(const std::string& text) {
    throw Refusal(text);
}

std::vector<IterationTimes> listed(const std::deque<IterationTimes>& iterations) {
    return {iterations.begin(), iterations.end()};
}

// Extends the times of gradient batches until their weights have arrived, too.
void end_with_pulls(IterationTimes& iteration) {
    const Batches &backward = iteration.plan.backward, &forward = iteration.plan.forward;
    for (std::size_t batch = 0, pull = 0; batch < backward.size() && pull < forward.size(); ++batch) {
        while (forward[pull] < backward[batch]) ++pull;
        auto& moved = iteration.moved[batch];
        moved.ended = std::max(moved.ended, iteration.pulled[pull].ended);
    }
}

// Returns when all gradients were ready and had moved.
Nanoseconds last_moment(const IterationTimes& iteration) {
    Nanoseconds last = iteration.ready.front();
    for (const auto& moved : iteration.moved) last = std::max(last, moved.ended);
    return last;
}

// Returns when the last batch had arrived, which is about the same moment on all ranks.
Nanoseconds last_come(const IterationTimes& iteration) {
    Nanoseconds last = INT64_MIN;
    for (const auto& moved : iteration.moved)
        if (moved.bytes > 0) last = std::max(last, moved.ended);
    return last == INT64_MIN ? iteration.ended : last;
}

}  // namespace

// No call may continue after a failure: batches may be half started.
template <typename Action>
auto Run::unless_failed(const Action& action) {
    if (failure_) std::rethrow_exception(failure_);
    try {
        return action();
    } catch (const Refusal&) {
        throw;
    } catch (...) {
        failure_ = std::current_exception();
        throw;
    }
}

Run::Run(std::unique_ptr<Exchange> exchange, std::vector<std::string> names, RunOptions options)
    : exchange_(std::move(exchange)), names_(std::move(names)), options_(std::move(options)) {
    if (options_.measure < least_to_measure)
        refuse_run(fmt::format("{} iterations are to be measured; it must be {} or more", options_.measure,
                               least_to_measure));
    check_profile();
    check_method();
    if (options_.profile) {
        profile_ = options_.profile;
        // Among ranks the forward pass ends before gradients move.
        if (!exchange_->pulls())
            for (Layer& layer : profile_->layers) layer.forward.reset();
        take_plan();
    } else {
        plan_ = plan_to_measure();
    }
}

void Run::check_profile() const {
    if (!options_.profile) return;
    const std::vector<Layer>& given = options_.profile->layers;
    if (given.size() != layers())
        refuse_run(
            fmt::format("the profile has {} layers, and the model {}: it is one of another model. Without a "
                        "profile, this one is measured",
                        given.size(), layers()));
    for (std::size_t i = 0; i < given.size(); ++i)
        if (given[i].bytes != exchange_->bytes()[i])
            refuse_run(fmt::format(
                "the profile's layer {} has {} bytes, and the model's {}: it is one of another "
                "model. Without a profile, this one is measured",
                i, given[i].bytes ? fmt::format("{}", *given[i].bytes) : "no", exchange_->bytes()[i]));
}

// Called before anything is measured.
void Run::check_method() const {
    if (!exchange_->pulls()) return;
    Profile profile = options_.profile.value_or(bytes_alone());
    if (!options_.profile)
        for (Layer& layer : profile.layers) layer.forward = 0;
    if (const auto why = why_not(profile, options_.method, planning(), options_.pulls)) refuse_run(*why);
}

Description described(const RunOptions& options) {
    return {{"methods", fmt::format("{}", static_cast<int>(options.method))},
            {"limits", fmt::format("{}", options.planning.limit_bytes)},
            {"sizes of buckets", fmt::format("{}", options.planning.bucket_bytes)},
            {"numbers of iterations to measure", fmt::format("{}", options.measure)},
            {"numbers of iterations between looks", fmt::format("{}", options.look_every.value_or(0))},
            {"profiles", options.profile ? json_of(*options.profile) : ""}};
}

// ---- An iteration ----------------------------------------------------------------------------------------

bool Run::forward(std::size_t layer, Clock::time_point until) {
    return unless_failed([&] {
        if (layer >= layers())
            refuse_run(fmt::format("layer {} does not exist: the model has {} layers, numbered from 0", layer,
                                   layers()));
        if (stage_ != Stage::forward && next_layer_ == 0)
            refuse_run(fmt::format(
                "the forward pass of layer {} is out of turn: the iteration is to be finished first", layer));
        if (stage_ != Stage::forward)
            refuse_run(
                fmt::format("the forward pass of layer {} is out of turn: the backward pass of layer {} is "
                            "next",
                            layer, next_layer_ - 1));
        stop_computing();
        if (!wait_for_batches(layer, until) || !wait_for_pulls(layer, until)) return false;
        go_on_computing(layer);
        return true;
    });
}

bool Run::begin_backward(Clock::time_point until) {
    return unless_failed([&] {
        if (stage_ != Stage::forward)
            refuse_run(
                "begin_backward: the backward pass of this iteration has already begun; finish the iteration "
                "first");
        stop_computing();
        if (!wait_for_batches(layers() - 1, until) || !wait_for_pulls(layers() - 1, until)) return false;
        const Nanoseconds now = nanoseconds_of(options_.now());
        if (exchange_->pulls()) close_record(now);
        begin_record(now);
        return true;
    });
}

void Run::backward(std::size_t layer) {
    unless_failed([&] {
        const Nanoseconds now = nanoseconds_of(options_.now());
        if (stage_ != Stage::backward) refuse_run("the backward pass has not begun");
        if (next_layer_ == 0) refuse_run("all layers were there already: the iteration is to be finished");
        if (layer + 1 != next_layer_)
            refuse_run(fmt::format("the gradients of layer {} are out of turn: those of layer {} are next",
                                   layer, next_layer_ - 1));
        --next_layer_;
        record_.ready[layer] = now;
        const Batches& batches = record_.plan.backward;
        const std::size_t first = begin_of(batches, next_batch_ - 1);
        if (layer != first) return;
        --next_batch_;
        IterationTimes::Moved& moved = record_.moved[next_batch_];
        moved.handed = moved.ended = now;
        moved.bytes = exchange_->start(next_batch_, first, batches[next_batch_]);
        has_come_[next_batch_] = moved.bytes == 0 || record_.plan.pulls_forward();
    });
}

bool Run::finish(Clock::time_point until) {
    return unless_failed([&] {
        if (stage_ != Stage::backward) refuse_run("the backward pass has not begun");
        if (next_layer_ != 0)
            refuse_run(fmt::format("the gradients of layers 0 to {} are missing", next_layer_ - 1));
        if (!std::exchange(is_ended_, true)) {
            exchange_->end();
            begin_pulls();
        }
        if (!exchange_->pulls()) {
            if (!wait_for_batches(layers() - 1, until)) return false;
            close_record(last_moment(record_));
        }
        is_ended_ = false;
        stage_ = Stage::forward;
        ++iterations_;
        go_on();
        return true;
    });
}

void Run::begin_record(Nanoseconds now) {
    record_ = {};
    record_.plan = plan_;
    record_.begun = exchange_->pulls() ? now : last_ended_.value_or(now);
    record_.backward = now;
    record_.ready.resize(layers());
    record_.moved.resize(plan_.backward.size());
    has_come_.assign(plan_.backward.size(), false);
    is_record_open_ = true;
    exchange_->begin(plan_);
    stage_ = Stage::backward;
    next_layer_ = layers();
    next_batch_ = plan_.backward.size();
}

// Begins to pull weights, which arrive during the program's work before its next forward pass.
void Run::begin_pulls() {
    if (!exchange_->pulls()) return;
    const Nanoseconds now = nanoseconds_of(options_.now());
    layer_.reset();
    computes_since_ = now;
    was_pulled_.clear();
    if (!record_.plan.pulls_forward()) return;
    for (const std::uint64_t bytes : exchange_->pulled_bytes()) {
        record_.pulled.push_back({bytes, now, now});
        was_pulled_.push_back(bytes == 0);
    }
}

// A program that begins again with an earlier layer has not trained with the previous pass.
void Run::go_on_computing(std::size_t layer) {
    if (!is_record_open_) return;
    if (layer_ && layer < *layer_) record_.forward.clear();
    computes_since_ = nanoseconds_of(options_.now());
    if (layer_ == layer && !record_.forward.empty()) {
        computes_since_ = record_.forward.back().begin;
        record_.forward.pop_back();
    }
    layer_ = layer;
}

void Run::stop_computing() {
    if (!computes_since_) return;
    record_.forward.push_back({layer_, *computes_since_, nanoseconds_of(options_.now())});
    computes_since_.reset();
}

// Waits for the batches of the layers up to this one, in the order in which they were started.
bool Run::wait_for_batches(std::size_t last_layer, Clock::time_point until) {
    if (!is_record_open_) return true;
    for (std::size_t batch = has_come_.size(); batch-- > 0;) {
        if (has_come_[batch] || begin_of(record_.plan.backward, batch) > last_layer) continue;
        const auto ended = exchange_->wait(batch, until);
        if (!ended) return false;
        record_.moved[batch].ended = nanoseconds_of(*ended);
        has_come_[batch] = true;
    }
    return true;
}

bool Run::wait_for_pulls(std::size_t last_layer, Clock::time_point until) {
    if (!is_record_open_) return true;
    const Batches& pulls = record_.plan.forward;
    for (std::size_t batch = 0; batch < was_pulled_.size() && begin_of(pulls, batch) <= last_layer; ++batch) {
        if (was_pulled_[batch]) continue;
        const auto ended = exchange_->wait_for_pull(batch, until);
        if (!ended) return false;
        record_.pulled[batch].ended = nanoseconds_of(*ended);
        was_pulled_[batch] = true;
    }
    return true;
}

// Called when all batches have arrived. Skips the first iteration: connections, kernels and memory are new
// then.
void Run::close_record(Nanoseconds ended) {
    if (!std::exchange(is_record_open_, false)) return;
    record_.ended = ended;
    end_with_pulls(record_);
    const bool is_first = !std::exchange(last_ended_, ended);
    if (is_first || (!is_measuring_ && record_.plan != plan_)) return;
    if (!is_measuring_) {
        times_since_look_.push_back(record_.ended - record_.begun);
        if (times_since_look_.size() > most_looked_at) times_since_look_.pop_front();
        if (recent_.size() == most_recent) recent_.pop_front();
    }
    recent_.push_back(std::move(record_));
}

// ---- Plans -----------------------------------------------------------------------------------------------

PlanOptions Run::planning() const {
    PlanOptions planning = options_.planning;
    planning.direction = Direction::backward;
    planning.bucket_bytes = std::max<std::uint64_t>(planning.bucket_bytes, 1);
    return planning;
}

// Returns a profile of layers that take no time.
Profile Run::bytes_alone() const {
    Profile profile;
    for (const std::uint64_t bytes : exchange_->bytes()) profile.layers.push_back({"", 0, 0, bytes});
    return profile;
}

// Chooses the plan of the next iteration.
void Run::go_on() {
    ++turn_;
    if (is_measuring_) {
        // The first iteration was not recorded.
        if (recent_.size() + 1 < options_.measure) {
            plan_ = plan_to_measure();
            return;
        }
        put_together();
        const std::vector<IterationTimes> iterations = listed(recent_);
        profile_ = profile_of(iterations, names_, exchange_->bytes(), exchange_->order());
        take_plan();
        return;
    }
    if (!options_.look_every || turn_ / patience_ < *options_.look_every) return;
    turn_ = 0;
    if (!have_times_changed()) return;
    // If times keep changing, measures less often: measuring costs iterations, too.
    const bool is_soon = iterations_ - planned_at_ < worth_measuring * options_.measure;
    patience_ = is_soon ? std::min(2 * patience_, most_patience) : std::max<std::size_t>(patience_ / 2, 1);
    is_measuring_ = true;
    summary_before_ = summary_of(listed(recent_));
    recent_.clear();
    plan_ = plan_to_measure();
}

// Returns a plan with batches of many sizes, which follow each other in many ways, so that the times show
// both the cost of a start and the cost of a byte. If it is not decided which way of pulling weights to plan,
// uses both in turn.
IterationPlan Run::plan_to_measure() const {
    const Profile profile = bytes_alone();
    PlanOptions planning = this->planning();
    planning.bucket_bytes = Sums(profile).bytes(0, layers()) / 2 + 1;
    const auto batches = [&](std::size_t turn) {
        constexpr Method methods[] = {Method::layers, Method::sequential, Method::buckets};
        return overlap::plan(profile, methods[turn % std::size(methods)], planning).batches;
    };
    IterationPlan plan{batches(turn_)};
    const bool is_apart = exchange_->pulls() && (options_.pulls == Pulls::forward ||
                                                 (options_.pulls == Pulls::fastest && turn_ % 2 == 1));
    if (is_apart) plan.forward = batches(turn_ + 2);
    return plan;
}

// Gives all processes that plan together the same times: each time is that of the latest process. A process
// that pulls weights plans for itself.
void Run::put_together() {
    if (exchange_->pulls()) return;
    std::vector<std::int64_t> times;
    for (const IterationTimes& iteration : recent_) {
        const Nanoseconds end = last_come(iteration);
        for (const Nanoseconds time : iteration.times()) times.push_back(time - end);
    }
    times = exchange_->greatest(std::move(times));
    std::span<const Nanoseconds> rest = times;
    for (IterationTimes& iteration : recent_) iteration.set_times(rest);
}

void Run::take_plan() {
    plan_ = plan_iteration(*profile_, options_.method, planning(),
                           exchange_->pulls() ? options_.pulls : Pulls::backward);
    predicted_seconds_ = seconds_of_iteration(*profile_, plan_);
    ++plans_;
    is_measuring_ = false;
    turn_ = 0;
    planned_at_ = iterations_;
    usual_.reset();
    recent_.clear();
    times_since_look_.clear();
}

bool Run::have_times_changed() {
    std::vector<Nanoseconds> times(times_since_look_.begin(), times_since_look_.end());
    times_since_look_.clear();
    // 0: no iteration of this plan has ended yet.
    const auto now = static_cast<double>(exchange_->greatest({median(std::move(times))})[0]);
    if (now == 0) return false;
    // The first check also compares with the prediction, whose times may have been bad ones, or another
    // machine's.
    const double predicted = predicted_seconds_ * 1e9;
    const bool is_far_off = !usual_ && (now > far_off * predicted || predicted > far_off * now);
    if (!usual_) usual_ = now;
    return is_far_off || now > (1 + clear_change) * *usual_ || now < (1 - clear_change) * *usual_;
}

RunStats Run::stats() const {
    RunStats stats;
    stats.iterations = iterations_;
    stats.plans = plans_;
    stats.batches = plan_.backward.size();
    stats.pull_batches = plan_.forward.size();
    stats.predicted_seconds = predicted_seconds_;
    if (is_measuring_) {
        stats.measured = summary_before_;
        return stats;
    }
    stats.measured = summary_of(listed(recent_));
    return stats;
}

}  // namespace hocket::overlap
