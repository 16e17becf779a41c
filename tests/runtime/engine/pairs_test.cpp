// all_to_all with a count for each pair of ranks, which only the two know.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>

#include "runtime/engine/communicator.hpp"
#include "tests/runtime/engine/crowded.hpp"
#include "tests/runtime/engine/programs.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Contains;
using dsl::Collective;
using engine::Communicator;
using engine::ExecutorKind;
using engine::Extent;
using engine::PlanChoice;
using test::expect;
using test::run_ranks;

namespace {

using Counts = std::vector<std::uint64_t>;
using Random = std::mt19937;

std::uint64_t below(Random& random, std::uint64_t limit) {
    return random() % limit;
}

// The number of elements that each rank has for each other: matrix[from][to].
using Matrix = std::vector<Counts>;

enum class Kind { empty, tiny, some, large, one_row, last };

std::uint64_t count_of(Kind kind, Random& random, std::uint64_t element, std::size_t from) {
    switch (kind) {
        case Kind::empty:
            return 0;
        case Kind::tiny:
            return below(random, 3);
        case Kind::some:
            return below(random, 2) * below(random, 3000);
        case Kind::large:
            return below(random, 4) == 0 ? below(random, 150'000 / element) : below(random, 2);
        case Kind::one_row:
            return from == 0 ? below(random, 5000) : 0;
        case Kind::last:
            break;
    }
    return 0;
}

// symmetric: both ranks of a pair have as much for each other.
Matrix matrix_of(Kind kind, bool symmetric, int ranks, std::uint64_t element, Random& random) {
    const auto n = static_cast<std::size_t>(ranks);
    Matrix matrix(n, Counts(n));
    for (std::size_t from = 0; from < n; ++from)
        for (std::size_t to = 0; to < n; ++to)
            matrix[from][to] =
                symmetric && to < from ? matrix[to][from] : count_of(kind, random, element, from);
    return matrix;
}

Counts column(const Matrix& matrix, int to) {
    Counts counts;
    for (const Counts& row : matrix) counts.push_back(row[static_cast<std::size_t>(to)]);
    return counts;
}

// Random positions, in any order, with room between the pieces.
Counts scattered(const Counts& counts, Random& random) {
    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    Counts begins(counts.size());
    std::uint64_t next = 0;
    for (const std::size_t piece : order) {
        begins[piece] = next += below(random, 6);
        next += counts[piece];
    }
    return begins;
}

// Writes the data that one rank has for another.
void write_values(int salt, int from, int to, std::byte* memory, std::uint64_t bytes) {
    const auto first = static_cast<unsigned>(31 * from + 7 * to + 13 * salt);
    for (std::uint64_t i = 0; i < bytes; ++i)
        memory[i] = static_cast<std::byte>((i * 2654435761u >> 7) + first);
}

constexpr std::byte untouched{0xa7};

struct Manner {
    bool in_window, in_place, displaced;
    ExecutorKind executor;

    explicit Manner(unsigned number)
        : in_window((number & 1) != 0),
          in_place((number & 2) != 0),
          displaced((number & 4) != 0),
          executor((number & 8) != 0 ? ExecutorKind::interpreter : test::compiled_if_any()) {}
    static constexpr unsigned count = 16;
};

// One rank's part of an exchange, with its buffers.
class Exchange {
  public:
    // random: not the generator that drew the matrix, because each rank places its pieces independently.
    Exchange(Communicator& comm, const Matrix& matrix, DataType type, const Manner& manner, int salt,
             Random& random)
        : comm_(comm), manner_(manner), salt_(salt), type_(type), element_(element_size(type)) {
        sent_ = matrix[static_cast<std::size_t>(comm.rank())];
        received_ = column(matrix, comm.rank());
        if (manner.displaced) {
            sent_at_ = scattered(sent_, random);
            received_at_ = manner.in_place ? sent_at_ : scattered(received_, random);
        }
        layout_ = Layout({sent_, sent_at_}, {received_, received_at_});
        bytes_[0] = (layout_.sent().span + 3) * element_;
        bytes_[1] = (layout_.received().span + 3) * element_;
        own_.assign(bytes_[0] + bytes_[1], untouched);
        block_ = own_.data();
        if (manner.in_window) {
            block_ = static_cast<std::byte*>(comm.connections().window().allocate(own_.size()));
            std::fill_n(block_, own_.size(), untouched);
        }
        for (int rank = 0; rank < comm.size(); ++rank)
            write_values(salt, comm.rank(), rank, send() + layout_.place_sent_to(rank) * element_,
                         layout_.sent_to(rank) * element_);
        before_.assign(send(), send() + bytes_[0]);
    }
    ~Exchange() {
        if (manner_.in_window) comm_.connections().window().release(block_);
    }
    Exchange(const Exchange&) = delete;

    void run(const PlanChoice& choice) { comm_.run(plan(choice), send(), recv(), Extent(layout_)); }
    void start(const PlanChoice& choice) {
        execution_ = &comm_.start(plan(choice), send(), recv(), Extent(layout_));
    }
    void wait() { comm_.progress().wait(*execution_); }

    void check(const std::string& what) {
        std::vector<std::byte> expected(bytes_[1], untouched);
        for (int rank = 0; rank < comm_.size(); ++rank)
            write_values(salt_, rank, comm_.rank(),
                         expected.data() + layout_.place_received_from(rank) * element_,
                         layout_.received_from(rank) * element_);
        expect(std::memcmp(expected.data(), recv(), expected.size()) == 0, what + ": the result is wrong");
        expect(manner_.in_place || std::memcmp(before_.data(), send(), before_.size()) == 0,
               what + ": the input was written to");
    }

  private:
    std::byte* send() { return block_; }
    std::byte* recv() { return manner_.in_place ? block_ : block_ + bytes_[0]; }
    const std::shared_ptr<engine::StartablePlan>& plan(PlanChoice choice) {
        choice.collective = Collective::all_to_all;
        choice.type = type_;
        choice.executor = manner_.executor;
        choice.is_uneven = true;
        return comm_.plans().cached_plan(choice, layout_);
    }

    Communicator& comm_;
    Manner manner_;
    int salt_;
    DataType type_;
    std::uint64_t element_, bytes_[2]{};
    Counts sent_, received_, sent_at_, received_at_;
    Layout layout_{0};
    std::vector<std::byte> own_, before_;
    std::byte* block_ = nullptr;
    engine::Execution* execution_ = nullptr;
};

constexpr DataType types[] = {DataType::uint8, DataType::int16, DataType::float32, DataType::int64};

// All ranks draw the same, except the places of their pieces.
void check_all(Communicator& comm, unsigned seed, const std::vector<std::string>& schedules) {
    Random random(seed), own(seed + 1000 * static_cast<unsigned>(comm.rank() + 1));
    int salt = 0;
    for (const std::string& schedule : schedules)
        for (int kind = 0; kind < static_cast<int>(Kind::last); ++kind)
            // Every third manner covers each side of each choice.
            for (unsigned number = 0; number < Manner::count; number += test::in_long_form(1u, 3u)) {
                const Manner manner(number);
                const DataType type = types[below(random, std::size(types))];
                const Matrix matrix = matrix_of(static_cast<Kind>(kind), manner.in_place, comm.size(),
                                                element_size(type), random);
                Exchange exchange(comm, matrix, type, manner, ++salt, own);
                exchange.run({.schedule = schedule});
                exchange.check(
                    fmt::format("{} by '{}', matrix {}, manner {}", name_of(type), schedule, kind, number));
            }
}

void check_in_flight(Communicator& comm, unsigned seed) {
    Random random(seed), own(seed + 1000 * static_cast<unsigned>(comm.rank() + 1));
    for (int round = 0; round < 3; ++round) {
        std::vector<std::unique_ptr<Exchange>> exchanges;
        for (int i = 0; i < 12; ++i) {
            const Manner manner(static_cast<unsigned>(below(random, Manner::count)));
            const auto kind = static_cast<Kind>(below(random, static_cast<std::uint64_t>(Kind::last)));
            const Matrix matrix = matrix_of(kind, manner.in_place, comm.size(), 4, random);
            exchanges.push_back(
                std::make_unique<Exchange>(comm, matrix, DataType::float32, manner, 100 * round + i, own));
        }
        for (const auto& exchange : exchanges) exchange->start({.schedule = round == 0 ? "pairwise" : ""});
        for (std::size_t i = exchanges.size(); i-- > 0;) exchanges[i]->wait();
        for (const auto& exchange : exchanges) exchange->check(fmt::format("in flight, round {}", round));
    }
}

struct Way {
    std::string hosts;  // a letter for each rank
    const char* provider;
};

// Runs body(rank, comm) on all ranks; returns "" or the error.
template <typename Body>
std::string on(const Way& way, Body body, const std::string& timeout_ms = "30000") {
    const auto outcomes =
        run_ranks({static_cast<int>(way.hosts.size()),
                   {{"HOCKET_PROVIDER_FOR_ALL", way.provider}, {"HOCKET_TIMEOUT_MS", timeout_ms}},
                   120},
                  [&](int rank) {
                      const auto index = static_cast<std::size_t>(rank);
                      setenv("HOCKET_HOST_ID", way.hosts.substr(index, 1).c_str(), 1);
                      const auto comm = Communicator::create(engine::resolve({}));
                      test::use_up_extents(comm->connections().window(), static_cast<unsigned>(rank) % 3);
                      body(rank, *comm);
                  });
    return test::problems(outcomes);
}

// A file that is gone at the end.
struct ScheduleFile {
    std::string path = "/tmp/hocket-pairs-" + std::to_string(getpid()) + ".sched";
    explicit ScheduleFile(const std::string& text) { std::ofstream(path) << text; }
    ~ScheduleFile() { std::remove(path.c_str()); }
};

// Returns the error of a start with these counts, or of the barrier that follows.
Error error_of(Communicator& comm, const Counts& sent, const Counts& received, DataType type,
               bool in_window) {
    const std::uint64_t element = element_size(type);
    const Layout layout({sent}, {received});
    const std::uint64_t out = layout.sent().span * element, in = layout.received().span * element;
    std::vector<std::byte> own(out + in + 64, untouched);
    std::byte* block = own.data();
    if (in_window) block = static_cast<std::byte*>(comm.connections().window().allocate(own.size()));
    std::fill_n(block, own.size(), untouched);
    try {
        const PlanChoice choice{.collective = Collective::all_to_all, .type = type, .is_uneven = true};
        comm.run(comm.plans().cached_plan(choice, layout), block, block + out, Extent(layout));
        comm.exchanges().barrier();
    } catch (const Error& error) {
        expect(std::all_of(block + out + in, block + own.size(), [](std::byte b) { return b == untouched; }),
               "something was written behind the output");
        return error;
    }
    throw std::runtime_error("nobody noticed");
}

}  // namespace

TEST_CASE("a layout by pair has a place for every boundary of both buffers") {
    const Counts sent{3, 0, 10}, received{3, 4, 0}, sent_at{20, 9, 0}, received_at{1, 30, 7};
    const Layout layout({sent, sent_at}, {received, received_at}), packed({sent}, {received});
    CHECK(layout.is_by_pair());
    CHECK_FALSE(layout.is_even());
    CHECK(layout.sent().count == 13);
    CHECK(layout.received().count == 7);
    CHECK(layout.sent().span == 23);
    CHECK(layout.received().span == 34);
    CHECK(layout.count() == 34);
    CHECK(packed.count() == 13);
    CHECK(layout.offset({0, 1}) == 0);
    CHECK(layout.offset({1, 6}) == 1);
    CHECK(layout.offset({2, 3}) == 3);
    CHECK(layout.offset({5, 6}) == 8);
    CHECK(layout.offset({1, 1}) == 13);
    CHECK(layout.offset({4, 3}) == 16);
    CHECK(layout.offset({3, 2}) == 18);
    CHECK(layout.offset({5, 3}) == 20);
    CHECK(layout.offset({2, 1}) == 20);
    CHECK(layout.offset({0, 1}) + layout.shift({0, 1}) == 20);
    CHECK(layout.offset({5, 6}) + layout.shift({5, 6}) == 5);
    CHECK(layout.offset({3, 2}) - 13 + layout.shift({3, 2}) == 32);
    CHECK(packed.shift({5, 6}) == 0);
    CHECK(packed.shift({5, 3}) == 0);
    CHECK(layout.begin_sent_to(2) == 3);
    CHECK(layout.begin_received_from(2) == 7);
    CHECK(layout.place_received_from(1) == 30);
    CHECK(layout == Layout({sent, sent_at}, {received, received_at}));
    CHECK_FALSE(layout == packed);
    CHECK_FALSE(Layout({sent}, {sent}) == packed);
    const Counts huge{UINT64_MAX, 0, 1}, far{0, 0, UINT64_MAX}, far_one{0, UINT64_MAX, 0};
    CHECK_THROWS_WITH(Layout({huge}, {received}), Contains("more than 2^64 - 1"));
    CHECK_THROWS_WITH(Layout({sent, far}, {received}),
                      Contains("in send the piece for rank 2 begins") && Contains("more than 2^64 - 1"));
    CHECK_THROWS_WITH(Layout({sent}, {received, far_one}),
                      Contains("in recv the piece from rank 1 begins") && Contains("more than 2^64 - 1"));
}

TEST_CASE("all_to_all_v is right in memory, by messages and by both") {
    unsigned seed = 1;
    for (const Way& way : {Way{"a", ""},
                           {"aa", ""},
                           {"aaaa", ""},
                           {"aaaaaa", ""},
                           {"abc", ""},
                           {"aabb", ""},
                           {"aabab", ""},
                           {"abbbcc", ""},
                           {"aaaa", "tcp"},
                           {"aaa", "ofi+tcp"}}) {
        const std::string problems = on(way, [&](int, Communicator& comm) {
            check_all(comm, seed, {"", "direct", "pairwise"});
            check_in_flight(comm, seed);
        });
        INFO(way.hosts << " by '" << way.provider << "'");
        CHECK(problems == "");
        ++seed;
    }
}

TEST_CASE("a schedule may divide the pieces, as long as they go straight") {
    const ScheduleFile file(R"(
        algorithm thirds all_to_all(x, y) over g {
            for t in 0 ..< 3 {
                let a = x.part(t of 3)
                let b = y.part(t of 3)
                each r in g, q in g
                    a[q] : r -> b[r] : q
            }
        }
        schedule parts all_to_all(x) {
            parallel t in 0 ..< 3 {
                let z = x.part(t of 3)
                all_to_all z over world using pairwise
            }
        })");
    for (const Way& way : {Way{"aaa", ""}, {"abc", ""}, {"aabb", ""}}) {
        const std::string problems = on(way, [&](int, Communicator& comm) {
            check_all(comm, 77, {file.path + ":parts", file.path + ":thirds"});
        });
        INFO(way.hosts);
        CHECK(problems == "");
    }
}

TEST_CASE("a schedule that passes pieces on is refused, by all ranks and in words; the communicator stays") {
    for (const Way& way : {Way{"aaaa", ""}, {"aabb", ""}}) {
        const std::string problems = on(way, [](int, Communicator& comm) {
            const Counts counts(4, 5);
            const Layout layout({counts}, {counts});
            std::string told = "nothing";
            try {
                comm.plans().cached_plan(
                    {.collective = Collective::all_to_all, .schedule = "bruck", .is_uneven = true}, layout);
            } catch (const Error& error) {
                expect(error.status() == Status::schedule, "another status");
                told = error.what();
            }
            for (const char* words :
                 {"bruck.sched:", "bruck cannot run all_to_all with a count for each pair",
                  "as direct and pairwise do"})
                expect(told.find(words) != told.npos, std::string(words) + " is not in: " + told);
            check_all(comm, 5, {""});
        });
        INFO(way.hosts);
        CHECK(problems == "");
    }
}

TEST_CASE("a tuned schedule that passes pieces on is not taken") {
    const std::string table = "/tmp/hocket-pairs-" + std::to_string(getpid()) + ".json";
    std::ofstream(table) << text_of(engine::TuningTable{
        {{"4m", "memory", 4}, {{Collective::all_to_all, {{1, UINT64_MAX, 64, 0.125, "bruck"}}}}}});
    const auto outcomes = run_ranks({4, {{"HOCKET_TUNING", table}, {"HOCKET_TOPOLOGY", "4m"}}, 60}, [](int) {
        const auto comm = Communicator::create(engine::resolve({}));
        const auto tuned = comm->plans().cached_plan({.collective = Collective::all_to_all}, 1000);
        expect(tuned->program().schedule == "bruck", "the table is not read");
        check_all(*comm, 6, {""});
    });
    CHECK(test::problems(outcomes) == "");
    std::remove(table.c_str());
}

TEST_CASE("a receiver that expects more or less than there is says so, and nobody hangs") {
    struct Case {
        Way way;
        std::uint64_t sent, expected;
        DataType type = DataType::int32;
        bool is_always_told = true;  // the received count: not all providers report it
    };
    const std::uint64_t many = 300'000;
    int number = 0;
    for (const Case& c : {Case{{"aaa", ""}, 7, 5},
                          {{"aaa", ""}, 5, 7},
                          {{"aaa", ""}, 0, 5},
                          {{"aaa", ""}, 5, 0},
                          {{"aaa", ""}, many, 5},
                          {{"abc", ""}, 7, 5},
                          {{"abc", ""}, 5, 7},
                          {{"abc", ""}, 0, 5},
                          {{"abc", ""}, 5, 0},
                          {{"abc", ""}, 0, 1, DataType::uint8},
                          {{"abc", ""}, 1, 0, DataType::uint8},
                          {{"abc", ""}, many, 5},
                          {{"abc", ""}, 5, many},
                          {{"aab", ""}, 5, 7},
                          {{"abb", ""}, 5, 7},
                          {{"aaa", "ofi+tcp"}, 5, 7},
                          {{"aaa", "ofi+tcp"}, 0, 1, DataType::uint8},
                          {{"aaa", "ofi+tcp"}, 7, 5, DataType::int32, false},
                          {{"aaa", "ofi+tcp"}, many, 7}}) {
        ++number;
        for (const bool in_window : {false, true}) {
            if (number++ % test::in_long_form(1, 2) != 0) continue;  // usually, by turns
            const std::string problems = on(c.way, [&](int rank, Communicator& comm) {
                // Rank 1 has more or less for rank 2 than that expects.
                Counts sent{3, 1, 4}, received{3, 1, 4};
                if (rank == 1) sent[2] = c.sent, received[2] = 4;
                if (rank == 2) received[1] = c.expected, sent[1] = 4;
                if (rank == 0) sent = received = {3, 3, 3};
                sent[0] = received[0] = 3;
                received[static_cast<std::size_t>(rank)] = sent[static_cast<std::size_t>(rank)];
                const Error error = error_of(comm, sent, received, c.type, in_window);
                const std::string told = error.what();
                expect(error.status() == Status::mismatch, "another status: " + told);
                const std::string told_all =
                    fmt::format("rank 1 sends {} element{} to rank 2, which expects {}, in all_to_all_v #0",
                                c.sent, c.sent == 1 ? "" : "s", c.expected);
                const std::string told_some = fmt::format(
                    "rank 1 sends more elements to rank 2, which expects only {}, in all_to_all_v #0",
                    c.expected);
                const bool is_told = told.find(told_all) != told.npos;
                expect(is_told || (!c.is_always_told && told.find(told_some) != told.npos),
                       told_all + " is not in: " + told);
                if (rank == 2)
                    expect(told.find("compare rank 1's count") != told.npos, "there is no hint: " + told);
            });
            INFO(c.way.hosts << " by '" << c.way.provider << "', " << c.sent << " for " << c.expected);
            CHECK(problems == "");
        }
    }
}

TEST_CASE("counts that differ are told with the elements of the receiver's buffer, wherever its pieces lie") {
    const std::string problems = on({"abc", ""}, [](int rank, Communicator& comm) {
        // The pieces lie in the opposite order of the ranks. Rank 1 has 5 for rank 2, which expects 7.
        const Counts received = rank == 2 ? Counts{3, 7, 1} : Counts{3, 3, 3},
                     places = rank == 2 ? Counts{8, 1, 0} : Counts{6, 3, 0},
                     sent = rank == 1   ? Counts{3, 3, 5}
                            : rank == 2 ? Counts{3, 3, 1}
                                        : Counts{3, 3, 3};
        const Layout layout({sent}, {received, places});
        std::vector<std::int32_t> from(16), to(16);
        const PlanChoice choice{
            .collective = Collective::all_to_all, .type = DataType::int32, .is_uneven = true};
        std::string told = "nobody noticed";
        try {
            comm.run(comm.plans().cached_plan(choice, layout), from.data(), to.data(), Extent(layout));
            comm.exchanges().barrier();
        } catch (const Error& error) {
            told = error.what();
        }
        expect(told.find("rank 1 sends 5 elements to rank 2, which expects 7") != told.npos, told);
        expect(told.find("(elements 1 to 7)") != told.npos, told);
    });
    CHECK(problems == "");
}

TEST_CASE("a rank that counts otherwise for itself is an error on all ranks") {
    for (const Way& way : {Way{"aa", ""}, {"ab", ""}}) {
        const std::string problems = on(way, [](int rank, Communicator& comm) {
            const Error error = error_of(comm, {2, 2}, {2, rank == 1 ? 3u : 2u}, DataType::int32, false);
            const std::string told = error.what();
            expect(error.status() == Status::mismatch, "another status: " + told);
            expect(told.find("rank 1 sends 2 elements to itself, and expects 3") != told.npos, told);
        });
        INFO(way.hosts);
        CHECK(problems == "");
    }
}

TEST_CASE("a rank that starts something else is told apart from one with other counts") {
    for (const Way& way : {Way{"aa", ""}, {"ab", ""}}) {
        const std::string problems = on(way, [](int rank, Communicator& comm) {
            const Counts counts{2, 2};
            const Layout layout({counts}, {counts});
            std::vector<std::int32_t> send(4), recv(4);
            std::string told = "nothing";
            try {
                PlanChoice choice{.collective = Collective::all_to_all, .type = DataType::int32};
                if (rank == 0) {
                    comm.run(comm.plans().cached_plan(choice, 2), send.data(), recv.data(), 2);
                } else {
                    choice.is_uneven = true;
                    comm.run(comm.plans().cached_plan(choice, layout), send.data(), recv.data(),
                             Extent(layout));
                }
                comm.exchanges().barrier();
            } catch (const Error& error) {
                expect(error.status() == Status::mismatch, error.what());
                told = error.what();
            }
            expect(told.find("started different operations") != told.npos, told);
            expect(told.find("all_to_all_v #0") != told.npos, told);
        });
        INFO(way.hosts);
        CHECK(problems == "");
    }
}
