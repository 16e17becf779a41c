// A server or a worker of a parameter service, for bench/parameter-service. The server prints its
// address, answers each line of its input with its stats, and ends with its input. A worker joins, and then
// obeys commands (bench/peers/driver.hpp has the channel, barrier and clock):
//
//     round              pushes all tensors, ends the round and pulls them with staleness 0, timed
//     rounds N           does so N times, without waiting for other workers first
//     copy SHARE         copies as many bytes as a round must move: "own", those of this worker, or "all",
//                        those of all workers, by the first one alone
//     wrong              answers with the number of weights that differ from the rounds' expected result
#include <CLI/CLI.hpp>
#include <iostream>

#include "bench/peers/driver.hpp"
#include "runtime/base/error.hpp"
#include "runtime/compute/kernels/cpu/combine.hpp"
#include "runtime/params/server/server.hpp"
#include "runtime/params/worker/worker.hpp"

namespace {

using namespace hocket;
using namespace hocket::params;

constexpr auto for_ever = transport::Clock::time_point::max();

// w = w + g
class Adding final : public Calculator {
  public:
    void sum(DataType type, std::span<const std::byte* const> parts, std::uint64_t count,
             std::byte* to) const override {
        kernels::combine(type, ReduceOp::sum, {{to}}, parts, count);
    }
    std::size_t states() const override { return 0; }
    std::uint64_t state_bytes(DataType) const override { return 4; }
    void update(DataType type, std::span<const std::byte* const> before, const std::byte* gradient,
                std::uint64_t count, std::span<const std::uint64_t>, Round,
                std::span<std::byte* const> after) const override {
        const std::byte* const operands[] = {before[0], gradient};
        kernels::combine(type, ReduceOp::sum, after, operands, count);
    }
};

std::shared_ptr<const Calculator> adding(const Job&) {
    return std::make_shared<Adding>();
}

struct Options {
    std::string socket, shared, server, listen, join, tree = "direct", rack;
    std::uint32_t servers = 1;
    int ranks = 0;
    std::uint32_t tensors = 1, priority = 0;
    std::uint64_t count = 0;        // elements of each tensor
    std::uint64_t chunk_bytes = 0;  // 0: the default
};

std::string secret() {
    const char* const text = std::getenv("HOCKET_SECRET");
    return text ? text : "";
}

// ---- Server ----------------------------------------------------------------------------------------------

int serve(const Options& options) {
    ServerOptions terms;
    terms.listen = transport::Endpoint::parse(options.listen).value();
    terms.rack = options.rack;
    terms.servers = options.servers;
    terms.join = transport::Endpoint::parse(options.join);
    terms.secret = secret();
    terms.make_calculator = adding;
    Server server(std::move(terms));
    std::printf("%s\n", server.endpoint().text().c_str());
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line); std::fflush(stdout))
        std::printf("%s\n", server.stats().c_str());
    return 0;
}

// ---- Worker ----------------------------------------------------------------------------------------------

// Small integers, so that sums are exact in any order.
float gradient(int rank, std::size_t i) {
    return static_cast<float>((i + 911 * static_cast<std::size_t>(rank)) % 31);
}

class WorkerDriver {
  public:
    WorkerDriver(int rank, const Options& options)
        : rank_(rank),
          options_(options),
          shared_(options.shared, rank, options.ranks),
          client_(terms()),
          gradients_(elements()),
          weights_(elements()) {
        for (std::size_t i = 0; i < elements(); ++i) gradients_[i] = gradient(rank, i);
        for (std::uint32_t tensor = 0; tensor < options.tensors; ++tensor) {
            from_.push_back(reinterpret_cast<const std::byte*>(&gradients_[tensor * options.count]));
            to_.push_back(reinterpret_cast<std::byte*>(&weights_[tensor * options.count]));
        }
    }

    std::int64_t obey(const std::string& line) {
        std::istringstream words(line);
        std::string verb, share;
        words >> verb >> share;
        if (verb == "rounds") {
            for (int left = std::stoi(share); left > 0; --left) round();
            return 0;
        }
        if (verb == "round") return timed([&] { round(); });
        if (verb == "copy") return timed([&] { copy(share == "all" ? (rank_ == 0) * options_.ranks : 1); });
        if (verb == "wrong") return wrong();
        throw std::runtime_error("unknown command: " + line);
    }

  private:
    WorkerOptions terms() const {
        WorkerOptions terms;
        terms.server = transport::Endpoint::parse(options_.server).value();
        terms.secret = secret();
        for (std::uint32_t tensor = 0; tensor < options_.tensors; ++tensor)
            terms.job.tensors.push_back({"t" + std::to_string(tensor), DataType::float32, options_.count});
        terms.job.tree = options_.tree;
        terms.job.chunk_bytes = options_.chunk_bytes;
        terms.job.priority = options_.priority;
        terms.job.workers = static_cast<std::uint32_t>(options_.ranks);
        terms.number = static_cast<Worker>(rank_);
        terms.rack = options_.rack;
        terms.make_calculator = adding;
        return terms;
    }

    std::size_t elements() const { return options_.tensors * options_.count; }

    template <typename Work>
    std::int64_t timed(const Work& work) {
        shared_.meet();
        const auto start = peers::now_ns();
        work();
        shared_.time(0, start, peers::now_ns());
        return 0;
    }

    void round() {
        client_.wait(client_.push(0, from_), for_ever);
        client_.tick();
        ++rounds_;
        client_.wait(client_.pull(0, to_, 0), for_ever);
    }

    // Copies the gradients up and the weights down.
    void copy(int workers) {
        copied_.resize(elements());
        for (int worker = 0; worker < workers; ++worker) {
            std::memcpy(copied_.data(), gradients_.data(), elements() * sizeof(float));
            std::memcpy(weights_.data(), copied_.data(), elements() * sizeof(float));
        }
    }

    std::int64_t wrong() const {
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < elements(); ++i) {
            float sum = 0;
            for (int rank = 0; rank < options_.ranks; ++rank) sum += gradient(rank, i);
            wrong += weights_[i] != sum * static_cast<float>(rounds_);
        }
        return wrong;
    }

    const int rank_;
    const Options options_;
    peers::Shared shared_;
    Client client_;
    std::vector<float> gradients_, weights_, copied_;
    std::vector<const std::byte*> from_;
    std::vector<std::byte*> to_;
    int rounds_ = 0;
};

int work(const Options& options) {
    const int rank = peers::rank_from_environment();
    FILE* const channel = peers::connect_to(options.socket.c_str());
    WorkerDriver driver(rank, options);
    std::fprintf(channel, "rank %d\n", rank);
    std::fflush(channel);
    peers::serve(channel, driver);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"One process of bench/parameter-service"};
    app.require_subcommand(1);
    Options options;
    CLI::App* const server = app.add_subcommand("serve");
    server->add_option("--listen", options.listen)->required();
    server->add_option("--servers", options.servers);
    server->add_option("--join", options.join, "where the first server is");
    CLI::App* const worker = app.add_subcommand("work");
    worker->add_option("SOCKET", options.socket)->required();
    worker->add_option("SHARED", options.shared)->required();
    worker->add_option("RANKS", options.ranks)->required();
    worker->add_option("--server", options.server)->required();
    worker->add_option("--tensors", options.tensors);
    worker->add_option("--count", options.count, "elements of each tensor")->required();
    worker->add_option("--chunk-bytes", options.chunk_bytes);
    worker->add_option("--tree", options.tree);
    worker->add_option("--priority", options.priority);
    for (CLI::App* const role : {server, worker}) role->add_option("--rack", options.rack);
    CLI11_PARSE(app, argc, argv);
    try {
        return server->parsed() ? serve(options) : work(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 1;
    }
}
