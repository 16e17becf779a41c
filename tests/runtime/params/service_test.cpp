// Real servers and workers, with real connections, as threads of this process. Several processes, and what
// becomes of them, are in tests/params.
#include <catch2/catch.hpp>

#include "runtime/error.hpp"
#include "tests/runtime/params/training.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace std::chrono_literals;

namespace {

// Worker w pushes w + 1 + round in each round, and i more at element i.
void train(Client& client, std::uint32_t workers, int rounds) {
    Buffers buffers;
    const Worker self = client.number();
    std::int64_t expected = 0, slope = 0;
    for (int round = 0; round < rounds; ++round) {
        buffers.fill(static_cast<std::int64_t>(self) + 1 + round);
        push(client, buffers);
        client.tick();
        for (std::uint32_t w = 0; w < workers; ++w) expected += w + 1 + static_cast<std::uint32_t>(round);
        slope += workers;
        pull(client, buffers, 0);
        bool is_right = true;
        for (std::size_t i = 0; i < buffers.a.size(); ++i)
            is_right &= buffers.a[i] == expected + static_cast<std::int64_t>(i) * slope;
        for (std::size_t i = 0; i < buffers.b.size(); ++i)
            is_right &= buffers.b[i] == expected + static_cast<std::int64_t>(i) * slope;
        for (std::size_t i = 0; i < buffers.c.size(); ++i)
            is_right &= buffers.c[i] == expected + static_cast<std::int64_t>(i) * slope;
        if (!is_right) throw std::runtime_error("the weights are wrong");
    }
}

void run(std::uint32_t servers, std::uint32_t workers, const std::string& tree, int rounds,
         const std::string& address = "127.0.0.1") {
    auto all = start_servers(servers, [&](ServerOptions& options) { options.listen.host = address; });
    std::vector<std::thread> threads;
    std::vector<std::string> errors(workers);
    for (std::uint32_t w = 0; w < workers; ++w)
        threads.emplace_back([&, w] {
            try {
                Job job = small_job(workers);
                job.tree = tree;
                WorkerOptions options = worker_options(all[0]->endpoint(), job);
                options.number = w;
                options.rack = w % 2 ? "odd" : "even";
                Client client(std::move(options));
                train(client, workers, rounds);
            } catch (const std::exception& error) {
                errors[w] = error.what();
            }
        });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) CHECK(error == "");
    for (const auto& server : all) CHECK(server->wait(transport::Clock::now() + 20s));
}

}  // namespace

TEST_CASE("Workers push and pull, and every sum is right", "[params]") {
    SECTION("one worker, one server") {
        run(1, 1, "direct", 5);
    }
    SECTION("three workers, two servers, direct") {
        run(2, 3, "direct", 5);
    }
    SECTION("seven workers, three servers, binary") {
        run(3, 7, "binary", 5);
    }
    SECTION("six workers, two racks") {
        run(1, 6, "rack", 5);
    }
    SECTION("a chain") {
        run(2, 4, "degree 1", 5);
    }
    SECTION("elements go through connections, as between hosts") {
        run(2, 3, "direct", 20, "127.0.0.2");
    }
    SECTION("more servers than chunks") {
        run(30, 2, "direct", 2);
    }
}
