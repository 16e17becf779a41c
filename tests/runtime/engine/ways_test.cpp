// One schedule can run in many ways: by memory, by messages, by both; the small way and the general one; in
// tiles and whole; compiled and interpreted. All of them combine the same values in the same order, so all
// give the same bits.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>
#include <typeinfo>

#include "dsl/planning/compile.hpp"
#include "runtime/engine/communicator.hpp"
#include "tests/runtime/engine/crowded.hpp"
#include "tests/runtime/engine/extents.hpp"
#include "tests/runtime/engine/programs.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Collective;
using engine::Communicator;
using engine::ExecutorKind;
using engine::PlanChoice;
using test::expect;

namespace {

constexpr int ranks = 4;

#ifdef __SANITIZE_ADDRESS__  // it only checks code that runs
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

struct Way {
    std::string hosts;  // a letter for each rank
    const char* provider;
    const char* expected_provider;
    bool is_fenced = true;           // signals are plain stores (docs/decisions/engine-plain-signals.md)
    const char* between_hosts = "";  // the provider
    const char* encryption = "off";
};

struct Work {
    Collective collective;
    const char* schedule;
    std::uint64_t count;
    dsl::Rank root;
    DataType type;
    ReduceOp op;
};

// The pairs in turn, so that many works have all of them.
std::pair<DataType, ReduceOp> pair_of(std::size_t number) {
    static const auto pairs = [] {
        std::vector<std::pair<DataType, ReduceOp>> pairs;
        for (const ReduceOp op : all_ops)
            for (const DataType type : all_types)
                if (supports(op, type)) pairs.emplace_back(type, op);
        return pairs;
    }();
    return pairs[number % pairs.size()];
}

std::vector<std::pair<DataType, ReduceOp>> multiplying_pairs() {
    std::vector<std::pair<DataType, ReduceOp>> pairs;
    for (const ReduceOp op : all_ops)
        for (const DataType type : all_types)
            if (supports(op, type) && row_of(op).multiplies) pairs.emplace_back(type, op);
    return pairs;
}

// The factor of a rank: a whole number, which every type has.
double factor_of(int rank) {
    return 2 * rank + 3;
}

// Up to 192 bytes go with the signal, up to 16 KiB are copied, 64 KiB and more go in tiles (up to
// 256 KiB in one, if ranks share cores). In tiles an
// element must stay in its chunk, which determines the rank and the order that combine it.
std::vector<Work> all_work() {
    using enum Collective;
    std::vector<Work> work;
    const auto add_pair = [&](Collective collective, const char* schedule, std::uint64_t count,
                              std::pair<DataType, ReduceOp> pair) {
        // Every rank is the root at times.
        const auto root =
            static_cast<dsl::Rank>(contract_of(collective).has_root() ? work.size() % ranks : 0);
        work.push_back({collective, schedule, count, root, pair.first, pair.second});
    };
    const auto add = [&](Collective collective, const char* schedule, std::uint64_t count) {
        add_pair(collective, schedule, count, pair_of(work.size()));
    };
    // A multiplied input takes a path of its own in all of them.
    const auto add_multiplied = [&](Collective collective, const char* schedule, std::uint64_t count) {
        static const auto pairs = multiplying_pairs();
        add_pair(collective, schedule, count, pairs[work.size() % pairs.size()]);
    };
    std::size_t edge = 0;
    for (const auto& [collective, schedules] :
         {std::pair<Collective, std::vector<const char*>>(
              all_reduce, {"", "ring", "direct", "halving", "exchange", "butterfly", "flat(ring, direct)",
                           "blueconnect", "nested", "bml"}),
          {reduce_scatter, {"", "ring", "direct", "halving", "blueconnect"}},
          {all_gather, {"", "ring", "direct", "doubling", "blueconnect"}},
          {broadcast, {"", "binomial", "scatter", "chain(4)", "tree"}},
          {reduce, {"", "binomial", "direct", "tree", "rabenseifner"}},
          {gather, {"", "binomial", "direct", "default"}},
          {scatter, {"", "binomial", "direct", "default"}},
          {all_to_all, {"", "direct", "pairwise", "bruck", "default"}}})
        for (const char* schedule : schedules) {
            // Without the long form, the sizes at edges come by turns.
            constexpr std::uint64_t edges[] = {0, 48, 49};
            for (const std::uint64_t count : {7, 3001}) add(collective, schedule, count);
            for (const std::uint64_t count : edges)
                if (test::is_long_form() || count == edges[edge]) add(collective, schedule, count);
            if (contract_of(collective).combines())
                for (const std::uint64_t count : {7, 3001})
                    if (test::is_long_form() || (count == 7) == (edge == 0))
                        add_multiplied(collective, schedule, count);
            edge = (edge + 1) % std::size(edges);
            // Sums of fractions, which show the order.
            if (contract_of(collective).combines())
                add_pair(collective, schedule, 70'001, {DataType::float64, ReduceOp::sum});
        }
    for (const std::uint64_t count : {65'537, 130'003}) {
        // Without the long form, each has one of the two.
        std::size_t number = count == 65'537 ? 0 : 1;
        const auto is_in_turn = [&] { return number++ % 2 == 0 || test::is_long_form(); };
        for (const auto& [collective, schedule] : {std::pair(all_reduce, "direct"),
                                                   {broadcast, "chain(4)"},
                                                   {all_gather, "ring"},
                                                   {reduce, "direct"},
                                                   {reduce, "binomial"},
                                                   {gather, "binomial"},
                                                   {scatter, "direct"},
                                                   {all_to_all, "pairwise"}})
            if (is_in_turn()) add(collective, schedule, count);
        for (const auto& [collective, schedule] :
             {std::pair(all_reduce, "direct"), {reduce_scatter, "direct"}, {reduce, "binomial"}})
            if (is_in_turn()) add_multiplied(collective, schedule, count);
    }
    return work;
}

// Sums of these are rounded if the type has fractions, so that their order shows.
template <DataType type>
void fill(std::byte* memory, std::uint64_t count, int rank) {
    using Worked = typename ElementOf<type>::Worked;
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto number =
            static_cast<Worked>((i * 2654435761u + static_cast<std::uint64_t>(rank) * 40503u) % 2003);
        const auto value = row_of(type).kind == kind::floating ? number / Worked(7) - Worked(143) : number;
        const auto stored = static_cast<typename ElementOf<type>::Stored>(value);
        std::memcpy(memory + i * sizeof stored, &stored, sizeof stored);
    }
}

// The places of buffers, and the way to ask for completion.
struct Manner {
    bool in_window, in_place, at_once;
    ExecutorKind executor;

    explicit Manner(unsigned number)
        : in_window((number & 1) != 0),
          in_place((number & 2) != 0),
          at_once((number & 4) != 0),
          executor((number & 8) != 0 ? ExecutorKind::interpreter : test::compiled_if_any()) {}
    static constexpr unsigned count = 16;
};

constexpr std::byte unwritten{0x5a};

// The data that a rank sends.
std::vector<std::byte> sent_by(const Work& work, int rank) {
    const test::Extents extents(work.collective, work.root, rank, ranks, work.count);
    std::vector<std::byte> sent(extents.sent * element_size(work.type));
    with_type(work.type,
              [&]<DataType type>(TypeConstant<type>) { fill<type>(sent.data(), extents.sent, rank); });
    return sent;
}

std::vector<std::byte> run(Communicator& comm, const Work& work, const std::vector<std::byte>& sent,
                           const Manner& manner) {
    const PlanChoice choice{.collective = work.collective,
                            .type = work.type,
                            .op = work.op,
                            .root = work.root,
                            .schedule = work.schedule,
                            .executor = manner.executor};
    const auto plan = comm.plans().cached_plan(choice, work.count);
    const test::Extents extents(work.collective, work.root, comm.rank(), ranks, work.count);
    const std::uint64_t element = element_size(work.type), whole = extents.whole * element;
    const bool in_window = manner.in_window && whole > 0;
    std::vector<std::byte> memory(2 * whole);
    std::byte* const block =
        in_window ? static_cast<std::byte*>(comm.connections().window().allocate(2 * whole)) : memory.data();
    std::byte* const send = block + (manner.in_place ? extents.send_begin * element : 0);
    std::byte* const recv = block + (manner.in_place ? extents.recv_begin * element : whole);
    const std::uint64_t received = extents.received * element;
    if (whole > 0) std::memset(block, static_cast<int>(unwritten), 2 * whole);
    std::copy(sent.begin(), sent.end(), send);
    if (manner.at_once)
        comm.run(plan, send, recv, work.count, factor_of(comm.rank()));
    else
        comm.progress().wait(comm.start(plan, send, recv, work.count, factor_of(comm.rank())));
    std::vector<std::byte> result(recv, recv + received);
    const std::byte *const beside = recv + received, *const end = block + 2 * whole;
    // Each byte is as the one before it, and the first is unwritten.
    expect(manner.in_place || beside == end ||
               (*beside == unwritten &&
                std::memcmp(beside, beside + 1, static_cast<std::size_t>(end - beside - 1)) == 0),
           "something was written beside the result");
    expect(
        (manner.in_place && received > 0) || sent.empty() || std::memcmp(sent.data(), send, sent.size()) == 0,
        "the send buffer was written to");
    if (in_window) comm.connections().window().release(block);
    return result;
}

// Checks that collectives that only move data deliver it unchanged. (communicator_test compares combined data
// with sums.)
void expect_right(const Work& work, int rank, const std::vector<std::byte>& result) {
    if (contract_of(work.collective).combines()) return;
    const test::Extents extents(work.collective, work.root, rank, ranks, work.count);
    const std::uint64_t element = element_size(work.type);
    for (std::uint64_t i = 0; i < extents.received; ++i) {
        const std::uint64_t place = extents.recv_begin + i;
        const dsl::Rank sender = test::sender_of(work.collective, work.root, work.count, place);
        static thread_local std::pair<dsl::Rank, std::vector<std::byte>> sent;
        if (i == 0 || sent.first != sender) sent = {sender, sent_by(work, sender)};
        const std::uint64_t at = test::place_at_sender(work.collective, rank, work.count, place);
        expect(std::memcmp(&result[i * element], &sent.second[at * element], element) == 0, [&] {
            return fmt::format("{} of {} {} by '{}': element {} is wrong", dsl::name_of(work.collective),
                               work.count, name_of(work.type), work.schedule, i);
        });
    }
}

bool refuse_membarrier() {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog filter{sizeof program / sizeof *program, program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// The topology is given, so that all ways have the same schedules.
std::unique_ptr<Communicator> join(const Way& way, int rank) {
    setenv("HOCKET_HOST_ID", way.hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
    if (!way.is_fenced && rank == 1)
        expect(refuse_membarrier() && !engine::LocalPeers::can_fence_others(), "membarrier is not refused");
    auto comm = Communicator::create(engine::resolve({}));
    expect(comm->connections().provider().starts_with(way.expected_provider),
           "another way was taken: " + comm->connections().provider());
    return comm;
}

}  // namespace

TEST_CASE("every way of running a schedule gives the same bits") {
    const std::vector<Work> all = all_work();
    std::uint64_t bytes = 0;
    for (const Work& work : all) bytes += ranks * work.count * element_size(work.type);
    auto* reference = static_cast<std::byte*>(test::shared_memory(ranks * bytes));
    std::size_t way_number = 0;
    for (const Way& way : {Way{"aaaa", "tcp", "tcp"},
                           {"aaaa", "", "memory"},
                           {"aaaa", "", "memory", false},
                           {"aaaa", "", "memory", true, "ofi+tcp"},
                           {"aabb", "", "memory, tcp"},
                           {"aabb", "", "memory, tcp;ofi_rxm", true, "ofi+tcp"},
                           {"abab", "", "memory, tcp"},
                           {"abbb", "", ""},  // rank 0 is alone
                           {"abcd", "", "tcp"},
                           {"aabb", "", "memory, encrypted tcp", true, "", "on"},
                           {"abcd", "", "encrypted tcp", true, "", "on"}}) {
        const bool is_first = way_number++ == 0;
        const auto outcomes = test::run_ranks(
            {ranks,
             {{"HOCKET_TOPOLOGY", "2x2"},
              {"HOCKET_PROVIDER_FOR_ALL", way.provider},
              {"HOCKET_PROVIDER", way.between_hosts},
              {"HOCKET_ENCRYPTION", way.encryption},
              {"HOCKET_TIMEOUT_MS", "30000"}},
             120},
            [&](int rank) {
                const auto comm = join(way, rank);
                test::use_up_extents(comm->connections().window(), static_cast<unsigned>(rank) % 3);
                std::byte* next = reference + static_cast<std::uint64_t>(rank) * bytes;
                for (std::size_t i = 0; i < all.size(); ++i) {
                    const Work& work = all[i];
                    std::byte* const expected = next;
                    next += ranks * work.count * element_size(work.type);
                    const bool is_in_turn = (i + way_number) % test::in_long_form(1, 7) == 0;
                    if (!is_first && !is_in_turn) continue;
                    const std::vector<std::byte> sent = sent_by(work, rank);
                    // The first way runs also those that are not in turn, but once, without compiling them.
                    const unsigned begin = is_in_turn ? 0 : Manner::count - 1;
                    // Every third manner covers each side of each choice.
                    const unsigned step =
                        work.count > 65'536 || is_sanitized ? 3 : test::in_long_form(1u, 3u);
                    for (unsigned number = begin; number < Manner::count; number += step) {
                        const std::vector<std::byte> result = run(*comm, work, sent, Manner(number));
                        if (is_first && number == begin) {
                            expect_right(work, rank, result);
                            std::copy(result.begin(), result.end(), expected);
                        }
                        expect(result.empty() || std::memcmp(result.data(), expected, result.size()) == 0,
                               [&] {
                                   return fmt::format("{} of {} {} {} by '{}' differs, manner {}",
                                                      dsl::name_of(work.collective), work.count,
                                                      name_of(work.type), name_of(work.op), work.schedule,
                                                      number);
                               });
                    }
                }
            });
        INFO("hosts " << way.hosts << ", provider " << way.provider << ", fenced " << way.is_fenced
                      << ", encryption " << way.encryption);
        REQUIRE(test::problems(outcomes) == "");
    }
}

TEST_CASE("a plan that is kept is the one that would be made for the choice, whatever was asked for before") {
    const auto outcomes = test::run_ranks({3, {}, 120}, [](int rank) {
        setenv("HOCKET_HOST_ID", rank == 2 ? "b" : "a", 1);
        const auto comm = Communicator::create(engine::resolve({}));
        struct Fresh {
            std::string program;
            std::uint64_t fingerprint;
        };
        std::map<std::tuple<Collective, std::string, dsl::Rank, std::uint64_t>, Fresh> fresh;
        const auto check = [&](const PlanChoice& choice, std::uint64_t count) {
            const auto plan = comm->plans().cached_plan(choice, count);
            const bool by_rank = contract_of(choice.collective).is_by_rank();
            dsl::PlanRequest request{choice.collective,
                                     choice.schedule.value_or(""),
                                     comm->options().topology,
                                     {HOCKET_SCHEDULES_DIR},
                                     3,
                                     choice.root};
            request.hosts = {0, 0, 1};
            request.bytes = std::bit_ceil(count * element_size(choice.type) * (by_rank ? 3 : 1));
            request.protocol =
                rank != 2 && request.bytes <= 16 * 1024 ? dsl::Protocol::latency : dsl::Protocol::bandwidth;
            const auto [known, is_new] =
                fresh.try_emplace({request.collective, request.schedule, request.root, request.bytes});
            if (is_new) {
                const auto schedule = dsl::check_schedule(request);
                known->second = {explain(schedule->project(rank)), schedule->fingerprint()};
            }
            const std::string what = fmt::format(
                "{} of {} {} {} from {} by '{}'", dsl::name_of(choice.collective), count,
                name_of(choice.type), choice.op.name(), choice.root, choice.schedule.value_or("-"));
            expect(explain(plan->program()) == known->second.program, what + ": another program");
            expect(plan->program().fingerprint == known->second.fingerprint, what + ": another fingerprint");
            expect(plan->program().protocol == request.protocol, what + ": another protocol");
            expect(plan->type() == choice.type && plan->op() == choice.op,
                   what + ": another type or operator");
            const auto executor =
                engine::Executor::create(choice.executor, plan->program(), choice.type, choice.op);
            const engine::Executor &actual = plan->executor(), &expected = *executor;
            expect(typeid(actual) == typeid(expected), what + ": another executor");
        };
        for (int round = 0; round < 2; ++round)
            for (const std::uint64_t count : {7, 300'000}) {
                std::size_t next = 0;  // pair: the same for all counts, so that choices differ in one thing
                for (const Collective collective : dsl::all_collectives) {
                    const auto one = pair_of(next++), other = pair_of(next++);
                    for (const auto& [pair, executor] : {std::pair(one, test::compiled_if_any()),
                                                         {one, ExecutorKind::interpreter},
                                                         {other, ExecutorKind::interpreter}})
                        for (const int root : {0, contract_of(collective).has_root() ? 2 : 0})
                            for (const auto& schedule : {std::optional<std::string>(), {"direct"}})
                                check({collective, pair.first, pair.second, root, schedule, executor}, count);
                }
            }
    });
    CHECK(test::problems(outcomes) == "");
}
