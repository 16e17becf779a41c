// Private buffers that peers use where they are, through the kernel: where it is refused, where memory is
// missing, and where a peer ends meanwhile.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/engine/communicator.hpp"
#include "runtime/engine/run/peer_memory.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/restrictions.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using engine::Communicator;
using engine::PeerMemory;
using engine::SingleCopy;
using test::expect;

namespace {

constexpr std::uint64_t count = 40'000;

// Sums whole numbers of private buffers, some of them in place; returns the copies by the kernel on this
// rank.
std::uint64_t sum_often(Communicator& comm) {
    const auto plan = comm.plans().cached_plan(
        {.collective = dsl::Collective::all_reduce, .type = DataType::int32, .op = ReduceOp::sum}, count);
    std::vector<int> mine(count), sum(count);
    for (int start = 0; start < 60; ++start) {
        std::iota(mine.begin(), mine.end(), comm.rank() * 1000 + start);
        const bool in_place = start % 3 == 0;
        std::vector<int>& result = in_place ? mine : sum;
        comm.run(plan, mine.data(), result.data(), count, 1);
        for (std::uint64_t i = 0; i < count; ++i) {
            int expected = 0;
            for (int rank = 0; rank < comm.size(); ++rank)
                expected += rank * 1000 + start + static_cast<int>(i);
            expect(result[i] == expected, [&] { return "the sum at " + std::to_string(i); });
        }
    }
    return comm.connections().local_peers()->peer_memory().copies();
}

// Kills this process soon, whatever it does then.
void die_soon() {
    signal(SIGALRM, [](int) { kill(getpid(), SIGKILL); });
    const itimerval soon{{}, {test::in_long_form(1, 0), test::in_long_form(0, 300'000)}};
    setitimer(ITIMER_REAL, &soon, nullptr);
}

test::Job job(const char* single_copy, int ranks = 3) {
    return {ranks, {{"HOCKET_SINGLE_COPY", single_copy}, {"HOCKET_TIMEOUT_MS", "20000"}}, 100};
}

// A child that shows a word of its memory and lives until this is destroyed.
class Child {
  public:
    Child() : shared_(static_cast<PeerMemory::Card*>(test::shared_memory(4096))) {
        pages_ = static_cast<std::byte*>(
            mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        process_ = fork();
        if (process_ != 0) {
            while (shared_->is_shown.load() == 0) usleep(100);
            return;
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (std::size_t i = 0; i < page; ++i) pages_[i] = static_cast<std::byte>(i);
        munmap(pages_ + page, page);
        PeerMemory(SingleCopy::measured, {1}).show(*shared_);
        for (;;) pause();
    }
    ~Child() {
        end();
        munmap(pages_, 2 * page);
    }
    Child(const Child&) = delete;
    void end() {
        if (process_ > 0) kill(process_, SIGKILL), waitpid(process_, nullptr, 0);
        process_ = 0;
    }

    static constexpr std::size_t page = 4096;
    PeerMemory::Card& card() { return *shared_; }
    std::byte* pages() { return pages_; }  // the second one is not there in the child

  private:
    PeerMemory::Card* shared_;
    std::byte* pages_;
    pid_t process_ = 0;
};

}  // namespace

TEST_CASE("private buffers are copied by the kernel, and sums are right") {
    const auto outcomes = test::run_ranks(job("on"), [](int) {
        const auto comm = Communicator::create(engine::resolve({}));
        expect(sum_often(*comm) > 50, "copies by the kernel");
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("private buffers go through tiles if one rank may not be read, or does not want it") {
    const auto with_one = [](auto change) {
        return test::run_ranks(job("on"), [change](int rank) {
            if (rank == 1) change();
            const auto comm = Communicator::create(engine::resolve({}));
            expect(sum_often(*comm) == 0, "no copies by the kernel");
        });
    };
    CHECK(test::problems(with_one([] { setenv("HOCKET_SINGLE_COPY", "off", 1); })) == "");
    CHECK(test::problems(with_one([] { test::refuse_cross_memory_access(); })) == "");
}

TEST_CASE("a process is known by its memory, not by its number alone") {
    Child child;
    PeerMemory memory(SingleCopy::measured, {1});
    const auto reaches = [&](PeerMemory& by) {
        return by.reaches_all([&](int) -> auto& { return child.card(); });
    };
    CHECK(reaches(memory));
    PeerMemory another(SingleCopy::measured, {1});
    child.card().process = getpid();
    CHECK_FALSE(reaches(another));
    PeerMemory unwanted(SingleCopy::off, {1});
    CHECK_FALSE(reaches(unwanted));
}

TEST_CASE("memory that is missing has a message, and a process that has ended is told from it") {
    Child child;
    PeerMemory memory(SingleCopy::measured, {7});
    REQUIRE(memory.reaches_all([&](int) -> auto& { return child.card(); }));
    std::vector<std::byte> found(2 * Child::page);
    CHECK(memory.read(0, found.data(), child.pages(), Child::page) == PeerMemory::Outcome::done);
    CHECK(found[200] == static_cast<std::byte>(200));
    CHECK_THROWS_WITH(memory.read(0, found.data(), child.pages(), 2 * Child::page),
                      Contains("4096 bytes at") && Contains("of rank 7's buffer are not there") &&
                          Contains("HOCKET_SINGLE_COPY=off"));
    found[5] = static_cast<std::byte>(99);
    CHECK(memory.write(0, child.pages(), found.data(), 16) == PeerMemory::Outcome::done);
    CHECK(memory.read(0, found.data() + 100, child.pages(), 16) == PeerMemory::Outcome::done);
    CHECK(found[105] == static_cast<std::byte>(99));
    child.end();
    CHECK(memory.read(0, found.data(), child.pages(), 16) == PeerMemory::Outcome::process_is_gone);
}

TEST_CASE("memory that the kernel cannot read is not lent") {
    PeerMemory memory(SingleCopy::measured, {0});
    auto* pages = static_cast<std::byte*>(
        mmap(nullptr, 2 * Child::page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(memory.can_lend(pages, 2 * Child::page));
    munmap(pages + Child::page, Child::page);
    CHECK(memory.can_lend(pages, Child::page));
    CHECK_FALSE(memory.can_lend(pages, 2 * Child::page - 1));
    munmap(pages, Child::page);
}

TEST_CASE("ranks learn of one that is killed while they use its memory") {
    const test::Tally met;
    const auto outcomes = test::run_ranks(job("on"), [&](int rank) {
        const auto comm = Communicator::create(engine::resolve({}));
        met.meet(3);  // no rank is still setting up when one is killed
        if (rank == 2) die_soon();
        try {
            for (;;) sum_often(*comm);
        } catch (const Error& error) {
            expect(error.status() == Status::peer_lost, error.what());
        }
    });
    CHECK(outcomes[0].text == "");
    CHECK(outcomes[1].text == "");
    CHECK(outcomes[2].signal == SIGKILL);
}

TEST_CASE("ranks learn of one that is killed while it helps, and while it is helped") {
    for (const int killed : {0, 1}) {
        const test::Tally met;
        const auto outcomes = test::run_ranks(job("on", 2), [&, killed](int rank) {
            const auto comm = Communicator::create(engine::resolve({}));
            constexpr std::uint64_t many = 2'000'000;
            const auto plan = comm->plans().cached_plan(
                {.collective = dsl::Collective::broadcast, .type = DataType::int32}, many);
            std::vector<int> mine(many, rank), received(many);
            met.meet(2);
            if (rank == killed) die_soon();
            try {
                for (;;) comm->run(plan, mine.data(), received.data(), many, 1);
            } catch (const Error& error) {
                expect(error.status() == Status::peer_lost, error.what());
            }
        });
        CHECK(outcomes[static_cast<std::size_t>(1 - killed)].text == "");
        CHECK(outcomes[static_cast<std::size_t>(killed)].signal == SIGKILL);
    }
}
