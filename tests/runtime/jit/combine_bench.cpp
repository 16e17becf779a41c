// Prints how fast float32 sums are combined, by generated code, by the interpreter's kernel, and as a bound
// by memcpy of the same traffic; and how long programs take to compile. Figures are medians of interleaved
// rounds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "runtime/jit/compiled_program.hpp"
#include "runtime/kernels/cpu/combine.hpp"

using namespace hocket;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

dsl::Op combine_op(std::size_t arity, dsl::BoundaryId begin, dsl::BoundaryId end) {
    dsl::Op op{.kind = dsl::Op::Kind::combine,
               .begin = begin,
               .end = end,
               .area = dsl::output_area,
               .operands = {},
               .successors = {}};
    for (std::size_t k = 0; k < arity; ++k) op.operands.push_back(dsl::first_scratch_area + k);
    return op;
}

// A program over `parts` equal parts: part i is combined from operands of the i-th arity of the list,
// cyclically.
dsl::RankProgram program_of(std::size_t ops, std::size_t parts, const std::vector<std::size_t>& arities) {
    dsl::RankProgram program{};
    for (std::size_t i = 0; i <= parts; ++i) program.boundaries.push_back(dsl::Rational(i, parts));
    program.scratch.resize(*std::max_element(arities.begin(), arities.end()), {0, 1});
    for (std::size_t i = 0; i < ops; ++i)
        program.ops.push_back(combine_op(arities[i % arities.size()], i % parts, i % parts + 1));
    return program;
}

// Seconds of one call of each action: rounds of as many calls as take 2 ms, the actions in turn.
std::vector<double> measure(const std::vector<std::function<void()>>& actions) {
    constexpr int rounds = 15;
    std::vector<std::vector<double>> times(actions.size());
    std::vector<std::size_t> calls;
    for (const auto& action : actions) {
        std::size_t n = 0;
        for (const auto start = Clock::now(); seconds_since(start) < 2e-3; ++n) action();
        calls.push_back(n);
    }
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t a = 0; a < actions.size(); ++a) {
            const auto start = Clock::now();
            for (std::size_t i = 0; i < calls[a]; ++i) actions[a]();
            times[a].push_back(seconds_since(start) / calls[a]);
        }
    }
    std::vector<double> medians;
    for (const auto& of_action : times) medians.push_back(median(of_action));
    return medians;
}

void compare_combines(std::size_t arity, std::size_t bytes) {
    const auto compiled =
        jit::CompiledProgram::compile(program_of(1, 1, {arity}), DataType::float32, ReduceOp::sum);
    const std::size_t count = bytes / 4, stride = count + 64 + 16;  // not all on the same cache sets
    const std::size_t traffic = (arity + 1) * bytes;
    std::vector<float> memory(stride * (arity + 1), 1.f);
    std::vector<std::byte*> areas(dsl::first_scratch_area);
    std::vector<const std::byte*> operands;
    std::byte* destination = areas[dsl::output_area] = reinterpret_cast<std::byte*>(memory.data());
    for (std::size_t k = 1; k <= arity; ++k) {
        areas.push_back(reinterpret_cast<std::byte*>(memory.data() + k * stride));
        operands.push_back(areas.back());
    }
    std::uint64_t offsets[2];
    compiled->bind(count, offsets);
    std::vector<std::byte> from(traffic / 2, std::byte{1}), to(traffic / 2);

    const auto times = measure({
        [&] { compiled->run(0, areas.data(), offsets); },
        [&] { kernels::combine(DataType::float32, ReduceOp::sum, destination, operands, count); },
        [&] { std::memcpy(to.data(), from.data(), from.size()); },
    });
    if (memory[0] != float(arity)) std::abort();
    fmt::print("{:5} {:9} {:9.1f} {:9.1f} {:9.1f} {:9.2f}\n", arity, bytes, traffic / times[0] * 1e-9,
               traffic / times[1] * 1e-9, traffic / times[2] * 1e-9, times[1] / times[0]);
}

void time_compilation(const char* name, const dsl::RankProgram& program) {
    std::vector<double> times;
    for (int i = 0; i < 7; ++i) {
        const auto start = Clock::now();
        jit::CompiledProgram::compile(program, DataType::float32, ReduceOp::sum);
        times.push_back(seconds_since(start));
    }
    fmt::print("{:36} {:7.1f} ms\n", name, median(times) * 1e3);
}

}  // namespace

int main() {
    time_compilation("8 ranks, ring: 7 combines of 2", program_of(7, 8, {2}));
    time_compilation("8 ranks, direct: 1 combine of 8", program_of(1, 8, {8}));
    time_compilation("1 combine of 16", program_of(1, 8, {16}));
    time_compilation("1 combine of 1024", program_of(1, 1024, {1024}));
    time_compilation("2000 boundaries, no operation", program_of(0, 2000, {2}));
    time_compilation("2000 combines of 2, 2000 boundaries", program_of(2000, 2000, {2}));
    time_compilation("2000 combines of 2 to 16", program_of(2000, 1999, {2, 3, 4, 8, 16}));
    fmt::print("\nGB/s read and written\narity     bytes       jit    interp    memcpy  jit/interp\n");
    for (const std::size_t arity : {2, 4, 8, 16, 32})
        for (std::size_t bytes = 1024; bytes <= 16 << 20; bytes *= 4) compare_combines(arity, bytes);
}
