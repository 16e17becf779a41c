// Real servers and workers, with real connections, as threads of this process. Several processes, and what
// becomes of them, are in tests/params.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>

#include "runtime/error.hpp"
#include "runtime/params/service/server.hpp"
#include "runtime/params/service/worker.hpp"
#include "tests/runtime/params/adding.hpp"

using namespace hocket;
using namespace hocket::params;
using namespace std::chrono_literals;

namespace {

std::vector<std::unique_ptr<Server>> start_servers(std::uint32_t count,
                                                   const std::string& address = "127.0.0.1") {
    std::vector<std::unique_ptr<Server>> servers;
    for (std::uint32_t i = 0; i < count; ++i) {
        ServerOptions options;
        options.listen = {address, 0};
        if (i > 0) options.join = servers[0]->endpoint();
        options.servers = count;
        options.secret = "a secret";
        options.timeout = 20s;
        options.make_calculator = test::adding;
        servers.push_back(std::make_unique<Server>(std::move(options)));
    }
    return servers;
}

WorkerOptions worker_options(const Server& server, Job job) {
    WorkerOptions options;
    options.server = server.endpoint();
    options.secret = "a secret";
    options.job = std::move(job);
    options.timeout = 20s;
    options.make_calculator = test::adding;
    return options;
}

Job small_job(std::uint32_t workers) {
    Job job;
    job.tensors = {{"a", DataType::int64, 1000}, {"b", DataType::int32, 3}, {"c", DataType::int64, 5000}};
    job.chunk_bytes = 4096;
    job.workers = workers;
    return job;
}

struct Buffers {
    std::vector<std::int64_t> a = std::vector<std::int64_t>(1000), c = std::vector<std::int64_t>(5000);
    std::vector<std::int32_t> b = std::vector<std::int32_t>(3);
    std::vector<std::byte*> pointers() {
        return {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()),
                reinterpret_cast<std::byte*>(c.data())};
    }
    void fill(std::int64_t value) {
        std::iota(a.begin(), a.end(), value);
        std::iota(b.begin(), b.end(), static_cast<std::int32_t>(value));
        std::iota(c.begin(), c.end(), value);
    }
};

void push(Client& client, Buffers& buffers) {
    const auto pointers = buffers.pointers();
    const std::vector<const std::byte*> gradients(pointers.begin(), pointers.end());
    REQUIRE(client.wait(client.push(0, gradients), transport::Clock::time_point::max()));
}

void pull(Client& client, Buffers& buffers, Clock staleness) {
    const auto pointers = buffers.pointers();
    REQUIRE(client.wait(client.pull(0, pointers, staleness), transport::Clock::time_point::max()));
}

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
    auto all = start_servers(servers, address);
    std::vector<std::thread> threads;
    std::vector<std::string> errors(workers);
    for (std::uint32_t w = 0; w < workers; ++w)
        threads.emplace_back([&, w] {
            try {
                Job job = small_job(workers);
                job.tree = tree;
                WorkerOptions options = worker_options(*all[0], job);
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
