// hkt_overlap as programs use it.
#include <unistd.h>

#include <csignal>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/overlap/model.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

constexpr std::int32_t all_methods[] = {HKT_OVERLAP_OPTIMUM,    HKT_OVERLAP_SEQUENTIAL, HKT_OVERLAP_LAYERS,
                                        HKT_OVERLAP_ALGORITHM1, HKT_OVERLAP_ALGORITHM2, HKT_OVERLAP_IBATCH,
                                        HKT_OVERLAP_MG_WFBP,    HKT_OVERLAP_BUCKETS};

Comm join_with_thread() {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.progress = HKT_PROGRESS_THREAD;
    return join(&options);
}

Overlap open(hkt_comm* comm, OverlapModel& model, const hkt_overlap_run_options& options) {
    hkt_overlap* overlap = nullptr;
    must(hkt_overlap_with_ranks(comm, model.tensors(), model.count(), model.gradients(), OverlapModel::list,
                                OverlapModel::layers, &options, &overlap));
    return Overlap(overlap);
}

Overlap open(hkt_params* params, OverlapModel& model, const hkt_overlap_run_options& options) {
    hkt_overlap* overlap = nullptr;
    must(hkt_overlap_with_params(params, model.gradients(), model.weights(), OverlapModel::list,
                                 OverlapModel::layers, &options, &overlap));
    return Overlap(overlap);
}

hkt_overlap_run_options options_of(std::int32_t method, std::int32_t measure) {
    hkt_overlap_run_options options = HKT_OVERLAP_RUN_OPTIONS_INIT;
    options.method = method;
    options.measure = measure;
    options.bucket_bytes = 50'000;
    return options;
}

hkt_overlap_run_stats stats_of(hkt_overlap* overlap) {
    hkt_overlap_run_stats stats{};
    must(hkt_overlap_get_stats(overlap, &stats, sizeof stats));
    return stats;
}

std::vector<std::size_t> batches_of(hkt_overlap* overlap) {
    std::vector<std::size_t> ends(OverlapModel::layers);
    std::size_t batches = 0;
    must(hkt_overlap_batches(overlap, ends.data(), &batches));
    ends.resize(batches);
    return ends;
}

const auto nothing = [](std::size_t) {};

void train_ranks(hkt_comm* comm, hkt_overlap* overlap, OverlapModel& model, int first, int iterations,
                 int inner) {
    for (int iteration = first; iteration < first + iterations; ++iteration) {
        iterate(overlap, nothing,
                [&](std::size_t layer) { model.compute(layer, hkt_comm_rank(comm), iteration); });
        model.expect_averages(hkt_comm_size(comm), iteration, inner);
    }
}

Params open_service(hkt_comm* comm, const OverlapModel& model, hkt_params_options options, Server& server) {
    hkt_params* params = nullptr;
    hkt_params_server* served = nullptr;
    must(comm, hkt_params_open_with_ranks(comm, 1, model.tensors(), model.count(), nullptr, &options, &params,
                                          &served));
    server.reset(served);
    return Params(params);
}

}  // namespace

TEST_CASE("gradients among ranks have the same bits with every plan") {
    struct Way {
        int ranks;
        const char *provider, *topology;
        bool together;
        int inner = 1;  // ranks of a level
    };
    for (const Way& way : {Way{3, "", "", true}, Way{4, "tcp", "2x2", true, 2}, Way{3, "tcp", "", false},
                           Way{1, "", "", false}}) {
        std::map<std::string, std::string> environment{{"HOCKET_TIMEOUT_MS", "30000"}};
        if (*way.provider) environment["HOCKET_PROVIDER_FOR_ALL"] = way.provider;
        if (*way.topology) environment["HOCKET_TOPOLOGY"] = way.topology;
        const auto outcomes = run_ranks({way.ranks, environment}, [&](int) {
            const Comm comm = join_with_thread();
            OverlapModel model(way.together);
            std::size_t number = static_cast<std::size_t>(way.ranks);
            for (const std::int32_t method : all_methods) {
                if (number++ % in_long_form(1, 3) != 0) continue;
                const Overlap overlap = open(comm.get(), model, options_of(method, 5));
                train_ranks(comm.get(), overlap.get(), model, 0, 5, way.inner);
                expect(stats_of(overlap.get()).plans == 1, "it has planned");
                train_ranks(comm.get(), overlap.get(), model, 5, 3, way.inner);
                const hkt_overlap_run_stats stats = stats_of(overlap.get());
                expect(stats.iterations == 8, "the iterations");
                expect(stats.batches == batches_of(overlap.get()).size(), "the batches");
                expect(stats.predicted_seconds > 0 && stats.measured_seconds > 0, "the times");
                expect(stats.computation <= stats.measured_seconds && stats.overlap <= stats.communication,
                       "parts of the times");
            }
        });
        INFO(way.ranks << " " << way.provider << " " << way.topology << " " << way.together);
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("all ranks run one plan, and know its profile") {
    const auto outcomes = run_ranks({3, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [](int rank) {
        const Comm comm = join_with_thread();
        OverlapModel model;
        const Overlap overlap = open(comm.get(), model, options_of(HKT_OVERLAP_OPTIMUM, 5));
        for (int iteration = 0; iteration < 7; ++iteration) {
            iterate(overlap.get(), nothing, [&](std::size_t layer) {
                if (rank == 1 && layer == 2) usleep(50'000);
                model.compute(layer, rank, iteration);
            });
            model.expect_averages(3, iteration);
        }
        const char* json = nullptr;
        must(hkt_overlap_profile(overlap.get(), &json));
        const auto profile = nlohmann::json::parse(json);
        expect(profile["layers"].size() == OverlapModel::layers, "the layers");
        expect(profile["layers"][3]["bytes"] == 4 * 70007, "bytes of a layer");
        expect(profile["layers"][0]["name"] == "first", "a name");
        expect(profile["layers"][1]["name"] == "layer 2", "a layer without a name");
        std::vector<std::int32_t> ends(OverlapModel::layers, 0);
        for (const std::size_t end : batches_of(overlap.get())) ends[end - 1] = 1;
        std::vector<std::int32_t> greatest = ends;
        must(comm.get(), hkt_all_reduce(ends.data(), greatest.data(), ends.size(), HKT_INT32, HKT_MAX,
                                        comm.get(), nullptr));
        expect(ends == greatest, "ranks have different plans");
    });
    CHECK(problems(outcomes) == "");
}

namespace {

// Trains with the service of the last rank, and looks at all weights on the way. weights_stay: those of all
// layers are the old ones until the backward pass is over.
void train_with_service(hkt_params* params, OverlapModel& model, const hkt_overlap_run_options& options,
                        int rank, int workers, int iterations) {
    const bool weights_stay = options.pulls == HKT_OVERLAP_PULLS_FORWARD;
    const Overlap overlap = open(params, model, options);
    for (int iteration = 0; iteration < iterations; ++iteration)
        iterate(
            overlap.get(), [&](std::size_t layer) { model.expect_weights(layer, workers, iteration); },
            [&](std::size_t layer) {
                model.compute(layer, rank, iteration);
                if (weights_stay) model.expect_weights(OverlapModel::layers - 1, workers, iteration);
            });
    must(hkt_overlap_forward(overlap.get(), OverlapModel::layers - 1));
    for (std::size_t layer = 0; layer < OverlapModel::layers; ++layer)
        model.expect_weights(layer, workers, iterations);
    const hkt_overlap_run_stats stats = stats_of(overlap.get());
    expect(stats.plans == 1 && stats.iterations == static_cast<std::uint64_t>(iterations), "it has planned");
    std::vector<std::size_t> pulled(OverlapModel::layers);
    std::size_t pull_batches = 0;
    must(hkt_overlap_pull_batches(overlap.get(), pulled.data(), &pull_batches));
    expect(stats.pull_batches == pull_batches, "how many batches are pulled");
    expect(pull_batches == 0 || pulled[pull_batches - 1] == OverlapModel::layers, "all layers are pulled");
    if (options.pulls == HKT_OVERLAP_PULLS_FORWARD) expect(stats.pull_batches > 0, "pulls by themselves");
    if (options.pulls == HKT_OVERLAP_PULLS_BACKWARD) expect(stats.pull_batches == 0, "pulls with gradients");
    const char* json = nullptr;
    must(hkt_overlap_profile(overlap.get(), &json));
    const auto profile = nlohmann::json::parse(json);
    expect(profile.contains("pull") || options.pulls == HKT_OVERLAP_PULLS_BACKWARD, "what pulls cost");
    expect(profile["layers"][6].contains("forward"), "forward passes");
}

void train_with_each(const std::function<std::vector<hkt_overlap_run_options>()>& all_options,
                     int iterations) {
    const auto outcomes = run_ranks({3, {{"HOCKET_TIMEOUT_MS", "30000"}}}, [&](int rank) {
        for (const hkt_overlap_run_options& options : all_options()) {
            const Comm comm = join();
            OverlapModel model;
            Server server;
            hkt_params_options service = HKT_PARAMS_OPTIONS_INIT;
            service.chunk_bytes = 10'000;
            const Params params = open_service(comm.get(), model, service, server);
            if (server)
                must(hkt_params_server_wait(server.get(), 50'000));
            else
                train_with_service(params.get(), model, options, rank, 2, iterations);
        }
    });
    CHECK(problems(outcomes) == "");
}

// Times with which any plan may be the best one.
std::string random_profile(std::mt19937& random) {
    const auto seconds = [&] { return 1e-6 * static_cast<double>(random() % 1000); };
    nlohmann::json profile{{"startup", random() % 2 == 0 ? 0 : seconds()},
                           {"before", 0.01},
                           {"pull",
                            {{"latency", seconds()},
                             {"startup", seconds()},
                             {"per_byte", 1e-9 * static_cast<double>(random() % 20)}}}};
    for (const int bytes : {4000, 372, 0, 280028, 4, 80412, 524})
        profile["layers"].push_back(
            {{"transfer", seconds()}, {"compute", seconds()}, {"forward", seconds()}, {"bytes", bytes}});
    return profile.dump();
}

}  // namespace

TEST_CASE("weights from the service have the same bits with every plan") {
    train_with_each(
        [] {
            std::vector<hkt_overlap_run_options> all;
            std::size_t number = 0;
            for (const std::int32_t method : all_methods) {
                ++number;  // so that usually, methods have each of the pulls in turn
                for (const hkt_overlap_pulls pulls :
                     {HKT_OVERLAP_PULLS_FASTEST, HKT_OVERLAP_PULLS_BACKWARD, HKT_OVERLAP_PULLS_FORWARD}) {
                    if (number++ % in_long_form(1, 3) != 0) continue;
                    if (method == HKT_OVERLAP_MG_WFBP && pulls == HKT_OVERLAP_PULLS_FORWARD) continue;
                    all.push_back(options_of(method, 5));
                    all.back().pulls = pulls;
                }
            }
            return all;
        },
        8);
}

TEST_CASE("weights from the service have the same bits with plans of any profile") {
    std::mt19937 random(3);
    std::vector<std::string> profiles;
    for (int i = 0; i < in_long_form(24, 8); ++i) profiles.push_back(random_profile(random));
    train_with_each(
        [&] {
            std::vector<hkt_overlap_run_options> all;
            for (const std::string& profile : profiles) {
                all.push_back(options_of(HKT_OVERLAP_OPTIMUM, 5));
                all.back().look_every = -1;
                all.back().profile = profile.c_str();
                all.back().pulls = static_cast<std::int64_t>(all.size() % 3);
            }
            return all;
        },
        4);
}

TEST_CASE("weights that may be stale are of whole rounds, and those of several servers come") {
    struct Way {
        int servers;
        std::int64_t staleness;
        hkt_overlap_pulls pulls = HKT_OVERLAP_PULLS_BACKWARD;
    };
    for (const Way way :
         {Way{2, 0}, Way{1, 2}, Way{2, HKT_UNBOUNDED}, Way{2, 0, HKT_OVERLAP_PULLS_FORWARD},
          Way{1, 2, HKT_OVERLAP_PULLS_FORWARD}, Way{2, HKT_UNBOUNDED, HKT_OVERLAP_PULLS_FORWARD}}) {
        const auto outcomes = run_ranks({2 + way.servers, {{"HOCKET_TIMEOUT_MS", "30000"}}}, [&](int) {
            const Comm comm = join();
            hkt_params_tensor tensors[] = {
                {"a", 3000, HKT_INT64}, {"b", 17, HKT_INT32}, {"c", 9000, HKT_INT64}};
            std::vector<std::int64_t> a(3000), c(9000), ga(3000, 1), gc(9000, 1);
            std::vector<std::int32_t> b(17), gb(17, 1);
            void* const weights[] = {a.data(), b.data(), c.data()};
            const void* const gradients[] = {ga.data(), gb.data(), gc.data()};
            hkt_params_options service = HKT_PARAMS_OPTIONS_INIT;
            service.chunk_bytes = 5'000;
            service.staleness = way.staleness;
            hkt_params* params = nullptr;
            hkt_params_server* served = nullptr;
            must(comm.get(), hkt_params_open_with_ranks(comm.get(), way.servers, tensors, 3, nullptr,
                                                        &service, &params, &served));
            const Params own(params);
            const Server server(served);
            if (server) return must(hkt_params_server_wait(server.get(), 50'000));
            const hkt_overlap_layer layers[] = {{"a", 1}, {"bc", 2}};
            hkt_overlap_run_options options = options_of(HKT_OVERLAP_LAYERS, 3);
            options.staleness = way.staleness;
            options.pulls = way.pulls;
            hkt_overlap* opened = nullptr;
            must(hkt_overlap_with_params(params, gradients, weights, layers, 2, &options, &opened));
            Overlap overlap(opened);
            // Both push ones: the weights are how many updates are in them.
            const auto check = [&](int iteration) {
                const std::int64_t least = way.staleness == HKT_UNBOUNDED
                                               ? iteration
                                               : 2 * std::max<std::int64_t>(0, iteration - way.staleness);
                for (const std::int64_t weight : {a[0], a[2999], c[0], c[8999], std::int64_t{b[0]}})
                    expect(weight >= least && weight <= 2 * 12, [&] {
                        return std::to_string(weight) + " updates after " + std::to_string(iteration);
                    });
            };
            const int iterations = 12;
            for (int iteration = 0; iteration < iterations; ++iteration) {
                for (const std::size_t layer : {0, 1}) must(hkt_overlap_forward(overlap.get(), layer));
                check(iteration);
                must(hkt_overlap_begin_backward(overlap.get()));
                for (const std::size_t layer : {1, 0}) must(hkt_overlap_backward(overlap.get(), layer));
                must(hkt_overlap_finish(overlap.get()));
            }
            must(hkt_overlap_forward(overlap.get(), 1));
            check(iterations);
            expect(stats_of(overlap.get()).plans >= 1, "it has planned");
        });
        INFO(way.servers << " servers, staleness " << way.staleness << ", pulls " << way.pulls);
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a worker pulls what it likes after its overlap was closed") {
    for (const std::int64_t staleness : {std::int64_t{0}, std::int64_t{HKT_UNBOUNDED}}) {
        const auto outcomes = run_ranks({2, {{"HOCKET_TIMEOUT_MS", "30000"}}}, [&](int rank) {
            const Comm comm = join();
            std::int32_t server_process = rank == 1 ? getpid() : 0;
            must(comm.get(), hkt_all_reduce(&server_process, &server_process, 1, HKT_INT32, HKT_MAX,
                                            comm.get(), nullptr));
            OverlapModel model, pulled;
            Server server;
            hkt_params_options service = HKT_PARAMS_OPTIONS_INIT;
            service.staleness = staleness;
            const Params params = open_service(comm.get(), model, service, server);
            if (server) return must(hkt_params_server_wait(server.get(), 50'000));
            hkt_overlap_run_options options = options_of(HKT_OVERLAP_LAYERS, 3);
            options.staleness = staleness;
            int pushed = 0;
            const auto expect_all = [&] {
                for (const std::size_t layer : {0, 1, 4, 6}) pulled.expect_weights(layer, 1, pushed);
            };
            for (int round = 0; round < 60; ++round) {
                options.pulls = round % 2 == 0 ? HKT_OVERLAP_PULLS_BACKWARD : HKT_OVERLAP_PULLS_FORWARD;
                Overlap overlap = open(params.get(), model, options);
                // In some rounds the weights have come when it is closed, in others the server stands still.
                const bool stands_still = round % 3 == 1;
                if (stands_still) kill(server_process, SIGSTOP);
                iterate(overlap.get(), nothing,
                        [&](std::size_t layer) { model.compute(layer, rank, pushed); });
                ++pushed;
                if (round % 3 == 2) usleep(500);
                overlap.reset();
                if (stands_still) {
                    for (std::size_t layer = 0; layer < OverlapModel::layers; ++layer)
                        model.compute(layer, rank, pushed);
                    must(hkt_params_push(params.get(), 0, model.count(), model.gradients(), nullptr));
                    must(hkt_params_clock(params.get(), nullptr));
                    ++pushed;
                }
                hkt_request* pull = nullptr;
                must(hkt_params_pull(params.get(), 0, pulled.count(), pulled.weights(), staleness, &pull));
                if (stands_still) kill(server_process, SIGCONT);
                must(hkt_wait(pull));
                expect_all();
            }
        });
        INFO(staleness);
        CHECK(problems(outcomes) == "");
    }
}
