// The PTX of plans for a device: NVIDIA's assembler takes it, for all generations of devices, and keeps all
// values in registers. Where there is no assembler, only the text is looked at.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "runtime/compute/jit/device_image.hpp"
#include "runtime/compute/jit/device_program.hpp"
#include "runtime/compute/jit/ready_made/usual_plans.hpp"
#include "tests/dsl/cases.hpp"
#include "tests/runtime/compute/jit/ready_made.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;

namespace {

std::string ptx_of(const char* schedule, dsl::Rank ranks, DataType type, ReduceOp op,
                   dsl::Protocol protocol = dsl::Protocol::bandwidth, const dsl::Formula& defined = {}) {
    auto request = test::request(dsl::Collective::all_reduce, schedule, "", ranks);
    request.hosts.assign(static_cast<std::size_t>(ranks), 0);
    request.protocol = protocol;
    const dsl::RankProgram program = dsl::check_schedule(request)->project(ranks - 1);
    REQUIRE(!jit::why_no_device_kernel(program));
    return jit::ptx_of(jit::device_shape_of(program, type, op, defined));
}

// Returns the assembler's place, or "".
std::string assembler() {
    for (const std::string folder : {"/usr/local/cuda/bin", "/usr/bin", "/usr/local/bin"})
        if (std::filesystem::exists(folder + "/ptxas")) return folder + "/ptxas";
    return "";
}

std::string output_of(const std::string& command) {
    FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string text;
    std::array<char, 4096> part;
    while (const std::size_t bytes = std::fread(part.data(), 1, part.size(), pipe))
        text.append(part.data(), bytes);
    const int status = pclose(pipe);
    return status == 0 ? text : fmt::format("exit status {}: {}", status, text);
}

// Returns the sum over the kernel and the functions that it calls.
std::uint64_t spilled_bytes(const std::string& told) {
    static const std::regex line(R"((\d+) bytes spill stores, (\d+) bytes spill loads)");
    const std::sregex_iterator first(told.begin(), told.end(), line), last;
    REQUIRE(first != last);
    std::uint64_t bytes = 0;
    for (auto found = first; found != last; ++found)
        bytes += std::stoul((*found)[1].str()) + std::stoul((*found)[2].str());
    return bytes;
}

// Returns what the assembler says of a device's code.
std::string told_of(const std::string& ptx, const std::string& device) {
    const test::TemporaryFolder folder;
    const std::string file = folder / "plan.ptx";
    std::ofstream(file) << ptx;
    return output_of(fmt::format("{} -v -arch {} -o {}.cubin {}", assembler(), device, file, file));
}

struct Shape {
    const char* schedule;
    dsl::Rank ranks;
    DataType type;
    ReduceOp op;
    dsl::Protocol protocol = dsl::Protocol::bandwidth;
    dsl::Formula defined = {};
};

std::vector<Shape> shapes() {
    using enum DataType;
    using Op = dsl::Formula::Op;
    const dsl::Formula absmax{{{Op::element, 0},
                               {Op::absolute},
                               {Op::element, 1},
                               {Op::absolute},
                               {Op::greater_equal},
                               {Op::element, 0},
                               {Op::element, 1},
                               {Op::select}}};
    return {{"direct", 2, float32, ReduceOp::sum},
            {"direct", 8, float32, ReduceOp::sum},
            {"direct", 8, bfloat16, ReduceOp::average},
            {"direct", 8, float16, ReduceOp::sum},
            {"direct", 4, float64, ReduceOp::max},
            {"direct", 8, int8, ReduceOp::average},
            {"direct", 8, bfloat16, ReduceOp::premul_sum, dsl::Protocol::latency},
            {"exchange", 8, float32, ReduceOp::sum, dsl::Protocol::latency},
            {"direct", 18, float32, ReduceOp::sum},
            {"ring", test::in_long_form(8, 4), bfloat16, ReduceOp::sum},
            {"direct", test::in_long_form(8, 4), float32, ReduceOp::sum, dsl::Protocol::bandwidth, absmax}};
}

}  // namespace

TEST_CASE("a kernel's PTX orders its accesses, and rounds as the processor does") {
    const std::string text = ptx_of("direct", 3, DataType::float32, ReduceOp::average);
    for (const char* part :
         {".entry hocket_plan(", ".target sm_80", "ld.acquire.sys.global.u64", "st.release.sys.global.u64",
          "atom.acq_rel.gpu.global.add.u32", "bar.sync", "%globaltimer", "add.rn.f32", "div.rn.f32",
          "ld.global.v4.f32", "st.global.v4.f32"})
        CHECK_THAT(text, Contains(part));
    for (const char* part : {"fma", ".ftz", ".approx", ".nc.f32", ".nc.v4", "ld.acquire.gpu"})
        CHECK_THAT(text, !Contains(part));
    CHECK_THAT(ptx_of("direct", 4, DataType::bfloat16, ReduceOp::premul_sum), Contains("mul.rn.f32"));
    const std::string small = ptx_of("exchange", 4, DataType::float32, ReduceOp::sum, dsl::Protocol::latency);
    for (const char* part : {"ld.relaxed.sys.global.u64", "st.relaxed.sys.global.u64"})
        CHECK_THAT(small, Contains(part));
}

TEST_CASE("NVIDIA's assembler takes each kernel, and spills nothing") {
    if (assembler().empty()) HOCKET_SKIP("there is no ptxas: CUDA is not installed");
    const std::regex used(R"(Used (\d+) registers)");
    int number = 0;
    for (const Shape& shape : shapes()) {
        const std::string ptx =
            ptx_of(shape.schedule, shape.ranks, shape.type, shape.op, shape.protocol, shape.defined);
        std::string registers;
        for (const char* device : {"sm_80", "sm_90", "sm_100"}) {
            if (number++ % 4 != 0 && !test::is_long_form()) continue;  // one for each shape, and each
            const std::string told = told_of(ptx, device);
            INFO(fmt::format("{} on {}, {} of {}, {}: {}", shape.schedule, shape.ranks, name_of(shape.op),
                             name_of(shape.type), device, told));
            CHECK_THAT(told, !Contains("exit status"));
            // A kernel for any number of operands is a call, which may cost the caller a register.
            const bool is_unrolled = shape.ranks <= static_cast<dsl::Rank>(jit::KernelShape::most_unrolled);
            CHECK(spilled_bytes(told) <= (is_unrolled ? 0 : 16));
            std::smatch number;
            if (std::regex_search(told, number, used)) registers += " " + number[1].str();
        }
        if (std::getenv("HOCKET_SHOW_REGISTERS"))
            fmt::print("{} on {}, {} of {}: registers{}\n", shape.schedule, shape.ranks, name_of(shape.op),
                       name_of(shape.type), registers);
    }
}

TEST_CASE("NVIDIA's assembler takes all code that comes with Hocket, and spills next to nothing") {
    if (assembler().empty()) HOCKET_SKIP("there is no ptxas: CUDA is not installed");
    const auto shapes = jit::usual_device_shapes({HOCKET_SCHEDULES_DIR});
    const char* const devices[] = {"sm_80", "sm_90", "sm_100"};
    const jit::CodeCache none("");
    // One of each some, on one of the devices.
    const std::size_t step = test::in_long_form(std::size_t{1}, shapes.size() / 12);
    for (std::size_t i = 0; i < shapes.size(); i += step) {
        const std::string told = told_of(
            jit::device_image(shapes[i], 80, none, test::ready_made_of_build()).text, devices[i / step % 3]);
        INFO(jit::key_of(shapes[i]) << told);
        CHECK_THAT(told, !Contains("exit status"));
        // Of four codes, around the call that combines: three words are stored and loaded again.
        CHECK(spilled_bytes(told) <= 24);
    }
}
