// Random schedules above the size of a tile: the same bits in every memory, provider, host layout, tile,
// executor and thread mode, while buffers become shared by use, and whatever libfabric demands. Each rank
// places its buffers at random. HOCKET_SAME_BITS_SEEDS = "first:last" runs other schedules.
#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>

#include "runtime/engine/communicator.hpp"
#include "runtime/transport/window/shared_by_use.hpp"
#include "tests/runtime/engine/extents.hpp"
#include "tests/runtime/engine/programs.hpp"
#include "tests/runtime/engine/random_schedules.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/once_for_children.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Collective;
using engine::Communicator;
using engine::ExecutorKind;
using test::expect;

namespace {

constexpr int most_ranks = 6;

// By the number of ranks: see tests/support/demanding_fabric.
constexpr const char* demands_of_libfabric[] = {
    "", "local,virt_addr,allocated,prov_key,late=9", "rma,card,local,endpoint,segments=2,late=9",
    "no_data,local,again=5", "rma,rx_cq_data,card,local,segments=1,again=3,late=30"};

// A schedule, and the operation that runs with it.
struct Work : test::RandomSchedule {
    DataType type;
    std::uint64_t count;
};

// The connections between ranks, and the threads that move operations.
struct Way {
    std::string hosts;     // a letter for each rank
    std::string provider;  // for all messages
    std::string movers;    // of each rank: 't', a progress thread; 'c', its calls
    std::string paths;     // to local peers, of each rank: 'c', through the cache; 'm', past it
    std::string shares =
        "";  // of each rank: 's', private buffers become shared by use; 'p', or "": they do not
    std::string between_hosts = "";  // the provider; "card": a network card, where there is one, else tcp
    // Of each rank: 'k', peers copy its private buffers by the kernel; 'm', if that is faster;
    // 't', or "": never.
    std::string single_copies = "";

    bool uses_again() const { return !shares.empty(); }  // private buffers, often enough
    std::string text() const {
        return fmt::format(
            "hosts {}, provider '{}' ('{}' between hosts), moved by {}, handed over by {}, shared by use: "
            "{}, "
            "copied once: {}",
            hosts, provider, between_hosts, movers, paths, shares, single_copies);
    }
};

// Types whose sums show their order, and whole numbers.
Work work_of(const test::RandomSchedule& schedule) {
    std::mt19937_64 random(schedule.seed);
    constexpr DataType types[] = {DataType::float32, DataType::float64,  DataType::int32,
                                  DataType::float16, DataType::bfloat16, DataType::int8};
    const DataType type = types[random() % std::size(types)];
    // Some are one tile between hosts, some several; inside a host all are several: of up to 256 KiB if ranks
    // share cores.
    const std::uint64_t bytes = 300'000 + random() % 1'000'000;
    const std::uint64_t pieces =
        contract_of(schedule.collective).is_by_rank() ? static_cast<std::uint64_t>(schedule.ranks) : 1;
    return {schedule, type, bytes / pieces / element_size(type)};
}

// All ranks on one host come first: the others must give the same result.
std::vector<Way> ways_of(const Work& work) {
    const auto ranks = static_cast<std::size_t>(work.ranks);
    std::mt19937_64 random(work.seed);
    const auto drawn = [&](char one, char other) {
        std::string letters(ranks, one);
        for (char& letter : letters) letter = random() % 2 == 0 ? one : other;
        return letters;
    };
    const std::string together(ranks, 'a'), calls(ranks, 'c');
    std::string mixed = together, apart = together;
    while (mixed == std::string(ranks, mixed[0])) mixed = drawn('a', 'b');
    for (std::size_t rank = 0; rank < ranks; ++rank) apart[rank] = static_cast<char>('a' + rank);
    std::vector<Way> ways{{together, "", calls, calls},
                          {mixed, "", drawn('c', 't'), drawn('c', 'm'), "", "card"}};
    switch (random() % 4) {
        case 0:
            ways.push_back({together, "tcp", drawn('c', 't'), calls});
            break;
        case 1:
            ways.push_back({apart, "ofi+tcp", drawn('c', 't'), calls});
            break;
        case 2:
            ways.push_back({mixed, "", calls, drawn('c', 'm'), "", "ofi+tcp"});
            break;
        default:
            ways.push_back({apart, "", drawn('c', 't'), calls, "", random() % 2 == 0 ? "card" : "tcp"});
    }
    ways.push_back({together, "", drawn('c', 't'), drawn('c', 'm')});
    ways.push_back({together, "", calls, std::string(ranks, 'm')});
    ways.push_back({together, "", drawn('c', 't'), drawn('c', 'm'), std::string(ranks, 's')});
    ways.push_back({random() % 2 == 0 ? mixed : together, "", calls, calls, drawn('s', 'p')});
    ways.push_back({together, "", drawn('c', 't'), drawn('c', 'm'), "", "", std::string(ranks, 'k')});
    ways.push_back({together, "", calls, calls, drawn('s', 'p'), "",
                    random() % 2 == 0 ? std::string(ranks, 'k') : drawn('k', 't')});
    return ways;
}

template <DataType type>
void fill(std::byte* memory, std::uint64_t count, std::uint64_t seed) {
    using Element = ElementOf<type>;
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto number = static_cast<double>(random() % 2000);
        const auto worked = static_cast<typename Element::Worked>(
            row_of(type).kind == kind::floating ? number / 7 - 143 : static_cast<double>(random() % 20));
        const auto stored = static_cast<typename Element::Stored>(worked);
        std::memcpy(memory + i * sizeof stored, &stored, sizeof stored);
    }
}

std::vector<std::byte> input_of(const Work& work, int rank) {
    const test::Extents extents(work.collective, work.root, rank, work.ranks, work.count);
    std::vector<std::byte> sent(extents.sent * element_size(work.type));
    with_type(work.type, [&]<DataType type>(TypeConstant<type>) {
        fill<type>(sent.data(), extents.sent, work.seed * 100 + static_cast<std::uint64_t>(rank));
    });
    return sent;
}

enum class Places : std::uint8_t { shared, mixed, private_alone };

int shared_by_use = 0;                                // buffers of this rank that were found to be
std::atomic<std::uint64_t>* single_copies = nullptr;  // of all ranks

// Runs a start in a random way, on buffers in the window or in `memory`.
std::vector<std::byte> run(Communicator& comm, const Work& work, const std::vector<std::byte>& sent,
                           std::mt19937_64& random, Places places, std::vector<std::byte>& memory) {
    const ExecutorKind executor = random() % 2 == 0 ? ExecutorKind::interpreter : test::compiled_if_any();
    const auto plan = comm.plans().cached_plan({.collective = work.collective,
                                                .type = work.type,
                                                .op = ReduceOp::sum,
                                                .root = work.root,
                                                .schedule = work.schedule,
                                                .executor = executor},
                                               work.count);
    const test::Extents extents(work.collective, work.root, comm.rank(), work.ranks, work.count);
    const std::uint64_t element = element_size(work.type), whole = extents.whole * element;
    memory.resize(2 * whole);
    const bool in_place = random() % 3 == 0, at_once = random() % 2 == 0;
    const auto is_shared = [&] {
        return places == Places::shared || (places == Places::mixed && random() % 2 == 0);
    };
    const bool shares_send = is_shared(), shares_recv = is_shared();
    auto* const shared = static_cast<std::byte*>(comm.connections().window().allocate(2 * whole));
    std::byte* const input = (in_place ? shares_recv : shares_send) ? shared : memory.data();
    std::byte* const output = in_place ? input : (shares_recv ? shared : memory.data()) + whole;
    std::byte* const send = input + (in_place ? extents.send_begin * element : 0);
    std::byte* const recv = output + (in_place ? extents.recv_begin * element : 0);
    std::copy(sent.begin(), sent.end(), send);
    if (at_once)
        comm.run(plan, send, recv, work.count, 1);
    else
        comm.progress().wait(comm.start(plan, send, recv, work.count, 1));
    std::vector<std::byte> result(recv, recv + extents.received * element);
    comm.connections().window().release(shared);
    if (const engine::LocalPeers* peers = comm.connections().local_peers())
        *single_copies += peers->peer_memory().copies();
    if (!shares_recv && comm.connections().window().lists(recv, result.size())) ++shared_by_use;
    return result;
}

// Checks sums of whole numbers, which do not depend on the order, and data that are only moved.
void expect_right(const Work& work, int rank, const std::vector<std::byte>& result) {
    const bool combines = contract_of(work.collective).combines();
    if (combines && row_of(work.type).kind == kind::floating) return;
    const test::Extents own(work.collective, work.root, rank, work.ranks, work.count);
    const std::uint64_t element = element_size(work.type);
    std::vector<std::vector<std::byte>> inputs;
    for (int other = 0; other < work.ranks; ++other) inputs.push_back(input_of(work, other));
    const auto fail = [&](std::uint64_t i) {
        return fmt::format("{} of seed {}: element {} is wrong", dsl::name_of(work.collective), work.seed, i);
    };
    for (std::uint64_t i = 0; i < own.received; ++i) {
        const std::uint64_t place = own.recv_begin + i;
        if (!combines) {
            const auto sender =
                static_cast<std::size_t>(test::sender_of(work.collective, work.root, work.count, place));
            const std::uint64_t at = test::place_at_sender(work.collective, rank, work.count, place);
            expect(std::memcmp(&result[i * element], &inputs[sender][at * element], element) == 0,
                   [&] { return fail(i); });
            continue;
        }
        with_type(work.type, [&]<DataType type>(TypeConstant<type>) {
            typename ElementOf<type>::Stored stored{};
            typename ElementOf<type>::Worked sum{};
            for (const auto& input : inputs) {
                std::memcpy(&stored, &input[place * sizeof stored], sizeof stored);
                sum += static_cast<decltype(sum)>(stored);
            }
            std::memcpy(&stored, &result[i * sizeof stored], sizeof stored);
            expect(static_cast<decltype(sum)>(stored) == sum, [&] { return fail(i); });
        });
    }
}

std::unique_ptr<Communicator> join(const Work& work, const Way& way, int rank) {
    setenv("HOCKET_HOST_ID", way.hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
    setenv("HOCKET_TOPOLOGY", work.topology.c_str(), 1);
    setenv("HOCKET_PROVIDER_FOR_ALL", way.provider.c_str(), 1);
    setenv("HOCKET_PROVIDER", way.between_hosts.c_str(), 1);
    setenv("HOCKET_PROGRESS", way.movers[static_cast<std::size_t>(rank)] == 't' ? "thread" : "calls", 1);
    const bool shares = way.uses_again() && way.shares[static_cast<std::size_t>(rank)] == 's';
    setenv("HOCKET_SHARE_BUFFERS", shares ? "on" : "off", 1);
    setenv("HOCKET_HAND_OVER", way.paths[static_cast<std::size_t>(rank)] == 'm' ? "memory" : "cache", 1);
    const char single_copy =
        way.single_copies.empty() ? 't' : way.single_copies[static_cast<std::size_t>(rank)];
    if (single_copy == 'm')
        unsetenv("HOCKET_SINGLE_COPY");
    else
        setenv("HOCKET_SINGLE_COPY", single_copy == 'k' ? "on" : "off", 1);
    return Communicator::create(engine::resolve({}));
}

void compare(const Work& work, int rank) {
    const std::vector<std::byte> sent = input_of(work, rank);
    std::vector<std::byte> expected, memory;
    bool is_first = true;
    std::uint64_t number = work.seed;
    for (const Way& way : ways_of(work)) {
        // Usually, a schedule has every other way.
        if (number++ % test::in_long_form(1u, 2u) != 0 && !is_first) continue;
        const auto comm = join(work, way, rank);
        // All ranks take the same number of starts; everything else may differ.
        std::mt19937_64 random(work.seed * 1000 + static_cast<std::uint64_t>(rank));
        for (int start = 0; start < (way.uses_again() ? 8 : is_first ? 4 : 3); ++start) {
            const Places places = start == 0         ? Places::shared
                                  : way.uses_again() ? Places::private_alone
                                                     : Places::mixed;
            const std::vector<std::byte> result = run(*comm, work, sent, random, places, memory);
            if (is_first && start == 0) {
                expected = result;
                expect_right(work, rank, result);
            }
            expect(result.size() == expected.size() &&
                       (result.empty() || std::memcmp(result.data(), expected.data(), result.size()) == 0),
                   [&] {
                       std::size_t at = 0;
                       while (result[at] == expected[at]) ++at;
                       return fmt::format("{} of {} {} by {} on {}: other bits at element {}; {}, start {}",
                                          dsl::name_of(work.collective), work.count, name_of(work.type),
                                          work.schedule, work.topology, at / element_size(work.type),
                                          way.text(), start);
                   });
        }
        is_first = false;
    }
}

}  // namespace

TEST_CASE("random schedules give the same bits, whatever they run on") {
    const test::TemporaryFolder folder;
    // Usually, a few that have each number of ranks.
    const test::Seeds seeds = test::seeds_from("HOCKET_SAME_BITS_SEEDS",
                                               {test::in_long_form(1u, 12u), test::in_long_form(40u, 20u)});
    std::size_t compared = 0;
    test::load_libfabric_for_children();
    single_copies = static_cast<std::atomic<std::uint64_t>*>(test::shared_memory(sizeof *single_copies));
    for (const auto& [ranks, all] : test::random_schedules(folder.path(), seeds, most_ranks)) {
        const auto outcomes = test::run_ranks(
            {ranks,
             {{"HOCKET_TIMEOUT_MS", "30000"},
              {"HOCKET_LIBFABRIC", HOCKET_DEMANDING_LIBFABRIC},
              {"HOCKET_DEMANDS",
               demands_of_libfabric[static_cast<std::size_t>(ranks) % std::size(demands_of_libfabric)]}},
             static_cast<int>(60 + all.size() * 3)},
            [&](int rank) {
                for (const test::RandomSchedule& schedule : all) compare(work_of(schedule), rank);
                const bool can_share = transport::obstacle_to_sharing_by_use().empty();
                expect(shared_by_use > 0 || !can_share || all.size() < 4, "some buffers to be shared by use");
            });
        INFO(ranks << " ranks");
        CHECK(test::problems(outcomes) == "");
        compared += all.size();
    }
    WARN(compared << " schedules compared");
    CHECK(*single_copies > 0);
    CHECK(4 * compared >= seeds.last - seeds.first);  // the others are refused, or have too many ranks
}
