// Checkpoints that workers ask for, and servers that go on from one.
#include <cstdio>
#include <filesystem>

#include "tests/capi/params/service.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

hkt_params_server_options server_in(const std::string& folder) {
    hkt_params_server_options options = server_options();
    options.checkpoints = folder.c_str();
    options.checkpoint_every = 1000;
    return options;
}

}  // namespace

TEST_CASE("a checkpoint that cannot be written is an error that names the server") {
    const auto without_folder = with_service(1, [](int, const char* address) {
        const Params params = open_worker(worker_options(address));
        const std::string text = failure(hkt_params_checkpoint(params.get(), nullptr), HKT_ERROR_IO);
        says(text, address);
        says(text, "without a folder");
    });
    CHECK(problems(without_folder) == "");
    const TemporaryFolder folder;
    const std::string there = folder.path() + "/there";
    std::filesystem::create_directory(there);
    const auto folder_goes = with_service(
        1,
        [&](int, const char* address) {
            const Params params = open_worker(worker_options(address));
            must(hkt_params_checkpoint(params.get(), nullptr));
            std::filesystem::rename(there, there + "-gone");
            says(failure(hkt_params_checkpoint(params.get(), nullptr), HKT_ERROR_IO), there);
            std::filesystem::rename(there + "-gone", there);
            // Several at once, and each has its own answer.
            hkt_request* requests[3];
            for (hkt_request*& request : requests) must(hkt_params_checkpoint(params.get(), &request));
            for (hkt_request* const request : requests) must(hkt_wait(request));
        },
        server_in(there));
    CHECK(problems(folder_goes) == "");
}

TEST_CASE("a server whose folder has a name that is not UTF-8 tells its state, and goes on") {
    const auto outcomes = run_ranks({1}, [](int) {
        const TemporaryFolder folder;
        const std::string there = folder.path() + "/h\xf6he";
        std::filesystem::create_directory(there);
        const hkt_params_server_options options = server_in(there);
        const Server server = start_server(options);
        const Params params = open_worker(worker_options(hkt_params_server_address(server.get())));
        must(hkt_params_checkpoint(params.get(), nullptr));
        std::filesystem::rename(there, there + "-gone");
        failure(hkt_params_checkpoint(params.get(), nullptr), HKT_ERROR_IO);
        const char* text = nullptr;
        must(hkt_params_server_stats(server.get(), &text));
        says(text, "/h\xef\xbf\xbdhe");
        std::filesystem::rename(there + "-gone", there);
        train(params.get(), 1, 2);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("what a worker has pushed is in a checkpoint when it has left") {
    const auto outcomes = run_ranks({1}, [](int) {
        const TemporaryFolder folder, copy;
        hkt_params_server_options options = server_in(folder.path());
        const Server server = start_server(options);
        Numbers numbers;
        {
            const Params params = open_worker(worker_options(hkt_params_server_address(server.get())));
            train(params.get(), 1, 3);
            numbers.fill(1);
            push(params.get(), numbers);
            must(hkt_params_clock(params.get(), nullptr));
        }
        // As the server leaves it if it dies now.
        std::filesystem::copy(folder.path(), copy.path(), std::filesystem::copy_options::recursive);
        options.checkpoints = copy.path().c_str();
        options.restore = 1;
        const Server next = start_server(options);
        const Params params = open_worker(worker_options(hkt_params_server_address(next.get())));
        pull(params.get(), numbers, 0);
        expect(numbers.are(4, 4), "the updates of the worker that has left");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a server that another one has taken the place of leaves that one's checkpoint alone") {
    const auto outcomes = run_ranks({1}, [](int) {
        const TemporaryFolder folder;
        hkt_params_server_options options = server_in(folder.path());
        Server old = start_server(options);
        {
            hkt_params_options as_worker = worker_options(hkt_params_server_address(old.get()));
            const Params params = open_worker(as_worker);
            train(params.get(), 1, 3);
            must(hkt_params_checkpoint(params.get(), nullptr));
        }
        options.restore = 1;
        Server next = start_server(options);
        const auto written = [&] {
            return std::filesystem::last_write_time(folder.path() + "/server-0.checkpoint");
        };
        const auto before = written();
        old.reset();
        expect(written() == before, "the old server has written");
        next.reset();
        expect(written() != before, "the new one writes its last one");
        const Server third = start_server(options);
        const char* text = nullptr;
        must(hkt_params_server_stats(third.get(), &text));
        says(text, "\"clock\":3");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a checkpoint is asked for again where a server was replaced meanwhile") {
    const TemporaryFolder folder;
    const Meeting meeting;
    const Tally is_ready, is_gone, has_asked;
    const auto outcomes = run_ranks({2}, [&](int rank) {
        if (rank == 0) {
            hkt_params_server_options options = server_in(folder.path());
            Server server = start_server(options);
            meeting.announce(server.get());
            is_ready.await(1);
            const std::string address = hkt_params_server_address(server.get());
            server.reset();
            is_gone.add();
            has_asked.await(1);
            options.listen = address.c_str();
            options.restore = 1;
            hkt_params_server* next = nullptr;
            // Another process may have had the port meanwhile.
            const bool is_back =
                eventually([&] { return hkt_params_server_start(&options, &next) == HKT_SUCCESS; });
            expect(is_back, hkt_last_error());
            server.reset(next);
            return must(hkt_params_server_wait(server.get(), 50'000));
        }
        const Params params = open_worker(worker_options(meeting.address()));
        train(params.get(), 1, 2);
        must(hkt_params_checkpoint(params.get(), nullptr));
        is_ready.add();
        is_gone.await(1);
        hkt_request* request = nullptr;
        must(hkt_params_checkpoint(params.get(), &request));
        has_asked.add();
        must(hkt_wait(request));
    });
    CHECK(problems(outcomes) == "");
}
