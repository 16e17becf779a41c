// Refusals and failures of hkt_overlap.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/overlap/model.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

Comm join_with(std::int32_t progress) {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.progress = progress;
    return join(&options);
}

hkt_status try_to_open(hkt_comm* comm, OverlapModel& model, const hkt_overlap_run_options* options,
                       hkt_overlap** overlap) {
    return hkt_overlap_with_ranks(comm, model.tensors(), model.count(), model.gradients(), OverlapModel::list,
                                  OverlapModel::layers, options, overlap);
}

Overlap opened(hkt_comm* comm, OverlapModel& model, const hkt_overlap_run_options* options = nullptr) {
    hkt_overlap* overlap = nullptr;
    must(try_to_open(comm, model, options, &overlap));
    return Overlap(overlap);
}

void refuses(hkt_status status, const std::string& part) {
    says(failure(status, HKT_ERROR_INVALID_ARGUMENT), part);
}

}  // namespace

TEST_CASE("arguments of an overlap among ranks") {
    const auto outcomes = run_ranks({1}, [](int) {
        const Comm comm = join();
        OverlapModel model;
        hkt_overlap* overlap = reinterpret_cast<hkt_overlap*>(&model);
        hkt_overlap_run_options options = HKT_OVERLAP_RUN_OPTIONS_INIT;
        refuses(try_to_open(nullptr, model, nullptr, &overlap), "hkt_overlap_with_ranks: comm is null");
        expect(overlap == nullptr, "the handle is set to null");
        refuses(try_to_open(comm.get(), model, nullptr, nullptr), "overlap is null");
        const auto with = [&](const hkt_params_tensor* tensors, std::size_t count, void* const* gradients,
                              const hkt_overlap_layer* layers, std::size_t layer_count) {
            return hkt_overlap_with_ranks(comm.get(), tensors, count, gradients, layers, layer_count,
                                          &options, &overlap);
        };
        const auto* const list = OverlapModel::list;
        const std::size_t layers = OverlapModel::layers;
        refuses(with(nullptr, 3, model.gradients(), list, layers), "no tensors given");
        refuses(with(model.tensors(), model.count(), nullptr, list, layers), "gradients is null");
        refuses(with(model.tensors(), model.count(), model.gradients(), nullptr, layers), "layers is null");
        refuses(with(model.tensors(), model.count(), model.gradients(), list, 0), "layer_count is 0");
        refuses(with(model.tensors(), model.count(), model.gradients(), list, layers - 1),
                "the layers have 9 tensors in all, and the model has 10");
        const hkt_overlap_layer many[] = {{nullptr, 9}, {nullptr, SIZE_MAX}};
        refuses(with(model.tensors(), model.count(), model.gradients(), many, 2),
                "the layers up to layers[1] have more tensors than the 10");
        const hkt_params_tensor mixed[] = {{"a", 3, HKT_FLOAT32}, {"b", 3, HKT_FLOAT64}};
        const hkt_overlap_layer one[] = {{"all", 2}};
        refuses(with(mixed, 2, model.gradients(), one, 1),
                "tensors[1] is of float64, and tensors[0] of float32");
        const hkt_params_tensor huge[] = {{"a", SIZE_MAX / 4, HKT_FLOAT32}, {"b", 3, HKT_FLOAT32}};
        refuses(with(huge, 2, model.gradients(), one, 1), "have more than");
        void* const nowhere[] = {model.gradients()[0], nullptr};
        refuses(with(model.tensors(), 2, nowhere, one, 1), "gradients[1] is null");

        options.method = 8;
        refuses(try_to_open(comm.get(), model, &options, &overlap), "hkt_overlap_run_options.method is 8");
        options = HKT_OVERLAP_RUN_OPTIONS_INIT;
        options.measure = 2;
        refuses(try_to_open(comm.get(), model, &options, &overlap), "measure is 2; it must be 3 or more");
        options = HKT_OVERLAP_RUN_OPTIONS_INIT;
        options.look_every = -2;
        refuses(try_to_open(comm.get(), model, &options, &overlap), "look_every is -2");
        options = HKT_OVERLAP_RUN_OPTIONS_INIT;
        options.pulls = 3;
        refuses(try_to_open(comm.get(), model, &options, &overlap), "hkt_overlap_run_options.pulls is 3");
        options.pulls = HKT_OVERLAP_PULLS_FASTEST;
        options.profile = "{\"startup\": -1}";
        refuses(try_to_open(comm.get(), model, &options, &overlap),
                "hkt_overlap_run_options.profile: startup is -1; it must be seconds");
        options.profile = R"({"startup": 1, "layers": [{"transfer": 1, "compute": 1}]})";
        refuses(try_to_open(comm.get(), model, &options, &overlap),
                "the profile has 1 layers, and the model 7");
        options = HKT_OVERLAP_RUN_OPTIONS_INIT;
        options.schedule = "rnig";
        failure(try_to_open(comm.get(), model, &options, &overlap), HKT_ERROR_NOT_FOUND);
        options.schedule = nullptr;
        options.op = HKT_BXOR;
        failure(try_to_open(comm.get(), model, &options, &overlap), HKT_ERROR_INVALID_ARGUMENT);
        options = HKT_OVERLAP_RUN_OPTIONS_INIT;
        std::vector<void*> twice(model.gradients(), model.gradients() + model.count());
        twice[3] = twice[6];
        refuses(hkt_overlap_with_ranks(comm.get(), model.tensors(), model.count(), twice.data(), list, layers,
                                       nullptr, &overlap),
                "overlap: memory that is written");
        expect(overlap == nullptr, "nothing was opened");
        opened(comm.get(), model);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("calls of an overlap out of turn, or without one") {
    const auto outcomes = run_ranks({1}, [](int) {
        refuses(hkt_overlap_forward(nullptr, 0), "hkt_overlap_forward: overlap is null");
        refuses(hkt_overlap_begin_backward(nullptr), "overlap is null");
        refuses(hkt_overlap_backward(nullptr, 0), "overlap is null");
        refuses(hkt_overlap_finish(nullptr), "overlap is null");
        hkt_overlap_close(nullptr);
        const Comm comm = join();
        OverlapModel model;
        const Overlap overlap = opened(comm.get(), model);
        refuses(hkt_overlap_backward(overlap.get(), 6), "the backward pass has not begun");
        refuses(hkt_overlap_batches(overlap.get(), nullptr, nullptr), "ends or batches is null");
        const char* json = nullptr;
        refuses(hkt_overlap_profile(overlap.get(), &json), "there is no profile yet");
        refuses(hkt_overlap_profile(overlap.get(), nullptr), "json is null");
        refuses(hkt_overlap_get_stats(overlap.get(), nullptr, sizeof(hkt_overlap_run_stats)), "null");
        // The refusals had no effect.
        for (int iteration = 0; iteration < 18; ++iteration)
            iterate(
                overlap.get(), [](std::size_t) {},
                [&](std::size_t layer) { model.compute(layer, 0, iteration); });
        model.expect_averages(1, 17);
        must(hkt_overlap_profile(overlap.get(), &json));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("an overlap needs a communicator that moves by itself") {
    const auto outcomes = run_ranks({2, {{"HOCKET_PROGRESS", "calls"}}}, [](int) {
        const Comm comm = join_with(HKT_PROGRESS_CALLS);
        OverlapModel model;
        hkt_overlap* overlap = nullptr;
        refuses(try_to_open(comm.get(), model, nullptr, &overlap), "HKT_PROGRESS_THREAD");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks that give different options are told so, and go on") {
    const auto outcomes = run_ranks({2, {{"HOCKET_TIMEOUT_MS", "20000"}}}, [](int rank) {
        const Comm comm = join_with(HKT_PROGRESS_THREAD);
        OverlapModel model;
        hkt_overlap* overlap = nullptr;
        const auto differ = [&](const std::function<void(hkt_overlap_run_options&)>& change) {
            hkt_overlap_run_options options = HKT_OVERLAP_RUN_OPTIONS_INIT;
            if (rank == 1) change(options);
            return try_to_open(comm.get(), model, &options, &overlap);
        };
        const auto mismatch = [&](const char* what,
                                  const std::function<void(hkt_overlap_run_options&)>& change) {
            says(failure(differ(change), HKT_ERROR_MISMATCH),
                 std::string("the ranks give different ") + what + "; all must give the same");
        };
        mismatch("methods", [](auto& options) { options.method = HKT_OVERLAP_LAYERS; });
        mismatch("operators", [](auto& options) { options.op = HKT_SUM; });
        mismatch("schedules", [](auto& options) { options.schedule = "ring"; });
        mismatch("numbers of iterations between looks", [](auto& options) { options.look_every = -1; });
        // A rank that is refused does not keep the others waiting.
        const hkt_status status = differ([](auto& options) { options.profile = "no profile"; });
        if (rank == 1)
            says(failure(status, HKT_ERROR_INVALID_ARGUMENT), "it is no JSON");
        else
            says(failure(status, HKT_ERROR_MISMATCH), "were refused there");
        hkt_overlap_layer layers[OverlapModel::layers];
        std::copy_n(OverlapModel::list, OverlapModel::layers, layers);
        if (rank == 1) layers[3].name = "another";
        says(failure(hkt_overlap_with_ranks(comm.get(), model.tensors(), model.count(), model.gradients(),
                                            layers, OverlapModel::layers, nullptr, &overlap),
                     HKT_ERROR_MISMATCH),
             "names of layers");
        if (rank == 1) std::swap(layers[3], layers[5]);
        failure(hkt_overlap_with_ranks(comm.get(), model.tensors(), model.count(), model.gradients(), layers,
                                       OverlapModel::layers, nullptr, &overlap),
                HKT_ERROR_MISMATCH);
        opened(comm.get(), model);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a schedule that keeps a state is refused") {
    const auto outcomes = run_ranks({2}, [](int) {
        const Comm comm = join_with(HKT_PROGRESS_THREAD);
        OverlapModel model;
        hkt_overlap* overlap = nullptr;
        hkt_overlap_run_options options = HKT_OVERLAP_RUN_OPTIONS_INIT;
        options.op = HKT_SUM;
        for (const char* const schedule : {"dgc(0.01)", "lars", "naive_ag(0.01)"}) {
            options.schedule = schedule;
            refuses(try_to_open(comm.get(), model, &options, &overlap), "hkt_plan_create");
        }
        options.schedule = "ring";
        opened(comm.get(), model, &options);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank that ends fails the others, again and again") {
    const auto outcomes =
        run_ranks({3, {{"HOCKET_TIMEOUT_MS", "20000"}, {"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [](int rank) {
            const Comm comm = join_with(HKT_PROGRESS_THREAD);
            OverlapModel model;
            const Overlap overlap = opened(comm.get(), model);
            const auto compute = [&](std::size_t layer) {
                if (rank == 2 && layer == 1) _exit(0);
                model.compute(layer, rank, 0);
            };
            try {
                iterate(
                    overlap.get(), [](std::size_t) {}, compute);
                throw std::runtime_error("the iteration ended well");
            } catch (const std::runtime_error& error) {
                says(error.what(), "rank 2");
            }
            says(failure(hkt_overlap_finish(overlap.get()), HKT_ERROR_PEER_LOST), "rank 2");
            says(hkt_comm_last_error(comm.get()), "rank 2");
            says(failure(hkt_overlap_forward(overlap.get(), 0), HKT_ERROR_PEER_LOST), "rank 2");
        });
    CHECK(problems(outcomes).find("rank 0") == std::string::npos);
    CHECK(problems(outcomes).find("rank 1") == std::string::npos);
}

TEST_CASE("an overlap that is closed in an iteration leaves its communicator usable") {
    const auto outcomes = run_ranks({2, {{"HOCKET_TIMEOUT_MS", "20000"}}}, [](int rank) {
        const Comm comm = join_with(HKT_PROGRESS_THREAD);
        OverlapModel model(false);
        {
            const Overlap overlap = opened(comm.get(), model);
            must(hkt_overlap_begin_backward(overlap.get()));
            for (std::size_t layer = OverlapModel::layers; layer-- > 3;) {
                model.compute(layer, rank, 0);
                must(hkt_overlap_backward(overlap.get(), layer));
            }
        }
        float sum = 1;
        must(comm.get(), hkt_all_reduce(&sum, &sum, 1, HKT_FLOAT32, HKT_SUM, comm.get(), nullptr));
        expect(sum == 2, "an all_reduce after it");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a child may close a parent's overlap, and use it for nothing") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        const Comm comm = join_with(HKT_PROGRESS_THREAD);
        OverlapModel model;
        Overlap overlap = opened(comm.get(), model);
        const pid_t child = fork();
        if (child == 0) {
            const bool is_refused = hkt_overlap_forward(overlap.get(), 0) == HKT_ERROR_INVALID_ARGUMENT &&
                                    hkt_overlap_begin_backward(overlap.get()) == HKT_ERROR_INVALID_ARGUMENT;
            overlap.reset();
            _exit(is_refused ? 0 : 1);
        }
        int status = 1;
        waitpid(child, &status, 0);
        expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child");
        iterate(
            overlap.get(), [](std::size_t) {}, [&](std::size_t layer) { model.compute(layer, rank, 3); });
        model.expect_averages(2, 3);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a wait of an overlap can be interrupted, and taken up again") {
    const auto outcomes = run_ranks({2, {{"HOCKET_TIMEOUT_MS", "20000"}}}, [](int rank) {
        static int interruptions;
        interruptions = rank == 0 ? 2 : 0;  // rank 1 may wait, too, on a slow machine
        hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
        options.progress = HKT_PROGRESS_THREAD;
        options.is_interrupted = [](void*) { return interruptions > 0 ? interruptions-- : 0; };
        const Comm comm = join(&options);
        OverlapModel model;
        const Overlap overlap = opened(comm.get(), model);
        must(hkt_overlap_begin_backward(overlap.get()));
        if (rank == 1) usleep(300'000);
        for (std::size_t layer = OverlapModel::layers; layer-- > 0;) {
            model.compute(layer, rank, 0);
            must(hkt_overlap_backward(overlap.get(), layer));
        }
        if (rank == 0)
            for (int i = 0; i < 2; ++i)
                says(failure(hkt_overlap_finish(overlap.get()), HKT_ERROR_INTERRUPTED),
                     "the call can be made again");
        must(hkt_overlap_finish(overlap.get()));
        model.expect_averages(2, 0);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("arguments of an overlap with a service") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        const Comm comm = join();
        OverlapModel model;
        hkt_params* params = nullptr;
        hkt_params_server* server = nullptr;
        must(comm.get(), hkt_params_open_with_ranks(comm.get(), 1, model.tensors(), model.count(), nullptr,
                                                    nullptr, &params, &server));
        const Params own(params);
        const Server served(server);
        if (server) return must(hkt_params_server_wait(server, 50'000));
        hkt_overlap* overlap = nullptr;
        hkt_overlap_run_options options = HKT_OVERLAP_RUN_OPTIONS_INIT;
        const auto with = [&](hkt_params* of, const void* const* gradients, void* const* weights,
                              std::size_t layers) {
            return hkt_overlap_with_params(of, gradients, weights, OverlapModel::list, layers, &options,
                                           &overlap);
        };
        const std::size_t layers = OverlapModel::layers;
        refuses(with(nullptr, model.gradients(), model.weights(), layers), "params is null");
        refuses(with(params, nullptr, model.weights(), layers), "gradients is null");
        refuses(with(params, model.gradients(), nullptr, layers), "weights is null");
        refuses(with(params, model.gradients(), model.weights(), layers - 2), "tensors in all");
        options.staleness = 1;
        refuses(with(params, model.gradients(), model.weights(), layers),
                "the service was opened for 0 at most");
        options.staleness = HKT_UNBOUNDED;
        refuses(with(params, model.gradients(), model.weights(), layers), "staleness is -1");
        options.staleness = 0;
        refuses(with(params, model.weights(), model.weights(), layers), "overlap: memory that is written");
        options.method = HKT_OVERLAP_MG_WFBP;
        options.pulls = HKT_OVERLAP_PULLS_FORWARD;
        refuses(with(params, model.gradients(), model.weights(), layers),
                "a rule for the backward direction");
        options.profile = R"({"startup": 0, "layers": [{"transfer": 1, "compute": 1, "bytes": 4000},
            {"transfer": 1, "compute": 1, "bytes": 372}, {"transfer": 1, "compute": 1, "bytes": 0},
            {"transfer": 1, "compute": 1, "bytes": 280028}, {"transfer": 1, "compute": 1, "bytes": 4},
            {"transfer": 1, "compute": 1, "bytes": 80412}, {"transfer": 1, "compute": 1, "bytes": 524}]})";
        options.pulls = HKT_OVERLAP_PULLS_FORWARD;
        refuses(with(params, model.gradients(), model.weights(), layers),
                "the seconds of layers' forward passes, and the profile has none");
        options.pulls = HKT_OVERLAP_PULLS_FASTEST;
        options.method = HKT_OVERLAP_LAYERS;
        must(with(params, model.gradients(), model.weights(), layers));
        // Closed in the middle of an iteration, the overlap writes no weights any more, and the worker goes
        // on: pushed gradients count. The service still answers, after the clock.
        must(hkt_overlap_begin_backward(overlap));
        for (std::size_t layer = layers; layer-- > 2;) {
            model.compute(layer, rank, 0);
            must(hkt_overlap_backward(overlap, layer));
        }
        hkt_overlap_close(overlap);
        OverlapModel other;
        for (std::size_t i = 0; i < model.count(); ++i)
            std::memset(model.weights()[i], 0x77, model.tensors()[i].count * sizeof(float));
        must(hkt_params_clock(params, nullptr));
        must(hkt_params_pull(params, 0, model.count(), other.weights(), 0, nullptr));
        for (std::size_t layer = 2; layer < layers; ++layer) other.expect_weights(layer, 1, 1);
        other.expect_weights(0, 1, 0);
        for (std::size_t i = 0; i < model.count(); ++i)
            expect(*static_cast<const unsigned*>(model.weights()[i]) == 0x77777777U, "weights were written");
        // A gradient that was pushed already in this round ends the overlap, and nothing worse.
        must(with(params, model.gradients(), model.weights(), layers));
        const Overlap second(overlap);
        must(hkt_params_push(params, 9, 1, model.gradients() + 9, nullptr));
        must(hkt_overlap_begin_backward(overlap));
        failure(hkt_overlap_backward(overlap, 6), HKT_ERROR_INVALID_ARGUMENT);
        failure(hkt_overlap_backward(overlap, 5), HKT_ERROR_INVALID_ARGUMENT);
        failure(hkt_overlap_finish(overlap), HKT_ERROR_INVALID_ARGUMENT);
        failure(hkt_overlap_forward(overlap, 0), HKT_ERROR_INVALID_ARGUMENT);
    });
    CHECK(problems(outcomes) == "");
}
