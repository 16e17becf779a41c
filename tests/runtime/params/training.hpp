// Servers and workers as threads of this process, and their expected weights.
#pragma once

#include <catch2/catch.hpp>

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "runtime/params/server/server.hpp"
#include "runtime/params/worker/worker.hpp"
#include "tests/runtime/params/adding.hpp"
#include "tests/support/expect.hpp"
#include "tests/support/long_enough.hpp"

namespace hocket::test {

using namespace params;

inline ServerOptions server_options(std::uint32_t count) {
    ServerOptions options;
    options.listen = {"127.0.0.1", 0};
    options.servers = count;
    options.secret = "a secret";
    options.timeout = std::chrono::seconds(20);
    options.make_calculator = adding;
    return options;
}

inline std::vector<std::unique_ptr<Server>> start_servers(
    std::uint32_t count, const std::function<void(ServerOptions&)>& change = {}) {
    std::vector<std::unique_ptr<Server>> servers;
    for (std::uint32_t i = 0; i < count; ++i) {
        ServerOptions options = server_options(count);
        if (i > 0) options.join = servers[0]->endpoint();
        if (change) change(options);
        servers.push_back(std::make_unique<Server>(std::move(options)));
    }
    return servers;
}

inline WorkerOptions worker_options(const transport::Endpoint& server, Job job) {
    WorkerOptions options;
    options.server = server;
    options.secret = "a secret";
    options.job = std::move(job);
    options.timeout = std::chrono::seconds(20);
    options.make_calculator = adding;
    return options;
}

inline Job small_job(std::uint32_t workers) {
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

// Works on any thread; Catch2's macros are for one thread.
inline void push(Client& client, Buffers& buffers) {
    const auto pointers = buffers.pointers();
    const std::vector<const std::byte*> gradients(pointers.begin(), pointers.end());
    expect(client.wait(client.push(0, gradients), transport::Clock::time_point::max()).has_value(), "a push");
}

inline void pull(Client& client, Buffers& buffers, Clock staleness) {
    const auto pointers = buffers.pointers();
    expect(client.wait(client.pull(0, pointers, staleness), transport::Clock::time_point::max()).has_value(),
           "a pull");
}

// Workers that one thread moves from round to round. Worker w pushes w + 1 + round in each round, plus i at
// element i.
class Team {
  public:
    // All join at the same time, as the job requires.
    Team(const Server& first, const Job& job, const std::function<void(WorkerOptions&)>& change = {});

    // One round of all workers. Only their updates count.
    void train();
    // One round of all workers, after which all have the same weights. Others may have pushed, too.
    void agree();
    Client& worker(std::size_t number) { return *workers_[number]; }

  private:
    std::vector<Buffers> round();

    std::vector<std::unique_ptr<Client>> workers_;
    std::int64_t rounds_ = 0, expected_ = 0, slope_ = 0;
};

}  // namespace hocket::test
