// A copy that two ranks make together: each block is copied once, by one of them.
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/engine/communicator.hpp"
#include "runtime/engine/run/joint_copy.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/restrictions.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using engine::Communicator;
using engine::JointCopy;
using test::expect;

namespace {

constexpr int opener = 0, helper = 1, bystander = 2;

// Adds one to each byte of a block, so that a block that is copied twice or never shows.
void add_one(std::vector<std::atomic<unsigned char>>& bytes, const JointCopy::Block& block) {
    for (std::uint64_t i = 0; i < block.bytes; ++i)
        bytes[block.at + i].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

TEST_CASE("each byte of many copies is copied once, by the opener or by the member that may help") {
    constexpr std::uint64_t most = 300'000, most_copies = 400;
    const std::uint64_t copies = test::in_long_form(most_copies, std::uint64_t{120});
    // As on a board: zeroed memory.
    alignas(128) static std::byte memory[sizeof(JointCopy)]{};
    auto& joint = *reinterpret_cast<JointCopy*>(memory);
    std::vector<std::atomic<unsigned char>> bytes(most);
    std::atomic<std::uint64_t> opened{0}, by_helper{0}, by_bystander{0}, torn{0};
    std::atomic<bool> ended{false};
    const auto help = [&](int member, std::atomic<std::uint64_t>& blocks) {
        while (!ended) {
            JointCopy::Copy copy{};
            const auto block = joint.take_for(member, copy);
            if (!block) continue;
            // The opener writes its fields from the number of the copy.
            torn += copy.own != 3 * opened || copy.others != 5 * opened || copy.reads != (opened % 2 == 1);
            // The opener may have taken all others by the time that this block is copied.
            if (++blocks % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            add_one(bytes, *block);
            joint.copied_by_others().fetch_add(1, std::memory_order_release);
        }
    };
    std::thread other([&] { help(helper, by_helper); }), third([&] { help(bystander, by_bystander); });
    std::mt19937_64 random(5);
    std::uint64_t wrong = 0;
    // A helper that the system lets run late finds nothing to help with.
    for (std::uint64_t number = 1; number <= copies || (by_helper == 0 && number <= most_copies); ++number) {
        const std::uint64_t size = 70'000 + random() % (most - 70'000);
        REQUIRE(JointCopy::is_worth_it(size));
        std::uint64_t left = JointCopy::blocks_of(size);
        const std::uint64_t before = joint.copied_by_others();
        opened = number;
        joint.next() = joint.prepare({3 * number, 5 * number, size, helper, number % 2 == 1});
        // Lets the other one take some, also where threads share a core.
        if (number % 3 == 0) std::this_thread::yield();
        while (const auto block = joint.take()) {
            add_one(bytes, *block);
            --left;
            if (number % 2 == 0) std::this_thread::yield();
        }
        while (!joint.have_others_copied(left, before)) std::this_thread::yield();
        for (std::uint64_t i = 0; i < most; ++i)
            wrong += bytes[i].exchange(0, std::memory_order_relaxed) != (i < size ? 1 : 0);
    }
    ended = true;
    other.join();
    third.join();
    CHECK(wrong == 0);
    CHECK(torn == 0);
    CHECK(by_bystander == 0);
    CHECK(by_helper > 0);
}

TEST_CASE("a small copy is made by one rank") {
    CHECK_FALSE(JointCopy::is_worth_it(64 * 1024));
    CHECK(JointCopy::is_worth_it(64 * 1024 + 1));
    CHECK(JointCopy::blocks_of(64 * 1024 + 1) == 2);
}

TEST_CASE("a root that waits for its peers to read copies to them") {
    constexpr std::uint64_t count = 1'000'000;
    for (const auto collective :
         {dsl::Collective::broadcast, dsl::Collective::scatter, dsl::Collective::gather}) {
        const auto outcomes = test::run_ranks(
            {2, {{"HOCKET_SINGLE_COPY", "on"}, {"HOCKET_TIMEOUT_MS", "20000"}}, 100}, [&](int rank) {
                const auto comm = Communicator::create(engine::resolve({}));
                const auto plan = comm->plans().cached_plan(
                    {.collective = collective, .type = DataType::int32, .root = opener}, count);
                const auto least = comm->plans().cached_plan(
                    {.collective = dsl::Collective::all_reduce, .type = DataType::int32, .op = ReduceOp::min},
                    1);
                std::vector<int> sent(2 * count), received(2 * count);
                const bool is_root = rank == opener;
                // A rank that the system lets run late finds nothing to help with. Ranks agree on going on.
                const auto all_have_copied = [&] {
                    int has = comm->connections().local_peers()->peer_memory().copies() > 0 ? 1 : 0;
                    comm->run(least, &has, &has, 1, 1);
                    return has == 1;
                };
                for (int start = 0; start < 20 || (start < 5'000 && !all_have_copied()); ++start) {
                    for (std::size_t i = 0; i < sent.size(); ++i)
                        sent[i] = rank * 7 + start * 13 + static_cast<int>(i);
                    comm->run(plan, sent.data(), received.data(), count, 1);
                    // By the contract: the rank, and the position in what it sent, of each element received.
                    const auto expect_from = [&](int sender, std::uint64_t from, std::uint64_t at) {
                        for (std::uint64_t i = 0; i < count; i += 997)
                            expect(received[at + i] == sender * 7 + start * 13 + static_cast<int>(from + i),
                                   "the element that was sent");
                    };
                    if (collective == dsl::Collective::broadcast) expect_from(opener, 0, 0);
                    if (collective == dsl::Collective::scatter)
                        expect_from(opener, static_cast<std::uint64_t>(rank) * count, 0);
                    if (collective == dsl::Collective::gather && is_root)
                        expect_from(opener, 0, 0), expect_from(helper, 0, count);
                }
                // The program of one of the two has no copies.
                const std::uint64_t copies = comm->connections().local_peers()->peer_memory().copies();
                expect(copies > 0, "copies by each rank");
            });
        INFO(dsl::name_of(collective));
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("a rank whose copy waits for the part of another one says so, and names it") {
    struct Shared {
        std::atomic<bool> hangs, is_let_go;
    };
    auto& shared = *new (test::shared_memory(sizeof(Shared))) Shared{};
    constexpr std::uint64_t count = 1'000'000;
    const auto outcomes = test::run_ranks(
        {2, {{"HOCKET_SINGLE_COPY", "on"}, {"HOCKET_TIMEOUT_MS", "3000"}}, 100}, [&](int rank) {
            const auto comm = Communicator::create(engine::resolve({}));
            const auto plan = comm->plans().cached_plan(
                {.collective = dsl::Collective::broadcast, .type = DataType::int32, .root = opener}, count);
            std::vector<int> sent(count), received(count);
            comm->run(plan, sent.data(), received.data(), count, 1);
            if (rank == helper)
                expect(test::hang_in_cross_memory_access(shared.hangs, shared.is_let_go), "a filter");
            std::string text = "no failure";
            try {
                // A rank that the system lets run late finds nothing to help with.
                for (int start = 0; start < 5'000; ++start)
                    comm->run(plan, sent.data(), received.data(), count, 1);
            } catch (const Error& error) {
                text = error.what();
            }
            expect(shared.hangs, "a rank that helps");
            if (rank != opener) return;
            shared.is_let_go = true;
            expect(text.find("waiting for rank 1, which makes a part of this copy of x[0, 1) (elements 0 to "
                             "999999)") != text.npos,
                   "the rank in: " + text);
        });
    CHECK(test::problems(outcomes) == "");
}
