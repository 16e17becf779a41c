#include "runtime/overlap/iteration.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"

namespace hocket::overlap {
namespace {

// By layer. If the layers' times are unknown, the whole forward pass begins when all weights have arrived.
std::vector<double> forward_times(const Profile& profile) {
    std::vector<double> times;
    for (const Layer& layer : profile.layers) times.push_back(layer.forward.value_or(0));
    if (!has_forward(profile)) times.back() = profile.before;
    return times;
}

// Simulates a processor that computes the backward pass, and a link that moves the batches started so far,
// those of the first layers first.
class Course {
  public:
    explicit Course(const Profile& profile) : slow_(1 + profile.contention), left_(profile.layers.size()) {}

    void hand_over(std::size_t layer, double seconds) {
        if (seconds <= 0) return;
        left_[layer] += seconds;
        all_left_ += seconds;
        moving_.insert(layer);
    }

    // While batches move, one second of computation takes `slow_` seconds.
    void compute(double seconds) {
        const double beside = std::min(seconds, all_left_ / slow_);
        pass(beside * slow_ + (seconds - beside));
    }

    double now() const { return now_; }

    // Returns, by layer, when all layers up to it have moved, if nothing else is started.
    std::vector<double> ends() const {
        std::vector<double> ends;
        double at = now_;
        for (const double left : left_) ends.push_back(at += left);
        return ends;
    }

  private:
    void pass(double seconds) {
        now_ += seconds;
        all_left_ = std::max(0.0, all_left_ - seconds);
        while (!moving_.empty() && seconds > 0) {
            double& left = left_[*moving_.begin()];
            const double moved = std::min(left, seconds);
            left -= moved;
            seconds -= moved;
            if (left <= 0) moving_.erase(moving_.begin());
        }
        if (moving_.empty()) all_left_ = 0;
    }

    const double slow_;
    double now_ = 0, all_left_ = 0;
    std::vector<double> left_;  // seconds left on the link, by layer
    std::set<std::size_t> moving_;
};

void go_backward(Course& course, const Profile& profile, const Batches& batches) {
    const Sums sums(profile);
    for (std::size_t index = batches.size(); index-- > 0;) {
        const std::size_t begin = begin_of(batches, index);
        course.compute(sums.computation(begin, batches[index]));
        for (std::size_t layer = begin; layer < batches[index]; ++layer)
            course.hand_over(layer, sums.transfer(layer, layer + 1) + (layer == begin ? sums.startup() : 0));
    }
}

// Returns when each batch's weights have arrived, given when gradients have moved (`moved`, by layer).
// Separate pulls follow each other, and weights come down while gradients of later layers still go up.
std::vector<double> arrivals(const Profile& profile, const IterationPlan& plan, double now,
                             const std::vector<double>& moved) {
    std::vector<double> come;
    if (!plan.pulls_forward()) {
        for (const std::size_t end : plan.backward) come.push_back(moved[end - 1] + profile.latency);
        return come;
    }
    const Profile pulls = of_forward_pass(profile);
    const Sums sums(pulls);
    double link = now + pulls.latency;
    for (std::size_t index = 0; index < plan.forward.size(); ++index) {
        const std::size_t begin = begin_of(plan.forward, index), end = plan.forward[index];
        link = std::max(link + sums.communication(begin, end), moved[end - 1] + pulls.latency);
        come.push_back(link);
    }
    return come;
}

}  // namespace

bool has_forward(const Profile& profile) {
    return profile.layers.front().forward.has_value();
}

Profile of_both_passes(const Profile& profile) {
    Profile both = profile;
    for (Layer& layer : both.layers) layer.compute += layer.forward.value_or(0);
    return both;
}

Profile of_forward_pass(const Profile& profile) {
    Profile pulls = profile;
    for (Layer& layer : pulls.layers) layer.compute = layer.forward.value();
    if (!profile.pull) return pulls;
    pulls.startup = profile.pull->startup;
    pulls.latency = std::max(profile.pull->latency - profile.pull->startup, 0.0);
    for (Layer& layer : pulls.layers)
        if (layer.bytes) layer.transfer = profile.pull->per_byte * static_cast<double>(*layer.bytes);
    return pulls;
}

std::optional<std::string> why_not(const Profile& profile, Method method, const PlanOptions& options,
                                   Pulls pulls) {
    PlanOptions one_way = options;
    one_way.direction = pulls == Pulls::forward ? Direction::forward : Direction::backward;
    if (pulls == Pulls::forward && !has_forward(profile))
        return "pulls in the forward pass need the seconds of layers' forward passes, and the profile has "
               "none";
    return why_not(profile, method, one_way);
}

IterationPlan plan_iteration(const Profile& profile, Method method, PlanOptions options, Pulls pulls) {
    if (const auto why = why_not(profile, method, options, pulls))
        throw Error(Status::invalid_argument, *why);
    options.direction = Direction::backward;
    IterationPlan with_gradients{plan(of_both_passes(profile), method, options).batches};
    if (pulls == Pulls::backward || why_not(profile, method, options, Pulls::forward)) return with_gradients;
    options.direction = Direction::forward;
    IterationPlan apart{with_gradients.backward, plan(of_forward_pass(profile), method, options).batches};
    const bool is_faster =
        seconds_of_iteration(profile, apart) < seconds_of_iteration(profile, with_gradients);
    return pulls == Pulls::forward || is_faster ? apart : with_gradients;
}

double seconds_of_iteration(const Profile& profile, const IterationPlan& plan) {
    Course course(profile);
    go_backward(course, profile, plan.backward);
    const std::vector<double> moved = course.ends(), come = arrivals(profile, plan, course.now(), moved);
    const std::vector<double> forward = forward_times(profile);
    const double rest =
        has_forward(profile)
            ? std::max(profile.before - std::accumulate(forward.begin(), forward.end(), 0.0), 0.0)
            : 0;
    const double slow = 1 + profile.contention, busy_until = std::max(moved.back(), come.back());
    double now = course.now();
    const auto compute = [&](double seconds) {
        const double beside = std::min(seconds, std::max(busy_until - now, 0.0) / slow);
        now += beside * slow + (seconds - beside);
    };
    compute(rest);
    const Batches& batches = plan.pulls_forward() ? plan.forward : plan.backward;
    for (std::size_t index = 0; index < batches.size(); ++index) {
        now = std::max(now, come[index]);
        for (std::size_t layer = begin_of(batches, index); layer < batches[index]; ++layer)
            compute(forward[layer]);
    }
    return now;
}

}  // namespace hocket::overlap
