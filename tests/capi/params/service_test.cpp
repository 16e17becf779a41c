// hkt_params_* as programs use it.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/capi/comm.hpp"
#include "tests/capi/params/service.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

TEST_CASE("ranks take roles, and every sum is right") {
    for (const char* const tree : {"direct", "rack", "degree 1"}) {
        const auto outcomes = run_ranks({5}, [&](int rank) {
            const Comm comm = join();
            hkt_params_options options = HKT_PARAMS_OPTIONS_INIT;
            options.tree = tree;
            hkt_params* params = nullptr;
            hkt_params_server* server = nullptr;
            must(comm.get(), hkt_params_open_with_ranks(comm.get(), 2, Numbers::list, Numbers::tensors,
                                                        nullptr, &options, &params, &server));
            const Params own(params);
            const Server served(server);
            expect((params != nullptr) == (rank < 3), "which ranks work");
            expect((server != nullptr) == (rank >= 3), "which ranks serve");
            if (server) return must(hkt_params_server_wait(server, 50'000));
            expect(hkt_params_number(params) == rank, "a worker's number is its rank");
            train(params, 3, 5);
        });
        INFO(tree);
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("the communicator can be destroyed while its ranks go on with the service") {
    const auto outcomes = run_ranks({3}, [&](int) {
        hkt_params* params = nullptr;
        hkt_params_server* server = nullptr;
        Comm comm = join();
        must(comm.get(), hkt_params_open_with_ranks(comm.get(), 1, Numbers::list, Numbers::tensors, nullptr,
                                                    nullptr, &params, &server));
        comm.reset();
        const Params own(params);
        const Server served(server);
        if (server) return must(hkt_params_server_wait(server, 50'000));
        train(params, 2, 3);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("processes of their own meet at an address") {
    const auto outcomes = with_service(3, [](int number, const char* address) {
        hkt_params_options options = worker_options(address);
        options.workers = 3;
        options.number = number;
        const Params params = open_worker(options);
        expect(hkt_params_number(params.get()) == number, "the number that was asked for");
        train(params.get(), 3, 5);
        hkt_params_stats stats{};
        must(hkt_params_get_stats(params.get(), &stats, sizeof stats));
        expect(stats.round == 5, "the round in the statistics");
        expect(stats.bytes_sent >= 5 * 51003 * 8, "what was sent");
        expect(stats.bytes_received >= 5 * 51003 * 8, "what came");
        expect(stats.epochs > 0, "the epochs");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("the job begins with the first weights of one worker, and a range of tensors moves alone") {
    const auto outcomes = with_service(2, [](int number, const char* address) {
        hkt_params_options options = worker_options(address);
        options.workers = 2;
        options.number = number;
        Numbers first, got;
        first.fill(100);
        hkt_params* opened = nullptr;
        const auto weights = first.pointers();
        must(hkt_params_open(Numbers::list, Numbers::tensors, number == 0 ? weights.data() : nullptr,
                             &options, &opened));
        const Params params(opened);
        pull(params.get(), got, 0);
        expect(got.are(100, 1), "the first weights");
        // Chunks that a worker does not push count as zeros.
        first.fill(1);
        if (number == 0)
            must(hkt_params_push(params.get(), 1, 1, first.pointers(1, 1).data(), nullptr));
        else
            must(hkt_params_push(params.get(), 0, 2, first.pointers(0, 2).data(), nullptr));
        must(hkt_params_clock(params.get(), nullptr));
        must(hkt_params_pull(params.get(), 1, 2, got.pointers(1, 2).data(), 0, nullptr));
        expect(got.at(1, 2) == 102 + 2 * 3, "the tensor that both have pushed");
        expect(got.at(2, 49999) == 100 + 49999, "the tensor that nobody has pushed");
        must(hkt_params_pull(params.get(), 0, 1, got.pointers(0, 1).data(), 0, nullptr));
        expect(got.at(0, 999) == 1099 + 1000, "the tensor that one has pushed");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("updates are expressions") {
    for (const char* const update : {"sgd(0.5)", "w = w - 0.5 * g / workers"}) {
        const auto outcomes = with_service(2, [&](int number, const char* address) {
            const hkt_params_tensor tensor = {"w", 1000, HKT_FLOAT32};
            hkt_params_options options = worker_options(address);
            options.workers = 2;
            options.update = update;
            hkt_params* opened = nullptr;
            must(hkt_params_open(&tensor, 1, nullptr, &options, &opened));
            const Params params(opened);
            std::vector<float> values(1000, number == 0 ? 3.0F : 5.0F);
            const void* const gradient = values.data();
            must(hkt_params_push(params.get(), 0, 1, &gradient, nullptr));
            must(hkt_params_clock(params.get(), nullptr));
            void* const weights = values.data();
            must(hkt_params_pull(params.get(), 0, 1, &weights, 0, nullptr));
            for (const float value : values) expect(value == -2.0F, "half of the mean of 3 and 5");
        });
        INFO(update);
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a pull waits for as many rounds as its staleness says") {
    const Tally has_looked;
    const auto outcomes = with_service(2, [&](int number, const char* address) {
        hkt_params_options options = worker_options(address);
        options.workers = 2;
        options.number = number;
        options.staleness = 2;
        const Params params = open_worker(options);
        Numbers numbers;
        numbers.fill(1);
        if (number == 1) has_looked.await(1);
        for (int round = 0; round < 2; ++round) {
            push(params.get(), numbers);
            must(hkt_params_clock(params.get(), nullptr));
        }
        if (number == 0) {
            pull(params.get(), numbers, 2);  // at once, of the beginning
            expect(numbers.are(0, 0), "weights of the beginning");
            hkt_request* request = nullptr;
            const auto weights = numbers.pointers();
            must(hkt_params_pull(params.get(), 0, Numbers::tensors, weights.data(), 1, &request));
            expect(hkt_test(request) == HKT_IN_PROGRESS, "it waits");
            expect(hkt_wait_for(request, 100) == HKT_IN_PROGRESS, "it waits still");
            has_looked.add();
            must(hkt_wait(request));
            expect(numbers.are(2, 2) || numbers.are(4, 4), "weights of one round or of two");
        }
        pull(params.get(), numbers, 0);
        expect(numbers.are(4, 4), "weights of two rounds");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("sparse pushes count where they have values") {
    const auto outcomes = with_service(2, [](int number, const char* address) {
        hkt_params_options options = worker_options(address);
        options.workers = 2;
        options.number = number;
        const Params params = open_worker(options);
        const std::vector<std::uint32_t> indices = {0, 7, static_cast<std::uint32_t>(40000 + number)};
        const std::vector<std::int64_t> values = {1, number, 5};
        hkt_request* request = nullptr;
        must(hkt_params_push_sparse(params.get(), 2, 3, indices.data(), values.data(), &request));
        must(hkt_wait(request));
        must(hkt_params_clock(params.get(), nullptr));
        Numbers numbers;
        pull(params.get(), numbers, 0);
        expect(numbers.at(2, 0) == 2 && numbers.at(2, 7) == 1, "elements that both have");
        expect(numbers.at(2, 40000) == 5 && numbers.at(2, 40001) == 5, "elements that one has");
        expect(numbers.at(2, 1) == 0 && numbers.at(0, 0) == 0, "all others");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a server says how it is") {
    const Meeting meeting;
    const Tally has_joined, has_asked, has_looked;
    const auto outcomes = run_ranks({2}, [&](int rank) {
        if (rank == 0) {
            const Server server = start_server();
            const char* text = nullptr;
            must(hkt_params_server_stats(server.get(), &text));
            expect(nlohmann::json::parse(text).contains("waits_for"), text);
            meeting.announce(server.get());
            has_joined.await(1);
            must(hkt_params_server_stats(server.get(), &text));
            const auto own = nlohmann::json::parse(text);
            expect(own.at("workers").size() == 1 && own.at("clock") == 1, text);
            has_looked.add();
            has_asked.await(1);
            return must(hkt_params_server_wait(server.get(), 50'000));
        }
        const Params params = open_worker(worker_options(meeting.address()));
        train(params.get(), 1, 1);
        has_joined.add();
        const char* text = nullptr;
        must(hkt_params_status(meeting.address(), "a secret", 10'000, &text));
        const auto told = nlohmann::json::parse(text);
        expect(told.at("at") == meeting.address() && told.at("servers").size() == 1, text);
        expect(told.at("workers").at(0).at("answers") == true && told.at("clock") == 1, text);
        says(failure(hkt_params_status(meeting.address(), "another", 10'000, &text), HKT_ERROR_BOOTSTRAP),
             "secret");
        has_asked.add();
        has_looked.await(1);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a worker that does not wait for its pushes waits at the end of its round") {
    const Tally is_ahead;
    hkt_params_server_options patient = server_options();  // a worker may stand still
    patient.silence_ms = patient.return_ms = 20'000;
    const auto train_ahead = [&](int number, const char* address) {
        hkt_params_options options = worker_options(address);
        options.workers = 2;
        options.number = number;
        if (number == 0) options.timeout_ms = 5000;
        const Params params = open_worker(options);
        Numbers numbers;
        constexpr int rounds = 20;
        int round = 0;
        if (number == 0) {
            hkt_status status = HKT_SUCCESS;
            while (status == HKT_SUCCESS && ++round <= rounds)
                status = hkt_params_clock(params.get(), nullptr);
            says(failure(status, HKT_ERROR_TIMEOUT), "room for the updates of round");
            expect(round < 5, "some rounds, without the other worker's");
            is_ahead.add();
        } else {
            is_ahead.await(1);
        }
        for (; round <= rounds; ++round) must(hkt_params_clock(params.get(), nullptr));
        hkt_params_stats stats{};
        must(hkt_params_get_stats(params.get(), &stats, sizeof stats));
        expect(stats.reconnections == 0, "no server had to end a connection");
    };
    CHECK(problems(with_service(2, train_ahead, patient)) == "");
}

TEST_CASE("a server's patience is its workers', too") {
    for (const int silence_ms : {400, 20'000}) {
        hkt_params_server_options patient = server_options();
        patient.silence_ms = silence_ms;
        patient.return_ms = 20'000;
        const auto outcomes = with_service(
            2,
            [&](int number, const char* address) {
                hkt_params_options options = worker_options(address);
                options.workers = 2;
                options.number = number;
                const Params params = open_worker(options);
                train(params.get(), 2, 1);
                hkt_params_stats before{}, after{};
                must(hkt_params_get_stats(params.get(), &before, sizeof before));
                std::this_thread::sleep_for(std::chrono::milliseconds(2800));
                must(hkt_params_get_stats(params.get(), &after, sizeof after));
                expect(silence_ms == 400 || after.reconnections == 0, "the server was not taken for gone");
                // A worker that spoke as seldom as by default would be taken for gone several times a second.
                expect(after.epochs <= before.epochs + 8, "workers were taken for gone");
                Numbers numbers;
                pull(params.get(), numbers, 0);
            },
            patient);
        INFO(silence_ms);
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("what a worker keeps is counted in bytes") {
    const Tally seen;
    const auto outcomes = with_service(2, [&](int number, const char* address) {
        hkt_params_options options = worker_options(address);
        options.workers = 2;
        options.number = number;
        const Params params = open_worker(options);
        Numbers numbers;
        // Once all workers have pushed, the round is applied, and nothing is kept any more.
        if (number == 1) seen.await(1);
        push(params.get(), numbers);
        if (number == 0) {
            // A push returns before all of it has been taken.
            std::uint64_t kept = 0;
            const auto keeps_all = [&] {
                hkt_params_stats stats{};
                must(hkt_params_get_stats(params.get(), &stats, sizeof stats));
                kept = stats.kept_bytes;
                return kept == 51003 * 8;
            };
            expect(eventually(keeps_all), fmt::format("{} bytes are kept", kept));
            seen.add();
        }
        must(hkt_params_clock(params.get(), nullptr));
        pull(params.get(), numbers, 0);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks that serve need no first weights") {
    const auto outcomes = run_ranks({3}, [&](int rank) {
        const Comm comm = join();
        Numbers first;
        first.fill(7);
        const void* nothing[Numbers::tensors] = {};
        const auto weights = first.pointers();
        hkt_params* params = nullptr;
        hkt_params_server* server = nullptr;
        must(comm.get(),
             hkt_params_open_with_ranks(comm.get(), 1, Numbers::list, Numbers::tensors,
                                        rank == 2 ? nothing : weights.data(), nullptr, &params, &server));
        const Params own(params);
        const Server served(server);
        if (server) return must(hkt_params_server_wait(server, 50'000));
        Numbers got;
        pull(params, got, 0);
        expect(got.are(7, 1), "the first weights");
    });
    CHECK(problems(outcomes) == "");
}
