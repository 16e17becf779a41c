// Saved states that are damaged behind their checksum. Entry of libFuzzer (clang++ -fsanitize=fuzzer,address
// with the project's libraries); the unit tests call it with seeded bytes.
#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/program/kept_state.hpp"
#include "tests/dsl/cases.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/fuzz_input.hpp"

using namespace hocket;
using namespace hocket::test;
using compute::KeptState;

extern int loaded_states, refused_states;
int loaded_states = 0, refused_states = 0;

namespace {

using Bytes = std::vector<std::byte>;

// One schedule's programs, and the states that their ranks saved after a start.
struct Job {
    std::vector<dsl::RankProgram> programs;
    std::vector<Bytes> saved;
};

Job job_of(const std::string& schedule, const std::string& topology, std::uint64_t count) {
    Job job;
    const auto checked = dsl::check_schedule(request(dsl::Collective::all_reduce, schedule, topology));
    for (dsl::Rank rank = 0; rank < checked->graph().ranks; ++rank) {
        job.programs.push_back(checked->project(rank));
        KeptState state(job.programs.back(), DataType::float32);
        state.prepare(count);
        job.saved.push_back(state.save());
    }
    return job;
}

const std::vector<Job>& jobs() {
    static const TemporarySchedule by_groups(
        "schedule s all_reduce(x) {\n"
        "    all_reduce x over levels[0]\n"
        "    state m like x\n"
        "    m = 0.5 * m + x\n"
        "    x = m\n"
        "    all_reduce x over levels[1]\n"
        "}\n");
    static const std::vector<Job> all = {
        job_of("hitopk", "2x2", 10),         job_of("dgc", "3", 7),
        job_of("naive_ag", "1", 5),          job_of("lamb", "2", 3),
        job_of(by_groups.path(), "2x2", 10), job_of(by_groups.path(), "1x3", 10)};
    return all;
}

// Numbers that break things, where the eight bytes of a number may lie: behind a name that is anywhere.
void damage(Bytes& bytes, FuzzInput& input) {
    static const std::uint64_t numbers[] = {
        0, 1, 2, ~0ull, ~0ull / 2, 1ull << 63, 1 << 24, 1ull << 62, 1ull << 61, 0x40000000, 4096, 4097};
    for (std::size_t i = 1 + input.below(3); i-- > 0 && !bytes.empty();) {
        const std::size_t at = input.below(bytes.size());
        switch (input.below(5)) {
            case 0:
                bytes[at] = std::byte{input.byte()};
                break;
            case 1:
                bytes.resize(at);
                break;
            case 2:
                bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), input.below(20),
                             std::byte{input.byte()});
                break;
            default: {
                const std::size_t word = input.below(2) == 0 ? at / 8 * 8 : at;
                const std::uint64_t number =
                    numbers[input.below(std::size(numbers))] + input.below(3) - input.below(3);
                if (word + 8 <= bytes.size()) std::memcpy(bytes.data() + word, &number, sizeof number);
            }
        }
    }
}

// The checksum is at the end, of everything before it.
void correct_checksum(Bytes& bytes) {
    std::uint64_t checksum;
    if (bytes.size() < sizeof checksum) return;
    const std::size_t content = bytes.size() - sizeof checksum;
    checksum = XXH3_64bits(bytes.data(), content);
    std::memcpy(bytes.data() + content, &checksum, sizeof checksum);
}

// Copies into memory of the exact size, so that a sanitizer sees reads behind it.
std::unique_ptr<std::byte[]> exact(const Bytes& bytes) {
    auto memory = std::make_unique<std::byte[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), memory.get());
    return memory;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzInput input(data, size);
    const Job &from = jobs()[input.below(jobs().size())], &to = jobs()[input.below(jobs().size())];
    std::vector<Bytes> given = (input.below(4) == 0 ? from : to).saved;
    for (std::size_t i = input.below(3); i-- > 0;) {
        Bytes& one = given[input.below(given.size())];
        damage(one, input);
        correct_checksum(one);
    }
    if (input.below(8) == 0) given.resize(input.below(given.size() + 2), given[0]);
    std::vector<std::unique_ptr<std::byte[]>> memory;
    std::vector<std::span<const std::byte>> spans;
    for (const Bytes& bytes : given) {
        memory.push_back(exact(bytes));
        spans.emplace_back(memory.back().get(), bytes.size());
    }
    KeptState state(to.programs[input.below(to.programs.size())], DataType::float32);
    const std::uint64_t own_count = input.below(20);
    state.prepare(own_count);
    try {
        // As hkt_plan_load_state: a state that is for more than there is memory for is refused before.
        for (const auto& one : spans)
            if (KeptState::elements_in(one) > 1 << 20) return 0;
        state.load(spans);
        ++loaded_states;
        require(!state.save().empty());
    } catch (const Error&) {
        ++refused_states;
        state.check_count(own_count);  // it is as it was
    }
    return 0;
}
