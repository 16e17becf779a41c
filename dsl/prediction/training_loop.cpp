#include "dsl/prediction/training_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hocket::dsl {
namespace {

std::vector<ModelLayer> layers_of(const Job& job) {
    return job.layers.empty() ? std::vector<ModelLayer>{{job.bytes, job.compute, 0}} : job.layers;
}

bool is_amount(double value) {
    return value >= 0 && std::isfinite(value);
}

bool are_batches(const std::vector<std::size_t>& ends, std::size_t layers) {
    std::size_t before = 0;
    for (const std::size_t end : ends) {
        if (end <= before) return false;
        before = end;
    }
    return ends.empty() || before == layers;
}

}  // namespace

std::optional<std::string> why_no_plan(const Job& job) {
    double bytes = 0;
    for (const ModelLayer& layer : job.layers) {
        if (!is_amount(layer.bytes) || !is_amount(layer.backward) || !is_amount(layer.forward))
            return fmt::format("a layer of {} bytes, {} s backward, {} s forward", layer.bytes,
                               layer.backward, layer.forward);
        bytes += layer.bytes;
    }
    if (!job.layers.empty() && !(bytes > 0 && std::isfinite(bytes)))
        return fmt::format("layers of {} bytes together", bytes);
    const Overlap& overlap = job.overlap;
    const std::size_t layers = std::max<std::size_t>(job.layers.size(), 1);
    if (!are_batches(overlap.pushes, layers) || !are_batches(overlap.pulls, layers))
        return fmt::format("batches that are not those of {} layers", layers);
    if (!is_amount(overlap.startup)) return fmt::format("a start-up of {} s", overlap.startup);
    if (!(overlap.gradients > 0 && std::isfinite(overlap.gradients)))
        return fmt::format("{} bytes of gradients for each of weights", overlap.gradients);
    if (!overlap.combines.empty() &&
        overlap.combines.size() != std::max<std::size_t>(overlap.pushes.size(), 1))
        return fmt::format("{} times for {} batches of gradients", overlap.combines.size(),
                           overlap.pushes.size());
    if (!std::all_of(overlap.combines.begin(), overlap.combines.end(), is_amount))
        return "gradients that take no finite time to be combined";
    return {};
}

std::size_t TrainingLoop::Line::batch_of(std::size_t layer) const {
    return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), layer) - ends.begin());
}

TrainingLoop::TrainingLoop(const Job& job)
    : overlap_(job.overlap),
      layers_(layers_of(job)),
      iterations_(static_cast<std::size_t>(job.iterations)),
      start_(job.start),
      pulls_(job.overlap.combines.empty()),
      push_(line_of(job.overlap.pushes)),
      pull_(line_of(job.overlap.pulls)) {}

TrainingLoop::Line TrainingLoop::line_of(const std::vector<std::size_t>& ends) const {
    Line line;
    line.ends = ends.empty() ? std::vector{layers()} : ends;
    double all = 0;
    for (const ModelLayer& layer : layers_) all += layer.bytes;
    for (std::size_t i = 0; i < line.ends.size(); ++i) {
        double bytes = 0;
        for (std::size_t layer = line.begin_of(i); layer < line.ends[i]; ++layer)
            bytes += layers_[layer].bytes;
        line.shares.push_back(line.ends.size() == 1 ? 1 : bytes / all);
    }
    return line;
}

double TrainingLoop::next() const {
    return std::min({start_, computed_, push_.timer, pull_.timer});
}

void TrainingLoop::pass(double seconds) {
    if (exchanges_.empty() || is_over()) return;
    const bool computes = computed_ != no_event, communicates = push_.is_busy || pull_.is_busy;
    ExchangeTimes& times = exchanges_.back();
    if (computes) times.computation += seconds;
    if (communicates) times.communication += seconds;
    if (computes && communicates) times.overlap += seconds;
}

bool TrainingLoop::may_push(std::size_t batch) const {
    // Steps are layers, from the last to the first: this batch's first layer has computed.
    return step_ >= layers() - push_.begin_of(batch);
}

// Whether servers, or all workers, have what the layer's new weights are made of.
bool TrainingLoop::may_use(std::size_t layer) const {
    return overlap_.early ? push_.done[push_.batch_of(layer)] : push_.left == 0;
}

bool TrainingLoop::may_pull(std::size_t batch) const {
    if (!overlap_.early) return push_.left == 0;
    for (std::size_t layer = pull_.begin_of(batch); layer < pull_.ends[batch]; ++layer)
        if (!may_use(layer)) return false;
    return true;
}

void TrainingLoop::begin_iteration(double now) {
    start_ = no_event;
    step_ = 0;
    begun_ = now;
    exchanges_.emplace_back();
    for (Line* line : {&push_, &pull_}) {
        line->done.assign(line->ends.size(), false);
        line->left = line->ends.size();
        line->begun = line->ended = now;
    }
}

void TrainingLoop::end_iteration(double now) {
    ExchangeTimes& times = exchanges_.back();
    times.begin = push_.begun;
    times.push = push_.ended - push_.begun;
    times.pull = pulls_ ? pull_.ended - pull_.begun : 0;
    times.iteration = now - begun_;
    is_over_ = exchanges_.size() == iterations_;
    if (!is_over_) begin_iteration(now);
}

bool TrainingLoop::end_computing(double now) {
    if (computed_ > now) return false;
    computed_ = no_event;
    if (++step_ == 2 * layers()) end_iteration(now);
    return true;
}

bool TrainingLoop::compute(double now) {
    if (computed_ != no_event || start_ != no_event || is_over()) return false;
    const std::size_t layer = is_backward() ? layers() - 1 - step_ : step_ - layers();
    const bool has_weights = pulls_ ? pull_.done[pull_.batch_of(layer)] : may_use(layer);
    if (!is_backward() && !has_weights) return false;
    computed_ = now + (is_backward() ? layers_[layer].backward : layers_[layer].forward);
    return true;
}

// Begins the first batch that can go.
bool TrainingLoop::move(Way way, double now) {
    Line& its = line(way);
    if (its.is_busy || its.left == 0 || start_ != no_event || is_over()) return false;
    for (std::size_t batch = 0; batch < its.ends.size(); ++batch) {
        if (its.done[batch] || !(way == Way::push ? may_push(batch) : may_pull(batch))) continue;
        if (its.left == its.ends.size()) its.begun = now;
        its.batch = batch;
        its.is_busy = true;
        // What has no bytes takes no time.
        its.timer = now + (its.shares[batch] > 0 ? overlap_.startup : 0);
        if (its.shares[batch] > 0 && !pulls_) its.timer += overlap_.combines[batch];
        return true;
    }
    return false;
}

std::optional<TrainingLoop::Way> TrainingLoop::end_startup(double now) {
    for (const Way way : {Way::push, Way::pull})
        if (line(way).timer <= now) {
            line(way).timer = no_event;
            return way;
        }
    return {};
}

void TrainingLoop::arrived(Way way, double now) {
    Line& its = line(way);
    its.is_busy = false;
    its.done[its.batch] = true;
    --its.left;
    its.ended = now;
}

std::optional<TrainingLoop::Batch> TrainingLoop::advance(double now) {
    if (start_ <= now) begin_iteration(now);
    while (true) {
        if (const std::optional<Way> way = end_startup(now)) {
            const double share = line(*way).shares[line(*way).batch];
            if (share > 0 && pulls_) return Batch{*way, share};
            arrived(*way, now);
            continue;
        }
        if (end_computing(now) || compute(now) || move(Way::push, now) || (pulls_ && move(Way::pull, now)))
            continue;
        return {};
    }
}

}  // namespace hocket::dsl
