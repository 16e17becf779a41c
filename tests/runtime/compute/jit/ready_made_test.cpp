// Kernels of devices that come with Hocket.
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsl/base/named_file.hpp"
#include "dsl/planning/compile.hpp"
#include "runtime/compute/jit/compiler.hpp"
#include "runtime/compute/jit/device_image.hpp"
#include "runtime/compute/jit/device_program.hpp"
#include "runtime/compute/jit/ready_made/collection_text.hpp"
#include "runtime/compute/jit/ready_made/usual_plans.hpp"
#include "runtime/engine/plan/small_starts.hpp"
#include "tests/multi/process.hpp"
#include "tests/runtime/compute/jit/ready_made.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

const std::vector<std::string> library = {HOCKET_SCHEDULES_DIR};

std::set<std::string> usual_keys() {
    std::set<std::string> keys;
    for (const jit::DeviceShape& shape : jit::usual_device_shapes(library)) keys.insert(jit::key_of(shape));
    return keys;
}

// Returns lines of a few kinds, so that codes have many in common.
std::string random_lines(std::mt19937_64& random) {
    std::string text;
    for (std::size_t i = random() % 200; i > 0; --i) text += fmt::format("line {}\n", random() % 8);
    return text;
}

}  // namespace

TEST_CASE("plans that Hocket chooses for usual ranks that share memory come compiled") {
    using enum dsl::Collective;
    const std::set<std::string> keys = usual_keys();
    dsl::Planner planner;
    const auto check_all = [&](const char* topology, dsl::Rank ranks, dsl::Collective collective) {
        for (unsigned bits = 2; bits <= 32; bits += test::in_long_form(1u, 3u)) {
            dsl::PlanRequest request{collective, "", topology, library, ranks};
            request.bytes = std::uint64_t{1} << bits;
            const bool in_turns = bits % 2 == 0 && !contract_of(collective).combines();
            request.protocol = engine::protocol_of(request.bytes, true, in_turns);
            request.hosts.assign(static_cast<std::size_t>(ranks), 0);
            if (contract_of(collective).has_root()) request.root = static_cast<dsl::Rank>(bits) % ranks;
            const auto checked = planner.check(request);
            INFO(name_of(collective) << " of 2^" << bits << " B on " << topology << ": " << checked->name());
            for (dsl::Rank rank = 0; rank < ranks; ++rank) {
                const jit::DeviceShape shape =
                    jit::device_shape_of(checked->project(rank), DataType::bfloat16, ReduceOp::average, {});
                CHECK(keys.contains(jit::key_of(shape)));
            }
        }
    };
    for (const auto& [topology, ranks] : {std::pair{"2m", 2}, {"4m", 4}, {"8m", 8}})
        for (const dsl::Collective collective :
             {all_reduce, reduce_scatter, reduce, all_gather, broadcast, gather, scatter, all_to_all})
            check_all(topology, ranks, collective);
    // By trees in tiles, reductions to one rank of several sockets have too many forms.
    for (const auto& [topology, ranks] : {std::pair{"2mx2m", 4}, {"2mx4m", 8}, {"4mx2m", 8}})
        for (const dsl::Collective collective : {all_reduce, reduce_scatter})
            check_all(topology, ranks, collective);
}

TEST_CASE("each code that comes with Hocket is as it is compiled now, and there is no other") {
    if (!test::has_ready_made())
        HOCKET_SKIP("this build has none: it is for a sanitizer, or its LLVM has no PTX");
    const jit::CodeCollection came = test::ready_made_of_build();
    const auto shapes = jit::usual_device_shapes(library);
    std::map<std::string, std::string> codes;
    jit::Compiler compiler;
    std::size_t number = 0;
    for (const jit::DeviceShape& shape : shapes) {
        const auto code = came.find(jit::key_of(shape));
        REQUIRE(code);
        if (number++ % test::in_long_form(1, 29) == 0) CHECK(*code == compiler.ptx(shape));
        codes[jit::key_of(shape)] = *code;
    }
    CHECK(read_text(came.path()) == jit::collection_text(codes));
}

// Run by the next one, in a process that has no compiler.
TEST_CASE("usual plans without a compiler", "[.]") {
    const jit::CodeCache none("");
    const jit::CodeCollection came = test::ready_made_of_build();
    std::size_t number = 0;
    for (const jit::UsualPlan& plan : jit::usual_plans())
        for (const dsl::Rank root : {0, 1}) {
            if (root > 0 && !contract_of(plan.collective).has_root()) continue;
            for (const dsl::RankProgram& program : jit::programs_of(plan, root, library))
                for (const auto& [type, op] : jit::usual_pairs(plan.collective)) {
                    if (number++ % test::in_long_form(1, 23) != 0) continue;
                    INFO(program.schedule << " on " << plan.ranks << ", root " << root);
                    const auto shape = jit::device_shape_of(program, type, op, {});
                    const std::string text = jit::device_image(shape, 80, none, came).text;
                    CHECK_THAT(text.substr(0, 2000), Contains(".target sm_80"));
                    for (const int capability : {90, 100})
                        CHECK(jit::device_image(shape, capability, none, came).text == text);
                }
        }
    const dsl::RankProgram program = jit::programs_of(jit::usual_plans()[1], 0, library)[0];
    const auto unusual = jit::device_shape_of(program, DataType::int8, ReduceOp::product, {});
    CHECK_THROWS_WITH(jit::device_image(unusual, 90, none, came),
                      Contains("the code of this kernel did not come with Hocket, and plans cannot be "
                               "compiled: HOCKET_JIT_LIBRARY is /nowhere/libhocket_jit.so"));
    CHECK_THROWS_AS(jit::device_image(unusual, 90, none, came), jit::NoCompiler);
}

TEST_CASE("usual plans need no compiler, and unusual ones say that they do") {
    if (!test::has_ready_made())
        HOCKET_SKIP("this build has none: it is for a sanitizer, or its LLVM has no PTX");
    const test::Finished finished =
        test::run({"env", "-u", "HOCKET_TEST_COUNTS", own_file().string(), "usual plans without a compiler"},
                  300s, {{"HOCKET_JIT_LIBRARY", "/nowhere/libhocket_jit.so"}});
    INFO(finished.out << finished.err);
    CHECK(finished.exit_code == 0);
    CHECK_THAT(finished.out, Contains("All tests passed"));
}

TEST_CASE("a collection gives each code, and nothing if it is damaged") {
    const test::TemporaryFolder folder;
    const std::string path = folder / "collection";
    std::mt19937_64 random(11);
    for (int round = 0; round < 30; ++round) {
        std::map<std::string, std::string> codes;
        for (std::size_t i = random() % 12; i > 0; --i) {
            // Some are like an earlier one, but for a part.
            std::string code = random_lines(random);
            if (!codes.empty() && random() % 2 == 0)
                code = codes.begin()->second + code + codes.begin()->second;
            codes[std::to_string(random())] = code;
        }
        std::string text = jit::collection_text(codes);
        folder.write("collection", text);
        const jit::CodeCollection collection(path);
        for (const auto& [key, code] : codes) CHECK(collection.find(key) == code);
        CHECK(!collection.find("another"));
        const std::size_t at = random() % text.size();
        if (round % 2 == 0)
            text.resize(at);
        else
            text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
        folder.write("collection", text);
        for (const auto& [key, code] : codes) CHECK(!collection.find(key));
    }
    CHECK(!jit::CodeCollection("").find("key"));
    CHECK(!jit::CodeCollection(folder / "none").find("key"));
    CHECK(!jit::CodeCollection(folder.path()).find("key"));
    CHECK_THROWS(jit::collection_text({{"key", "no end of a line"}}));
}
