// Prints how fast combines are: by code generated for this machine, by the code that comes with Hocket where
// there is any, by the interpreter's kernel, and as a bound by memcpy of the same bytes in the same memory,
// with one thread and with several at once, as ranks run. Before that, how long kernels take to compile.
// Figures are medians of interleaved rounds.
#include <fmt/format.h>
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "runtime/compute/jit/compiled_program.hpp"
#include "runtime/compute/jit/kernels.hpp"
#include "runtime/compute/kernels/cpu/combine.hpp"

using namespace hocket;
using Clock = std::chrono::steady_clock;

namespace {

struct Options {
    std::vector<std::size_t> operands{2, 3, 4, 8, 16}, destinations{1, 2, 4}, threads{1, 2};
    std::size_t least_bytes = 4096, most_bytes = 64 << 20, factor = 4;
    DataType type = DataType::float32;
    ReduceOp op = ReduceOp::sum;
    std::string json;
    int rounds = 9;
};

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

// One thread's memory, in huge pages if available, as the runtime allocates memory that ranks share.
class Memory {
  public:
    explicit Memory(std::size_t bytes) : bytes_((bytes + page - 1) / page * page) {
        memory_.reset(static_cast<std::byte*>(std::aligned_alloc(page, bytes_)));
        if (!memory_) throw std::bad_alloc();
        madvise(memory_.get(), bytes_, MADV_HUGEPAGE);
        std::memset(memory_.get(), 0, bytes_);
    }
    std::byte* at(std::size_t offset) const { return memory_.get() + offset; }

  private:
    static constexpr std::size_t page = 2 << 20;
    std::size_t bytes_;
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> memory_;
};

struct Case {
    std::size_t operands, destinations, bytes, threads;

    std::size_t areas() const { return operands + destinations; }
    std::size_t traffic() const { return areas() * bytes; }
    std::size_t stride() const { return bytes + 20 * 64; }  // not all on the same cache sets
    std::size_t memory() const { return areas() * stride() + 64; }
};

dsl::Op combine_op(std::size_t operands, std::size_t destinations, dsl::BoundaryId begin,
                   dsl::BoundaryId end) {
    dsl::Op op{.kind = operands == 1 ? dsl::Op::Kind::copy : dsl::Op::Kind::combine,
               .begin = begin,
               .end = end,
               .area = dsl::areas_of_a_rank,
               .operands = {},
               .also = {},
               .successors = {}};
    for (std::size_t k = 1; k < destinations; ++k) op.also.push_back(op.area + k);
    for (std::size_t k = 0; k < operands; ++k) op.operands.push_back(op.area + destinations + k);
    return op;
}

// A program over `parts` equal parts: part i is combined from operands of the i-th number of the list,
// cyclically, into `destinations` places.
dsl::RankProgram program_of(std::size_t ops, std::size_t parts, const std::vector<std::size_t>& operands,
                            std::size_t destinations = 1) {
    dsl::RankProgram program{};
    for (std::size_t i = 0; i <= parts; ++i) program.boundaries.push_back(dsl::Rational(i, parts));
    program.scratch.resize(*std::max_element(operands.begin(), operands.end()) + destinations, {0, 1});
    for (std::size_t i = 0; i < ops; ++i)
        program.ops.push_back(
            combine_op(operands[i % operands.size()], destinations, i % parts, i % parts + 1));
    return program;
}

// The actions that the benchmark compares, on one thread's memory.
struct Actions {
    std::vector<std::byte*> areas{dsl::areas_of_a_rank};
    std::vector<std::byte*> destinations;
    std::vector<const std::byte*> operands;
    std::uint64_t offsets[2];
    std::vector<std::function<void()>> all;

    // precompiled: null if there is none.
    Actions(const Case& c, const Memory& memory, const jit::CompiledProgram& compiled,
            const jit::CompiledProgram* precompiled, const Options& options) {
        for (std::size_t k = 0; k < c.areas(); ++k) areas.push_back(memory.at(k * c.stride()));
        const auto first = areas.begin() + dsl::areas_of_a_rank;
        destinations.assign(first, first + c.destinations);
        operands.assign(first + c.destinations, areas.end());
        const std::size_t count = c.bytes / element_size(options.type);
        compiled.bind(count, offsets);
        const auto half = c.traffic() / 2;
        all = {
            [this, &compiled] { compiled.run(0, areas.data(), offsets); },
            [this, &options, count] {
                kernels::combine(options.type, options.op, destinations, operands, count);
            },
            [from = memory.at(0), to = memory.at(half), half] { std::memcpy(to, from, half); },
        };
        if (precompiled) all.push_back([this, precompiled] { precompiled->run(0, areas.data(), offsets); });
    }
    Actions(const Actions&) = delete;
};

// Seconds of one call of each action, by every thread at once: rounds of as many calls as take 2 ms, the
// actions in turn. A round's figure is the mean of its threads'.
std::vector<double> measure(const std::vector<std::unique_ptr<Actions>>& threads, int rounds) {
    const std::size_t actions = threads[0]->all.size();
    std::vector<std::size_t> calls;
    for (const auto& action : threads[0]->all) {
        std::size_t n = 0;
        for (const auto start = Clock::now(); seconds_since(start) < 2e-3; ++n) action();
        calls.push_back(n);
    }
    std::vector<std::vector<double>> sums(actions, std::vector<double>(rounds));
    std::barrier barrier(threads.size());
    std::mutex mutex;
    const auto work = [&](const Actions& mine) {
        for (int round = 0; round < rounds; ++round)
            for (std::size_t a = 0; a < actions; ++a) {
                mine.all[a]();
                barrier.arrive_and_wait();
                const auto start = Clock::now();
                for (std::size_t i = 0; i < calls[a]; ++i) mine.all[a]();
                const double seconds = seconds_since(start) / calls[a];
                barrier.arrive_and_wait();
                const std::lock_guard lock(mutex);
                sums[a][round] += seconds / threads.size();
            }
    };
    std::vector<std::thread> others;
    for (std::size_t t = 1; t < threads.size(); ++t) others.emplace_back([&, t] { work(*threads[t]); });
    work(*threads[0]);
    for (auto& thread : others) thread.join();
    std::vector<double> medians;
    for (const auto& of_action : sums) medians.push_back(median(of_action));
    return medians;
}

nlohmann::json compare_combines(const Case& c, const Options& options, const std::vector<Memory>& memories) {
    const dsl::RankProgram program = program_of(1, 1, {c.operands}, c.destinations);
    const auto compiled = jit::CompiledProgram::compile(program, options.type, options.op);
    const auto precompiled = jit::CompiledProgram::of_precompiled(program, options.type, options.op);
    std::vector<std::unique_ptr<Actions>> threads;
    for (std::size_t t = 0; t < c.threads; ++t)
        threads.push_back(std::make_unique<Actions>(c, memories[t], *compiled, precompiled.get(), options));
    const auto seconds = measure(threads, options.rounds);
    const auto rate = [&](int action) { return c.threads * c.traffic() / seconds[action] * 1e-9; };
    fmt::print("{:7} {:8} {:12} {:9} {:9.1f} {:9.1f} {:9.1f} {:11.2f} {:11.2f}{}\n", c.threads, c.operands,
               c.destinations, c.bytes, rate(0), rate(1), rate(2), seconds[2] / seconds[0],
               seconds[1] / seconds[0],
               precompiled ? fmt::format(" {:16.2f}", seconds[0] / seconds[3]) : std::string());
    nlohmann::json row{{"threads", c.threads},           {"operands", c.operands},
                       {"destinations", c.destinations}, {"bytes", c.bytes},
                       {"jit_seconds", seconds[0]},      {"interpreter_seconds", seconds[1]},
                       {"memcpy_seconds", seconds[2]}};
    if (precompiled) row["precompiled_seconds"] = seconds[3];
    return row;
}

nlohmann::json compare_all(const Options& options) {
    std::vector<Case> cases;
    for (const std::size_t threads : options.threads)
        for (const std::size_t operands : options.operands)
            for (const std::size_t destinations : options.destinations)
                for (std::size_t bytes = options.least_bytes; bytes <= options.most_bytes;
                     bytes *= options.factor)
                    cases.push_back({operands, destinations, bytes, threads});
    std::size_t most = 0;
    for (const Case& c : cases) most = std::max(most, c.memory());
    std::vector<Memory> memories;
    for (std::size_t t = 0; t < *std::ranges::max_element(options.threads); ++t) memories.emplace_back(most);

    fmt::print("{} {}; GB/s read and written by all threads; ratios of speed\n", name_of(options.type),
               name_of(options.op));
    fmt::print(
        "threads operands destinations     bytes       jit    interp    memcpy  jit/memcpy  jit/interp  "
        "precompiled/jit\n");
    nlohmann::json results = nlohmann::json::array();
    for (const Case& c : cases) results.push_back(compare_combines(c, options, memories));
    return results;
}

nlohmann::json time_once(const std::string& name, const std::function<void()>& action) {
    const auto start = Clock::now();
    action();
    const double seconds = seconds_since(start);
    fmt::print("{:36} {:7.2f} ms\n", name, seconds * 1e3);
    return {{"what", name}, {"seconds", seconds}};
}

// Kernels are compiled once a process, so nothing is measured twice, and the first pays for LLVM's start.
nlohmann::json time_compilations(const Options& options) {
    fmt::print("compilation\n");
    nlohmann::json results = nlohmann::json::array();
    for (const auto& [operands, destinations] :
         {std::pair(3, 1), {2, 1}, {2, 2}, {4, 4}, {8, 1}, {8, 8}, {16, 1}, {16, 16}, {17, 1}})
        for (const bool streamed : {false, true}) {
            jit::KernelShape shape = jit::KernelShape::of(options.type, options.op, operands, destinations);
            if (streamed) shape = shape.streaming();
            results.push_back(time_once(name_of(shape), [&] { jit::find_kernel(shape).code(); }));
        }
    for (const int round : {1, 2})
        results.push_back(time_once(fmt::format("2000 combines of 2 to 16, program {}", round), [&] {
            jit::CompiledProgram::compile(program_of(2000, 1999, {2, 3, 4, 8, 16}), options.type, options.op);
        }));
    fmt::print("\n");
    return results;
}

template <typename Row, std::size_t size>
CLI::CheckedTransformer names_of(const Row (&rows)[size]) {
    std::map<std::string, Row> values;
    for (const Row row : rows) values.emplace(name_of(row), row);
    return CLI::CheckedTransformer(values);
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("How fast combines are");
    const auto list = [&](const char* name, std::vector<std::size_t>& numbers, const char* what) {
        app.add_option(name, numbers, what)->delimiter(',')->check(CLI::Range(1, 1024));
    };
    list("--operands", options.operands, "numbers of operands (1: copies)");
    list("--destinations", options.destinations, "numbers of destinations");
    list("--threads", options.threads, "numbers of threads at once");
    app.add_option("-b", options.least_bytes, "bytes an area, from")->transform(CLI::AsSizeValue(false));
    app.add_option("-e", options.most_bytes, "to")->transform(CLI::AsSizeValue(false));
    app.add_option("-f", options.factor, "by this factor")->check(CLI::Range(2, 1 << 20));
    app.add_option("--type", options.type, "of the elements")->transform(names_of(all_types));
    app.add_option("--op", options.op, "operator")->transform(names_of(all_ops));
    app.add_option("--rounds", options.rounds, "of which the median is taken")->check(CLI::Range(1, 1000));
    app.add_option("--json", options.json, "also write the figures to this file");
    CLI11_PARSE(app, argc, argv);

    nlohmann::json report{{"type", name_of(options.type)}, {"op", name_of(options.op)}};
    report["compilation"] = time_compilations(options);
    report["combines"] = compare_all(options);
    if (options.json.empty()) return 0;
    std::ofstream file(options.json);
    file << report.dump(2) << '\n';
    if (file.flush()) return 0;
    fmt::print(stderr, "cannot write {}\n", options.json);
    return 1;
}
