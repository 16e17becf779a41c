// Saves and loads the state that a plan keeps from one start to the next.
#include "runtime/compute/program/kept_state.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "tests/dsl/cases.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using Catch::Matchers::Contains;
using compute::KeptState;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern int loaded_states, refused_states;

namespace {

using Bytes = std::vector<std::byte>;

std::vector<dsl::RankProgram> programs_of(const std::string& schedule, const std::string& topology) {
    const auto checked = dsl::check_schedule(request(dsl::Collective::all_reduce, schedule, topology));
    std::vector<dsl::RankProgram> programs;
    for (dsl::Rank rank = 0; rank < checked->graph().ranks; ++rank)
        programs.push_back(checked->project(rank));
    return programs;
}

// The elements that a rank keeps of a state: from its region's boundaries alone.
std::uint64_t elements_of(const dsl::RankProgram& program, std::size_t extra, std::uint64_t count) {
    const dsl::Interval& region = program.extras[extra].regions[static_cast<std::size_t>(program.rank)];
    return region.end.offset(count) - region.begin.offset(count);
}

template <typename T>
void fill(KeptState& state, const dsl::RankProgram& program, std::size_t extra, std::uint64_t count,
          T first) {
    auto* const values = reinterpret_cast<T*>(state.memory(extra));
    for (std::uint64_t i = 0; i < elements_of(program, extra, count); ++i)
        values[i] = first + static_cast<T>(i);
}

void load(KeptState& state, const std::vector<Bytes>& saved) {
    std::vector<std::span<const std::byte>> spans(saved.begin(), saved.end());
    state.load(spans);
}

}  // namespace

TEST_CASE("damaged states are loaded or refused, and nothing outside of them is read") {
    std::mt19937_64 random(7);
    std::vector<std::uint8_t> input;
    for (int round = 0; round < 20'000; ++round) {
        input.resize(random() % 80);
        for (auto& byte : input) byte = static_cast<std::uint8_t>(random());
        LLVMFuzzerTestOneInput(input.data(), input.size());
    }
    CHECK(loaded_states > 1000);
    CHECK(refused_states > 1000);
}

TEST_CASE("a state comes back as it was saved, for every rank, of every state") {
    for (const auto& [schedule, topology] :
         {std::pair<std::string, std::string>{"hitopk", "2x2"}, {"dgc", "3"}, {"lamb", "4"}, {"lars", "1"}})
        for (const std::uint64_t count : {0, 1, 5, 1003}) {
            const auto programs = programs_of(schedule, topology);
            std::vector<Bytes> saved;
            for (const dsl::RankProgram& program : programs) {
                KeptState state(program, DataType::float32);
                state.prepare(count);
                for (std::size_t i = 0; i < program.extras.size(); ++i)
                    if (program.extras[i].buffer.kind == dsl::ExtraBuffer::Kind::state)
                        fill(state, program, i, count,
                             static_cast<float>(1000 * program.rank) + 10000 * static_cast<float>(i));
                for (int start = 0; start < 3; ++start) state.take_turn(), state.end_turn();
                saved.push_back(state.save());
            }
            for (const dsl::RankProgram& program : programs) {
                KeptState state(program, DataType::float32);
                load(state, saved);
                CHECK(state.starts() == 3);
                CHECK(state.save() == saved[static_cast<std::size_t>(program.rank)]);
            }
        }
}

TEST_CASE("states of one name, made in a loop, are told apart") {
    const TemporarySchedule file(
        "schedule s all_reduce(x) {\n"
        "    for t in 0 ..< 2 {\n"
        "        let y = x.part(t of 2)\n"
        "        state v like y\n"
        "        all_reduce y over world\n"
        "        v = 0.5 * v + y\n"
        "        y = v\n"
        "    }\n"
        "}\n");
    const auto programs = programs_of(file.path(), "2");
    std::vector<Bytes> saved;
    for (const dsl::RankProgram& program : programs) {
        REQUIRE(program.extras.size() == 2);
        KeptState state(program, DataType::float64);
        state.prepare(9);
        fill(state, program, 0, 9, 1.0);
        fill(state, program, 1, 9, 100.0);
        saved.push_back(state.save());
    }
    KeptState state(programs[1], DataType::float64);
    load(state, saved);
    CHECK(state.save() == saved[1]);
    CHECK(reinterpret_cast<const double*>(state.memory(0))[0] == 1);
    CHECK(reinterpret_cast<const double*>(state.memory(1))[0] == 100);
}

TEST_CASE("on another number of ranks each element's sum goes to one of those that keep it") {
    constexpr std::uint64_t count = 101;
    const auto old = programs_of("hitopk", "2x2");
    std::vector<Bytes> saved;
    std::vector<double> wanted(count, 0.0);
    for (const dsl::RankProgram& program : old) {
        KeptState state(program, DataType::float32);
        state.prepare(count);
        const auto first = static_cast<float>(1 << (4 * program.rank));
        fill(state, program, 0, count, first);
        const std::uint64_t begin =
            program.extras[0].regions[static_cast<std::size_t>(program.rank)].begin.offset(count);
        for (std::uint64_t i = 0; i < elements_of(program, 0, count); ++i)
            wanted[begin + i] += double{first} + static_cast<double>(i);
        saved.push_back(state.save());
    }
    for (const char* const topology : {"1x1", "2x1", "1x3", "3x2", "2x4"}) {
        std::vector<double> sums(count, 0.0);
        for (const dsl::RankProgram& program : programs_of("hitopk", topology)) {
            KeptState state(program, DataType::float32);
            load(state, saved);
            const std::uint64_t begin =
                program.extras[0].regions[static_cast<std::size_t>(program.rank)].begin.offset(count);
            for (std::uint64_t i = 0; i < elements_of(program, 0, count); ++i)
                sums[begin + i] += double{reinterpret_cast<const float*>(state.memory(0))[i]};
        }
        INFO(topology);
        CHECK(sums == wanted);
    }
}

namespace {

// The saved states of the ranks of one job; `values` has the value of each rank's state.
std::vector<Bytes> saved_by(const std::vector<dsl::RankProgram>& programs, const std::vector<float>& values) {
    std::vector<Bytes> saved;
    for (const dsl::RankProgram& program : programs) {
        KeptState state(program, DataType::float32);
        state.prepare(3);
        std::fill_n(reinterpret_cast<float*>(state.memory(0)), 3,
                    values[static_cast<std::size_t>(program.rank)]);
        saved.push_back(state.save());
    }
    return saved;
}

// The states of the ranks of another job after they have loaded it.
std::vector<float> loaded_by(const std::vector<dsl::RankProgram>& programs, const std::vector<Bytes>& saved) {
    std::vector<float> values;
    for (const dsl::RankProgram& program : programs) {
        KeptState state(program, DataType::float32);
        load(state, saved);
        const auto* const loaded = reinterpret_cast<const float*>(state.memory(0));
        CHECK(std::all_of(loaded, loaded + 3, [&](float value) { return value == loaded[0]; }));
        values.push_back(loaded[0]);
    }
    return values;
}

}  // namespace

TEST_CASE("what some ranks hold alike is taken once, and is alike again") {
    const TemporarySchedule file(
        "schedule s all_reduce(x) {\n"
        "    all_reduce x over levels[0]\n"
        "    state m like x\n"
        "    m = 0.5 * m + x\n"
        "    x = m\n"
        "    all_reduce x over levels[1]\n"
        "}\n");
    const auto on = [&](const std::string& topology) { return programs_of(file.path(), topology); };
    const auto two_groups = saved_by(on("2x2"), {3, 3, 5, 5});
    using Values = std::vector<float>;
    CHECK(loaded_by(on("2x2"), two_groups) == Values{3, 3, 5, 5});
    CHECK(loaded_by(on("4x1"), two_groups) == Values{8, 8, 8, 8});
    CHECK(loaded_by(on("1x4"), two_groups) == Values{8, 0, 0, 0});
    CHECK(loaded_by(on("2x1"), two_groups) == Values{8, 8});
    CHECK(loaded_by(on("1x2"), two_groups) == Values{8, 0});
    CHECK(loaded_by(on("3x2"), two_groups) == Values{8, 8, 8, 0, 0, 0});
    CHECK(loaded_by(on("1x1"), two_groups) == Values{8});
    CHECK(loaded_by(on("2x2"), saved_by(on("4x1"), {7, 7, 7, 7})) == Values{7, 7, 0, 0});
    CHECK(loaded_by(on("2x2"), saved_by(on("1x4"), {1, 2, 4, 8})) == Values{15, 15, 0, 0});
}

TEST_CASE("a state of another format is refused as such") {
    const auto programs = programs_of("naive_ag", "1");
    auto saved = saved_by(programs, {1});
    saved[0][7] = std::byte{'1'};
    const std::size_t content = saved[0].size() - sizeof(std::uint64_t);
    const std::uint64_t checksum = XXH3_64bits(saved[0].data(), content);
    std::memcpy(saved[0].data() + content, &checksum, sizeof checksum);
    KeptState state(programs[0], DataType::float32);
    CHECK_THROWS_WITH(load(state, saved),
                      Contains("its format is '1', and this version of Hocket reads '2' alone"));
}

TEST_CASE("what a damaged state is for is not believed") {
    const auto programs = programs_of("naive_ag", "1");
    auto saved = saved_by(programs, {1});
    CHECK(KeptState::elements_in(saved[0]) == 3);
    saved[0][8 + 3 * 8] ^= std::byte{1};  // its count
    CHECK_THROWS_WITH(KeptState::elements_in(saved[0]), Contains("its checksum is wrong"));
}

TEST_CASE("starts have their turn in order, and one count until the state is reset") {
    const auto programs = programs_of("naive_ag", "2");
    KeptState state(programs[0], DataType::float32);
    state.prepare(8);
    CHECK_THROWS_WITH(state.prepare(9), Contains("keeps a state for 8 elements and is started with 9"));
    const std::uint64_t first = state.take_turn(), second = state.take_turn();
    CHECK(state.is_turn(first));
    CHECK_FALSE(state.is_turn(second));
    state.end_turn();
    CHECK(state.is_turn(second));
    CHECK(state.is_busy());
    state.end_turn();
    CHECK_FALSE(state.is_busy());
    CHECK(state.starts() == 2);
    state.reset();
    CHECK(state.starts() == 0);
    state.prepare(9);
}
