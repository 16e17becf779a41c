// Jobs with layers: their batches, by the overlap planner.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/diagnostic.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/prediction/predict.hpp"
#include "dsl/prediction/simulation.hpp"
#include "runtime/overlap/iteration.hpp"
#include "tools/schedc/simulate.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;
using overlap::Direction;
using overlap::Profile;

constexpr double usual_forward_share =
    1.0 / 3;  // a backward pass has about twice the operations of a forward pass

// Computation is scaled so that a whole iteration's is the job's, if the workload gives one.
std::vector<ModelLayer> layers_of(const Profile& profile, const TrainedModel& model, const Job& job) {
    const bool measured = overlap::has_forward(profile);
    if (measured && model.forward_share)
        throw DiagnosticError(Span(), fmt::format("job {}: the profile has forward passes", job.name),
                              "leave forward_share out; it divides the times of a profile without them");
    const double share = model.forward_share.value_or(usual_forward_share);
    std::vector<ModelLayer> layers;
    double all = 0;
    for (const overlap::Layer& layer : profile.layers) {
        if (!layer.bytes)
            throw DiagnosticError(
                Span(), fmt::format("job {}: layer {} of the profile has no bytes", job.name, layer.name),
                "a simulation needs the bytes of all layers");
        layers.push_back({static_cast<double>(*layer.bytes), layer.compute, layer.forward.value_or(0)});
        if (!measured)
            layers.back() = {layers.back().bytes, layer.compute * (1 - share), layer.compute * share};
        all += layers.back().backward + layers.back().forward;
    }
    const double factor = job.compute > 0 && all > 0 ? job.compute / all : 1;
    for (ModelLayer& layer : layers) {
        layer.backward *= factor;
        layer.forward *= factor;
    }
    return layers;
}

struct PassCosts {
    double startup, seconds;  // of a batch; of all bytes
};

// Returns the planner's view of a pass.
Profile profile_of(const Job& job, Direction direction, const PassCosts& costs) {
    Profile profile;
    profile.startup = costs.startup;
    double all = 0;
    for (const ModelLayer& layer : job.layers) all += layer.bytes;
    for (std::size_t i = 0; i < job.layers.size(); ++i) {
        const ModelLayer& layer = job.layers[i];
        // If weights follow their gradients, a layer's two passes stand on both sides of its communication.
        const double compute = direction == Direction::forward ? layer.forward
                               : job.overlap.early             ? layer.backward + layer.forward
                                                               : layer.backward;
        profile.layers.push_back({fmt::format("{}", i), layer.bytes / all * costs.seconds, compute,
                                  static_cast<std::uint64_t>(layer.bytes)});
    }
    return profile;
}

overlap::Batches planned(const Job& job, overlap::Method method, Direction direction,
                         const PassCosts& costs) {
    const Profile profile = profile_of(job, direction, costs);
    const overlap::PlanOptions options{.direction = direction};
    if (const auto why = why_not(profile, method, options))
        throw DiagnosticError(Span(), fmt::format("job {}: there is no plan: {}", job.name, *why),
                              "choose another method of the overlap planner");
    return plan(profile, method, options).batches;
}

void plan_with_servers(Job& job, const TrainedModel& model, const JobTimes& loads) {
    Overlap& overlap = job.overlap;
    overlap.pushes = planned(job, model.backward, Direction::backward, {overlap.startup, loads.push_load});
    overlap.pulls = overlap.early
                        ? overlap.pushes
                        : planned(job, model.forward, Direction::forward, {overlap.startup, loads.pull_load});
}

// All hosts run a schedule for each batch.
void plan_with_schedule(Job& job, const TrainedModel& model, const Network& network,
                        const std::vector<std::string>& search_path, const Deadline& deadline) {
    if (job.workers != network.ranks())
        throw DiagnosticError(
            Span(), fmt::format("job {}: {} workers on {} hosts", job.name, job.workers, network.ranks()),
            "with all_reduce each host has one worker");
    PlanRequest request;
    request.collective = Collective::all_reduce;
    request.schedule = model.all_reduce;
    request.ranks = network.ranks();
    request.search_path = search_path;
    request.deadline = deadline;
    request.follow = Proofs::Follow::all_ranks;
    const auto checked = check_schedule(request);
    const Predictor predictor(checked->graph(), network, {.ideal = true, .deadline = deadline});
    double all = 0;
    for (const ModelLayer& layer : job.layers) all += layer.bytes;
    const double scale = model.gradients * job.bytes / all;
    const double least = predictor.predict(1).seconds, most = predictor.predict(scale * all).seconds;
    Overlap& overlap = job.overlap;
    overlap.pushes = planned(job, model.backward, Direction::backward,
                             {overlap.startup + least, std::max(0.0, most - least)});
    for (std::size_t i = 0; i < overlap.pushes.size(); ++i) {
        double bytes = 0;
        for (std::size_t layer = overlap::begin_of(overlap.pushes, i); layer < overlap.pushes[i]; ++layer)
            bytes += job.layers[layer].bytes;
        overlap.combines.push_back(bytes > 0 ? predictor.predict(scale * bytes).seconds : 0);
    }
}

}  // namespace

Workload with_models(const ClusterWorkload& cluster, Workload workload, const Network& network,
                     const std::vector<std::string>& search_path, const Deadline& deadline) {
    bool has_servers = false;
    for (std::size_t i = 0; i < workload.jobs.size(); ++i) {
        const TrainedModel& model = cluster.models[i];
        if (model.profile.empty()) continue;
        Job& job = workload.jobs[i];
        const Profile profile = overlap::read_profile(model.profile);
        job.layers = layers_of(profile, model, job);
        job.overlap.early = model.early;
        job.overlap.gradients = model.gradients;
        job.overlap.startup = model.startup.value_or(profile.startup);
        double bytes = 0, compute = 0;
        for (const ModelLayer& layer : job.layers) {
            bytes += layer.bytes;
            compute += layer.backward + layer.forward;
        }
        if (job.bytes == 0) job.bytes = bytes;
        job.compute = compute;
        if (model.all_reduce.empty())
            has_servers = true;
        else
            plan_with_schedule(job, model, network, search_path, deadline);
    }
    if (!has_servers) return workload;
    const WorkloadTimes loads = loads_of(workload, network, deadline);
    for (std::size_t i = 0; i < workload.jobs.size(); ++i)
        if (!cluster.models[i].profile.empty() && cluster.models[i].all_reduce.empty())
            plan_with_servers(workload.jobs[i], cluster.models[i], loads.jobs[i]);
    return workload;
}

}  // namespace hocket::tools
