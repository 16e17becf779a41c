// Real servers and workers, with real connections, as threads of this process. tests/params tests several
// processes and their faults.
#include <catch2/catch.hpp>

#include <future>

#include "runtime/base/error.hpp"
#include "runtime/transport/net/listening.hpp"
#include "tests/runtime/params/training.hpp"
#include "tests/support/eventually.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace std::chrono_literals;

namespace {

// Worker w pushes w + 1 + round in each round, plus i at element i.
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

TEST_CASE("A pull in turn is asked for when the one before has come", "[params]") {
    const auto servers = start_servers(1);
    std::unique_ptr<Client> clients[2];
    std::vector<std::thread> threads;
    for (std::uint32_t w = 0; w < 2; ++w)
        threads.emplace_back([&, w] {
            WorkerOptions options = worker_options(servers[0]->endpoint(), small_job(2));
            options.number = w;
            clients[w] = std::make_unique<Client>(std::move(options));
        });
    for (std::thread& thread : threads) thread.join();
    Buffers gradients, weights;
    gradients.fill(1);
    const auto from = gradients.pointers(), to = weights.pointers();
    const std::vector<const std::byte*> pushed(from.begin(), from.end());
    const auto never = transport::Clock::time_point::max();
    push(*clients[0], gradients);
    clients[0]->tick();
    // The first chunk has both updates, the last one has not.
    clients[1]->wait(clients[1]->push(0, std::span(pushed).first(1)), never);
    const std::vector<Chunk> first{0}, last{static_cast<Chunk>(clients[0]->layout().chunks() - 1)};
    Buffers others;
    const auto others_to = others.pointers();
    clients[1]->wait(clients[1]->pull_ahead(first, others_to, 0), never);
    CHECK(others.a[0] == 2);
    const auto requests = clients[0]->pull_in_turn(std::vector{last, first, last}, to, 0);
    REQUIRE(requests.size() == 3);
    CHECK_FALSE(clients[0]->wait(requests[1], transport::Clock::now() + 100ms));
    clients[1]->wait(clients[1]->push(1, std::span(pushed).subspan(1)), never);
    clients[1]->tick();
    for (ParameterRequest* const request : requests) CHECK(clients[0]->wait(request, never));
    CHECK(weights.a[0] == 2);
    CHECK(weights.c[4999] == 2 * 5000);
    // A pull that is given up lets the next ones proceed.
    const auto given_up = clients[0]->pull_in_turn(std::vector{first, last, first}, to, 0);
    clients[0]->give_up(given_up[1]);
    clients[0]->give_up(given_up[0]);
    CHECK(clients[0]->wait(given_up[2], never));
    clients[0].reset();
    clients[1].reset();
    CHECK(servers[0]->wait(transport::Clock::now() + 20s));
}

TEST_CASE("A worker waits for its server and for others no longer than once its timeout", "[params]") {
    const auto place = [] {
        const transport::Socket free =
            transport::listen_on({"127.0.0.1", 0}, transport::Clock::now() + 10s, "");
        return transport::bound_to(free).value();
    }();
    const auto end_of_wait = [&](std::chrono::milliseconds timeout) {
        try {
            WorkerOptions options = worker_options(place, small_job(3));  // nobody else comes
            options.timeout = timeout;
            const Client client(std::move(options));
        } catch (const Error& error) {
            expect(error.status() == Status::timeout, error.what());
        }
        return transport::Clock::now();
    };
    // The first worker has no server for a part of its time. The second one comes when the first one is at
    // the server, and waits less than that one's whole time.
    auto first = std::async(std::launch::async, end_of_wait, 8000ms);
    std::this_thread::sleep_for(4s);
    ServerOptions options = server_options(1);
    options.listen = place;
    const Server server(std::move(options));
    REQUIRE(eventually([&] { return server.stats().find("1 of 3 workers") != std::string::npos; }));
    auto second = std::async(std::launch::async, end_of_wait, 6000ms);
    const auto first_end = first.get(), second_end = second.get();
    CHECK(first_end < second_end);
}
