// Errors for programs that use hkt_params_* wrongly, or whose service does not answer.
#include <thread>

#include "tests/capi/comm.hpp"
#include "tests/capi/embedding/children.hpp"
#include "tests/capi/params/service.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

hkt_status open_again(const hkt_params_options& options, const hkt_params_tensor* tensors = Numbers::list,
                      std::size_t count = Numbers::tensors) {
    hkt_params* params = nullptr;
    const hkt_status status = hkt_params_open(tensors, count, nullptr, &options, &params);
    expect((status == HKT_SUCCESS) == (params != nullptr), "the handle of a call that failed is null");
    hkt_params_close(params);
    return status;
}

}  // namespace

TEST_CASE("options and tensors that make no sense are refused, and the text says why") {
    hkt_params_options options = worker_options("127.0.0.1:1");
    const auto refused = [&](const char* why, const hkt_params_tensor* tensors = Numbers::list,
                             std::size_t count = Numbers::tensors) {
        const std::string text = failure(open_again(options, tensors, count), HKT_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(text, Catch::Contains(why));
        options = worker_options("127.0.0.1:1");
    };
    CHECK_THAT(
        failure(hkt_params_open(Numbers::list, 3, nullptr, &options, nullptr), HKT_ERROR_INVALID_ARGUMENT),
        Catch::Contains("params is null"));
    refused("no tensors given", nullptr, 0);
    const hkt_params_tensor twice[] = {{"a", 1, HKT_INT64}, {"a", 1, HKT_INT64}};
    refused("two tensors are called a", twice, 2);
    const hkt_params_tensor nameless = {nullptr, 1, HKT_INT64}, empty = {"a", 0, HKT_INT64},
                            truth = {"a", 1, HKT_BOOL};
    refused("tensors[0] has no name", &nameless, 1);
    refused("has 0 elements", &empty, 1);
    refused("cannot be added up", &truth, 1);
    const hkt_params_tensor latin = {"h\xf6he", 1, HKT_INT64};
    refused("not valid UTF-8", &latin, 1);
    options.staleness = -2;
    refused("HKT_UNBOUNDED");
    options.tree = "oak";
    refused("oak");
    options.chunk_bytes = 3;
    refused("chunks of 3 bytes");
    options.workers = -1;
    refused("workers");
    options.number = -7;
    refused("number");
    options.priority = 256;
    refused("priority");
    options.longest_wait_ms = -2;
    refused("longest_wait_ms");
    options.timeout_ms = -1;
    refused("timeout_ms");
    options.address = "nowhere";
    refused("an address such as");
    options.size = 8;
    refused("hkt_params_options.size");
    options.update = "sgd(0.1)";  // of integers
    refused("integers can be added");
    options.update = "nofile.sched:mine(1)";
    CHECK_THAT(failure(open_again(options), HKT_ERROR_NOT_FOUND),
               Catch::Contains("cannot read nofile.sched") && !Catch::Contains("topology"));
    options.update = "w = ";
    CHECK_THAT(failure(open_again(options), HKT_ERROR_SCHEDULE), Catch::Contains("w = "));
    unsetenv("HOCKET_PARAMS_ADDRESS");
    options.update = nullptr;
    options.address = nullptr;
    refused("HOCKET_PARAMS_ADDRESS");
}

TEST_CASE("a server's options that make no sense are refused") {
    hkt_params_server_options options = HKT_PARAMS_SERVER_OPTIONS_INIT;
    const auto refused = [&](const char* why, hkt_status status = HKT_ERROR_INVALID_ARGUMENT) {
        hkt_params_server* server = nullptr;
        CHECK_THAT(failure(hkt_params_server_start(&options, &server), status), Catch::Contains(why));
        CHECK(server == nullptr);
        options = HKT_PARAMS_SERVER_OPTIONS_INIT;
        options.listen = "127.0.0.1:0";
        options.secret = "a secret";
    };
    refused("listen is not set");
    options.listen = "127.0.0.1";
    refused("an address such as");
    options.join = "nowhere";
    refused("join");
    options.restore = 1;
    refused("checkpoints is not");
    options.round = 7;
    refused("restore is not");
    options.accept_torn = 1;
    refused("restore is not");
    options.return_ms = -1;
    refused("return_ms");
    options.servers = -1;
    refused("servers");
    options.silence_ms = 100;
    refused("silence_ms is 100");
    options.silence_ms = 3000;
    options.return_ms = 2000;
    refused("return_ms is 2000, which is less");
    options.checkpoint_every = UINT64_MAX;
    refused("checkpoint_every");
    options.checkpoints = "/no/such/folder";
    refused("/no/such/folder", HKT_ERROR_IO);
    options.listen = "::1:47111";
    refused("is \"::1:47111\"; it must be an address such as 10.0.0.4:7000 or [fd00::4]:7000");
    options.listen = "203.0.113.1:0";
    refused("203.0.113.1", HKT_ERROR_BOOTSTRAP);
    unsetenv("HOCKET_SECRET");
    options.secret = nullptr;
    refused("HOCKET_SECRET");
}

TEST_CASE("null handles") {
    const char* text = nullptr;
    hkt_params_stats stats;
    const void* gradient = nullptr;
    void* weights = nullptr;
    CHECK_THAT(failure(hkt_params_push(nullptr, 0, 1, &gradient, nullptr), HKT_ERROR_INVALID_ARGUMENT),
               Catch::Contains("hkt_params_push: params is null"));
    failure(hkt_params_pull(nullptr, 0, 1, &weights, 0, nullptr), HKT_ERROR_INVALID_ARGUMENT);
    failure(hkt_params_push_sparse(nullptr, 0, 0, nullptr, nullptr, nullptr), HKT_ERROR_INVALID_ARGUMENT);
    failure(hkt_params_clock(nullptr, nullptr), HKT_ERROR_INVALID_ARGUMENT);
    failure(hkt_params_get_stats(nullptr, &stats, sizeof stats), HKT_ERROR_INVALID_ARGUMENT);
    failure(hkt_params_server_wait(nullptr, 0), HKT_ERROR_INVALID_ARGUMENT);
    failure(hkt_params_server_stats(nullptr, &text), HKT_ERROR_INVALID_ARGUMENT);
    failure(hkt_params_status(nullptr, nullptr, 0, &text), HKT_ERROR_INVALID_ARGUMENT);
    failure(hkt_params_server_start(nullptr, nullptr), HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_params_number(nullptr) == -1);
    CHECK(hkt_params_server_address(nullptr) == nullptr);
    hkt_params_close(nullptr);
    hkt_params_server_stop(nullptr);
}

TEST_CASE("a service that is another one, or none, is an error that says so") {
    const auto outcomes = with_service(1, [](int, const char* address) {
        hkt_params_options options = worker_options(address);
        options.timeout_ms = 5000;
        options.secret = "another";
        says(failure(open_again(options), HKT_ERROR_BOOTSTRAP), "refuses this process: wrong secret");
        options = worker_options("127.0.0.1:1");
        options.timeout_ms = 500;
        says(failure(open_again(options), HKT_ERROR_BOOTSTRAP), "127.0.0.1:1");
        options = worker_options(address);
        options.workers = 2;
        options.timeout_ms = 2000;  // also for connecting
        says(failure(open_again(options), HKT_ERROR_TIMEOUT), "for 2 workers");

        const Params params = open_worker(worker_options(address));
        const hkt_params_tensor other = {"a", 1001, HKT_INT64};
        says(failure(open_again(worker_options(address), &other, 1), HKT_ERROR_MISMATCH),
             "number of tensors");
        options = worker_options(address);
        options.staleness = 1;
        says(failure(open_again(options), HKT_ERROR_MISMATCH), "staleness");
        options = worker_options(address);
        options.chunk_bytes = 65536;
        says(failure(open_again(options), HKT_ERROR_MISMATCH),
             "the size of chunks is the default there and 65536 bytes here");
        options = worker_options(address);
        options.workers = 7;  // the job has begun: the number no longer matters
        open_worker(options);
        train(params.get(), 1, 2);  // nothing of that was applied
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("workers that a job begins with say the same number of them") {
    const auto outcomes = with_service(1, [](int, const char* address) {
        hkt_params_options options = worker_options(address), others = options;
        options.workers = 2;
        others.workers = 3;
        std::thread founder([&] { train(open_worker(options).get(), 2, 2); });
        const auto has_come = [&] {
            const char* state = nullptr;
            must(hkt_params_status(address, "a secret", 0, &state));
            return std::strstr(state, "1 of 2 workers have come") != nullptr;
        };
        expect(eventually(has_come), "the founder has not come");
        says(failure(open_again(others), HKT_ERROR_MISMATCH),
             "the number of workers to begin with is 2 there and 3 here");
        train(open_worker(options).get(), 2, 2);
        founder.join();
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("no two workers that a job begins with have one number") {
    const Tally refused, have_tried;
    const auto outcomes = with_service(2, [&](int number, const char* address) {
        hkt_params_options options = worker_options(address);
        options.workers = 2;
        options.number = 0;
        options.timeout_ms = 5000;
        const hkt_status status = open_again(options);
        if (status == HKT_ERROR_MISMATCH) {
            says(hkt_last_error(), "another worker has the number 0");
            refused.add();
        } else {
            failure(status, HKT_ERROR_TIMEOUT);
        }
        have_tried.meet(2);
        options.number = number;
        options.timeout_ms = 0;
        train(open_worker(options).get(), 2, 1);
    });
    CHECK(problems(outcomes) == "");
    CHECK(refused.value() == 1);
}

TEST_CASE("pushes and pulls that make no sense are refused, and the worker goes on") {
    const auto outcomes = with_service(1, [](int, const char* address) {
        const Params params = open_worker(worker_options(address));
        Numbers numbers;
        const auto tensors = numbers.pointers();
        const auto refused = [](hkt_status status, const char* why) {
            says(failure(status, HKT_ERROR_INVALID_ARGUMENT), why);
        };
        refused(hkt_params_push(params.get(), 0, 3, nullptr, nullptr), "gradients is null");
        refused(hkt_params_push(params.get(), 2, 2, tensors.data(), nullptr), "the job has 3");
        refused(hkt_params_pull(params.get(), 9, 1, tensors.data(), 0, nullptr), "the job has 3");
        refused(hkt_params_pull(params.get(), 0, 3, tensors.data(), 1, nullptr), "staleness 1");
        refused(hkt_params_pull(params.get(), 0, 3, tensors.data(), -2, nullptr), "staleness is -2");
        refused(hkt_params_pull(params.get(), 0, 3, tensors.data(), HKT_UNBOUNDED, nullptr), "HKT_UNBOUNDED");
        const void* const none[] = {nullptr};
        refused(hkt_params_push(params.get(), 0, 1, none, nullptr), "gradients[0] is null");
        const std::uint32_t falling[] = {3, 2}, outside[] = {1000};
        const std::int64_t values[] = {1, 1};
        refused(hkt_params_push_sparse(params.get(), 0, 2, falling, values, nullptr), "ascend");
        refused(hkt_params_push_sparse(params.get(), 0, 1, outside, values, nullptr), "1000");
        refused(hkt_params_push_sparse(params.get(), 0, 1, nullptr, values, nullptr), "indices is null");
        hkt_params_stats stats;
        refused(hkt_params_get_stats(params.get(), &stats, 3), "sizeof(hkt_params_stats)");
        train(params.get(), 1, 2);
        push(params.get(), numbers);
        refused(hkt_params_push(params.get(), 0, 1, tensors.data(), nullptr), "round");
        must(hkt_params_clock(params.get(), nullptr));
        // A range is pushed as a whole, or not at all.
        must(hkt_params_push(params.get(), 2, 1, numbers.pointers(2, 1).data(), nullptr));
        refused(hkt_params_push(params.get(), 0, 3, tensors.data(), nullptr), "tensor 2 (c)");
        must(hkt_params_push(params.get(), 0, 2, tensors.data(), nullptr));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("requests of the service are waited for one by one") {
    const auto outcomes = with_service(1, [](int, const char* address) {
        const Params params = open_worker(worker_options(address));
        Numbers numbers;
        const auto tensors = numbers.pointers();
        hkt_request *request = nullptr, *joined = nullptr;
        must(hkt_params_pull(params.get(), 0, 3, tensors.data(), 0, &request));
        std::size_t index = 0;
        const char* const what = "a push or pull of parameters";
        says(failure(hkt_wait_any(&request, 1, 0, &index), HKT_ERROR_INVALID_ARGUMENT), what);
        says(failure(hkt_request_join(&request, 1, &joined), HKT_ERROR_INVALID_ARGUMENT), what);
        says(failure(hkt_request_callback(
                         request, [](void*) {}, nullptr),
                     HKT_ERROR_INVALID_ARGUMENT),
             what);
        says(failure(hkt_wait_for(request, -1), HKT_ERROR_INVALID_ARGUMENT), "timeout_ms");
        must(hkt_wait_for(request, 10'000));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a wait for a worker that does not push ends at the deadline, or when the program says so") {
    const Tally has_failed;
    const auto outcomes = with_service(2, [&](int number, const char* address) {
        hkt_params_options options = worker_options(address);
        options.workers = 2;
        options.number = number;
        if (number == 0) {
            options.timeout_ms = 5000;
            options.is_interrupted = [](void* asked) { return ++*static_cast<int*>(asked) == 2 ? 1 : 0; };
        }
        int asked = 0;
        options.interrupt_user = &asked;
        const Params params = open_worker(options);
        Numbers numbers;
        if (number == 1) {
            has_failed.await(1);
            must(hkt_params_clock(params.get(), nullptr));
            return pull(params.get(), numbers, 0);
        }
        must(hkt_params_clock(params.get(), nullptr));
        hkt_request* request = nullptr;
        const auto tensors = numbers.pointers();
        must(hkt_params_pull(params.get(), 0, 3, tensors.data(), 0, &request));
        says(failure(hkt_wait(request), HKT_ERROR_INTERRUPTED), "hkt_params_options.is_interrupted");
        says(failure(hkt_wait(request), HKT_ERROR_TIMEOUT), "another worker has not pushed");
        has_failed.add();
        pull(params.get(), numbers, 0);  // the worker goes on
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a server that ends is an error of its workers, which names it") {
    const Meeting meeting;
    const Tally has_joined;
    const auto outcomes = run_ranks({2}, [&](int rank) {
        if (rank == 0) {
            const Server server = start_server();
            meeting.announce(server.get());
            return has_joined.await(1);
        }
        hkt_params_options options = worker_options(meeting.address());
        options.timeout_ms = 5000;
        const Params params = open_worker(options);
        has_joined.add();
        Numbers numbers;
        hkt_status status = HKT_SUCCESS;
        for (int round = 0; status == HKT_SUCCESS && round < 1'000'000; ++round) {
            status = hkt_params_push(params.get(), 0, 3, numbers.pointers().data(), nullptr);
            if (status == HKT_SUCCESS) status = hkt_params_clock(params.get(), nullptr);
            if (status == HKT_SUCCESS)
                status = hkt_params_pull(params.get(), 0, 3, numbers.pointers().data(), 0, nullptr);
        }
        says(failure(status, HKT_ERROR_PEER_LOST), meeting.address());
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks that open the service differently all fail") {
    const auto fails_with = [](const std::function<int(int)>& servers_on, hkt_status expected,
                               const std::string& why,
                               const std::function<void(int, hkt_params_options&)>& change) {
        const auto outcomes = run_ranks({3}, [&](int rank) {
            const Comm comm = join();
            hkt_params_options options = HKT_PARAMS_OPTIONS_INIT;
            change(rank, options);
            hkt_params* params = nullptr;
            hkt_params_server* server = nullptr;
            const hkt_status status =
                hkt_params_open_with_ranks(comm.get(), servers_on(rank), Numbers::list, Numbers::tensors,
                                           nullptr, &options, &params, &server);
            says(failure_of(comm.get(), status, expected), why);
            expect(params == nullptr && server == nullptr, "no handle");
            must(comm.get(), hkt_barrier(comm.get()));
        });
        INFO(why);
        CHECK(problems(outcomes) == "");
    };
    const auto fails = [&](int servers, hkt_status expected, const std::string& why,
                           const std::function<void(int, hkt_params_options&)>& change) {
        fails_with([&](int) { return servers; }, expected, why, change);
    };
    fails(1, HKT_ERROR_MISMATCH, "staleness",
          [](int rank, hkt_params_options& options) { options.staleness = rank; });
    fails(1, HKT_ERROR_INVALID_ARGUMENT, "oak",
          [](int rank, hkt_params_options& options) { options.tree = rank == 1 ? "oak" : "direct"; });
    fails(1, HKT_ERROR_INVALID_ARGUMENT, "the communicator's",
          [](int, hkt_params_options& options) { options.number = 1; });
    fails(3, HKT_ERROR_INVALID_ARGUMENT, "3 of 3 ranks are to serve", [](int, hkt_params_options&) {});
    for (const int servers : {0, -1, INT32_MIN, INT32_MAX})
        fails(servers, HKT_ERROR_INVALID_ARGUMENT, std::to_string(servers) + " of 3 ranks are to serve",
              [](int, hkt_params_options&) {});
    fails_with([](int rank) { return rank == 1 ? 2 : 1; }, HKT_ERROR_MISMATCH,
               "servers is 2 on rank 1, and 1 on rank 0", [](int, hkt_params_options&) {});
    fails_with([](int rank) { return rank == 1 ? 3 : 1; }, HKT_ERROR_INVALID_ARGUMENT,
               "3 of 3 ranks are to serve", [](int, hkt_params_options&) {});
}

TEST_CASE("a forked child cannot use its parent's handles, and the parent goes on") {
    const Meeting meeting;
    const auto outcomes = run_ranks({2}, [&](int rank) {
        const auto refused = [](hkt_status status) {
            says(failure(status, HKT_ERROR_INVALID_ARGUMENT), "forked");
        };
        if (rank == 0) {
            const Server server = start_server();
            in_child([&] {
                refused(hkt_params_server_wait(server.get(), 0));
                expect(hkt_params_server_address(server.get()) == nullptr, "no address");
            });
            meeting.announce(server.get());
            return must(hkt_params_server_wait(server.get(), 50'000));
        }
        Params params = open_worker(worker_options(meeting.address()));
        train(params.get(), 1, 1);
        Numbers numbers;
        hkt_request* request = nullptr;
        const auto tensors = numbers.pointers();
        must(hkt_params_pull(params.get(), 0, 3, tensors.data(), 0, &request));
        in_child([&] {
            refused(hkt_params_push(params.get(), 0, 3, tensors.data(), nullptr));
            refused(hkt_params_clock(params.get(), nullptr));
            refused(hkt_test(request));
            refused(hkt_wait(request));
            expect(hkt_params_number(params.get()) == -1, "no number");
            params.reset();
            train(open_worker(worker_options(meeting.address())).get(), 1, 0);  // one of its own
        });
        must(hkt_wait(request));
        push(params.get(), numbers);
        must(hkt_params_clock(params.get(), nullptr));
        pull(params.get(), numbers, 0);
    });
    CHECK(problems(outcomes) == "");
}
