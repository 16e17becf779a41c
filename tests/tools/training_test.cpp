// Simulated iterations beside what the overlap planner says of its plans.
#include <random>

#include "dsl/prediction/simulation.hpp"
#include "runtime/overlap/pipeline.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"
#include "tools/schedc/simulate.hpp"

using namespace hocket;

namespace {

constexpr double rate = 1e6;  // bytes a second

overlap::Profile drawn_profile(std::mt19937& random) {
    overlap::Profile profile;
    profile.startup = double(random() % 5) / 100;
    const std::size_t layers = 1 + random() % 12;
    for (std::size_t i = 0; i < layers; ++i) {
        overlap::Layer layer{"layer", 0, double(random() % 100) / 100, random() % 4 ? random() % 500'000 : 0};
        layer.forward = double(random() % 50) / 100;
        profile.layers.push_back(layer);
    }
    profile.layers[0].bytes = 1000;
    return profile;
}

// The sums of one pass, if bytes take `per_byte` seconds.
overlap::Sums sums_of(overlap::Profile profile, bool is_forward, double per_byte) {
    for (overlap::Layer& layer : profile.layers) {
        layer.transfer = double(layer.bytes.value()) * per_byte;
        if (is_forward) layer.compute = layer.forward.value();
    }
    return overlap::Sums(profile);
}

tools::ClusterWorkload cluster_of(const std::string& profile, int workers) {
    tools::ClusterWorkload cluster;
    cluster.hosts = workers + 1;
    dsl::Job& job = cluster.workload.jobs.emplace_back();
    job.name = "test";
    job.workers = workers;
    job.placement = dsl::Job::Placement::order;
    cluster.models.emplace_back().profile = profile;
    return cluster;
}

double iteration_of(const tools::ClusterWorkload& cluster, const dsl::Network& network,
                    dsl::Job* planned = nullptr) {
    const dsl::Workload workload =
        tools::with_models(cluster, cluster.workload, network, {HOCKET_SCHEDULES_DIR}, dsl::no_deadline);
    if (planned) *planned = workload.jobs[0];
    return dsl::simulate(workload, network, true).jobs[0].exchanges[0].iteration;
}

}  // namespace

TEST_CASE("an iteration takes what the planner says that its two passes take") {
    std::mt19937 random(35);
    for (int trial = 0; trial < 60; ++trial) {
        const overlap::Profile profile = drawn_profile(random);
        const test::TemporarySchedule file(overlap::json_of(profile));
        const int workers = 1 + static_cast<int>(random() % 3);
        tools::ClusterWorkload cluster = cluster_of(file.path(), workers);
        tools::TrainedModel& model = cluster.models[0];
        model.forward = overlap::all_methods[random() % 5];
        model.backward = overlap::all_methods[random() % std::size(overlap::all_methods)];
        const dsl::Network network = dsl::find_network("switch@1MB/s", dsl::flat_topology(workers + 1));
        dsl::Job job;
        const double seconds = iteration_of(cluster, network, &job);
        const double per_byte = workers / rate;  // all share the server's link
        const overlap::Sums backward = sums_of(profile, false, per_byte),
                            forward = sums_of(profile, true, per_byte);
        INFO(overlap::json_of(profile));
        CHECK(job.overlap.pushes.size() >= 1);
        // Batches without bytes have no start-up here, so compare those plans that have none of them.
        const auto has_bytes = [&](const overlap::Batches& batches) {
            for (std::size_t i = 0; i < batches.size(); ++i)
                if (forward.bytes(overlap::begin_of(batches, i), batches[i]) == 0) return false;
            return true;
        };
        const double planned = overlap::seconds_of(backward, job.overlap.pushes) +
                               overlap::seconds_of(forward, job.overlap.pulls);
        CHECK(seconds <= planned * (1 + 1e-9));
        if (has_bytes(job.overlap.pushes) && has_bytes(job.overlap.pulls))
            CHECK(seconds == Approx(planned).epsilon(1e-9).margin(0));
    }
}

TEST_CASE("a ring's batches take what the ring takes") {
    overlap::Profile profile;
    profile.startup = 0.5;
    profile.layers = {{"a", 0, 3, 1'000'000}, {"b", 0, 6, 3'000'000}};
    const test::TemporarySchedule file(overlap::json_of(profile));
    tools::ClusterWorkload cluster = cluster_of(file.path(), 4);
    cluster.hosts = 4;
    cluster.models[0].all_reduce = "ring";
    const dsl::Network network = dsl::find_network("switch@1MB/s,0us", dsl::flat_topology(4));
    // A third of the computation is forward. Each byte crosses a link 2 * 3 / 4 times.
    CHECK(iteration_of(cluster, network) == Approx(9 + 0.5 + 4 * 1.5).epsilon(1e-9));
    cluster.models[0].backward = overlap::Method::layers;
    // b is ready at 4 s, and combined at 9; a at 6, and combined at 11.
    CHECK(iteration_of(cluster, network) == Approx(11 + 3).epsilon(1e-9));
    cluster.models[0].early = true;
    CHECK(iteration_of(cluster, network) == Approx(11 + 3).epsilon(1e-9));
    cluster.models[0].forward_share = 0.5;
    cluster.workload.jobs[0].compute = 4.5;
    CHECK(iteration_of(cluster, network) ==
          Approx(0.75 * 2 + 0.5 + 4.5 + 0.5 + 1.5 + 0.75 * 3).epsilon(1e-9));
    cluster.workload.jobs[0].workers = 3;
    CHECK_THAT(test::error_of([&] { iteration_of(cluster, network); }),
               Catch::Contains("3 workers on 4 hosts"));
}
