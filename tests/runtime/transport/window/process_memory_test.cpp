// The memory that all windows of a process share, also after one of them failed.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "tests/runtime/transport/window/windows.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/sizes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;

namespace {

std::size_t mapped_windows() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find("hocket-window") != line.npos;
    return count;
}

std::uint64_t mapped_bytes() {
    std::ifstream maps("/proc/self/maps");
    std::uint64_t bytes = 0;
    for (std::string line; std::getline(maps, line);)
        if (line.find("hocket-window") != line.npos)
            bytes +=
                std::stoull(line.substr(line.find('-') + 1), nullptr, 16) - std::stoull(line, nullptr, 16);
    return bytes;
}

}  // namespace

TEST_CASE("all windows of a process have one slice, and memory is adopted for all of them") {
    require_success(run_job(3, [](Rank rank) -> std::string {
        const auto first = open_window(rank), second = open_window(rank);
        expect(mapped_windows() == 3, fmt::format("three members' memory, not {}", mapped_windows()));
        expect(mapped_bytes() == 3 * first_extent_bytes, "no more than the first extents");
        for (int member = 0; member < 3; ++member) {
            expect(first->at(member, 0, 1) == second->at(member, 0, 1), "the same slices");
            expect(first->reserved(member) != second->reserved(member), "each window's own reserve");
        }
        first->allocate(in_long_form(100, 65) * MiB);  // in another extent than the following ones
        auto* const block = static_cast<std::byte*>(first->allocate(100));
        block[7] = std::byte(rank.rank + 1);
        Pages pages(3);
        pages.memory[5000] = static_cast<char>(rank.rank + 11);
        first->adopt(pages.memory, pages.bytes);
        second->adopt(pages.memory, pages.bytes);
        const auto blocks = gather_offsets(rank, second->offset_of(block, 100).value());
        const auto adopted = gather_offsets(rank, second->offset_of(pages.memory, pages.bytes).value());
        for (int member = 0; member < 3; ++member) {
            expect(second->at(member, blocks[member], 100)[7] == std::byte(member + 1),
                   "a block of the other");
            expect(second->at(member, adopted[member], pages.bytes)[5000] == std::byte(member + 11),
                   "what the other adopted");
        }
        barrier(rank);
        first->restore(pages.memory);
        expect(second->offset_of(pages.memory, 1).has_value(), "it was adopted twice");
        second->restore(pages.memory);
        expect(!first->offset_of(pages.memory, 1), "it is private again");
        expect(error_of([&] { second->release(block); }).find("status -1") == 0, "the block is the other's");
        first->release(block);
        return "";
    }));
}

TEST_CASE("adopted memory stays shared as long as a window that has adopted it") {
    const Pages pages(4), others(2);
    std::memset(pages.memory, 5, pages.bytes);
    auto first = open_window_alone(), second = open_window_alone();
    first->adopt(pages.memory, pages.bytes);
    first->adopt(pages.memory, pages.bytes);
    first->adopt(others.memory, others.bytes);
    second->adopt(pages.memory, pages.bytes);
    CHECK_THAT(error_of([&] { second->restore(others.memory); }),
               Catch::Contains("no memory that was registered with this communicator"));
    first.reset();
    CHECK(second->offset_of(pages.memory, pages.bytes));
    CHECK_FALSE(second->offset_of(others.memory, others.bytes));
    second.reset();
    CHECK(mapped_windows() == 0);
    CHECK(pages.memory[4096] == 5);
    const auto third = open_window_alone();
    third->adopt(pages.memory, pages.bytes);  // nothing of it is left
    third->restore(pages.memory);
}

TEST_CASE("what a window had is used again once all its members have left, not before") {
    require_success(run_job(2, [](Rank rank) -> std::string {
        const auto lasting = open_window(rank);
        const std::uint64_t before = lasting->free_bytes();
        for (int round = 0; round < 3; ++round) {
            auto passing = open_window(rank, MiB);
            passing->allocate(3 * MiB);
            std::memset(passing->reserved(rank.rank), 7, MiB);
            const std::uint64_t during = lasting->free_bytes();
            expect(during < before - 4 * MiB, "room to be taken");
            barrier(rank);
            if (rank.rank == 0) {
                passing.reset();
                expect(lasting->free_bytes() == during, "rank 1 may still write");
            }
            barrier(rank);
            passing.reset();
            barrier(rank);
            auto* const zeroed = open_window(rank, MiB)->reserved(rank.rank);
            expect(zeroed[0] == std::byte{} && zeroed[MiB - 1] == std::byte{}, "zeroed memory");
            barrier(rank);
        }
        open_window(rank);  // which checks all others
        barrier(rank);
        open_window(rank);
        expect(lasting->free_bytes() > before - MiB, "all but the last one's room to be free");
        return "";
    }));
}

TEST_CASE("after a failure new windows have another slice, where a late peer writes to nothing") {
    const Pages pages(4);
    std::memset(pages.memory, 5, pages.bytes);
    auto failed = open_window_alone();
    auto* const block = static_cast<std::byte*>(failed->allocate(MiB));
    failed->adopt(pages.memory, pages.bytes);
    failed->adopt(pages.memory, pages.bytes);
    std::byte* const late = failed->at(0, failed->offset_of(pages.memory, pages.bytes).value(), pages.bytes);
    failed->quarantine();
    failed->quarantine();
    const auto working = open_window_alone();
    CHECK(working->at(0, 0, 1) != failed->at(0, 0, 1));
    CHECK_FALSE(working->offset_of(block, 1));
    // Registrations, with their counts, now belong to the new window.
    CHECK(working->offset_of(pages.memory, pages.bytes));
    CHECK_FALSE(failed->offset_of(pages.memory, pages.bytes));
    std::memset(late, 9, pages.bytes);
    CHECK(pages.memory[100] == 5);
    failed->restore(pages.memory);
    CHECK(working->offset_of(pages.memory, pages.bytes));
    working->adopt(pages.memory, pages.bytes);
    failed.reset();
    CHECK(working->offset_of(pages.memory, pages.bytes));
    working->restore(pages.memory);
    CHECK_FALSE(working->has_adopted());
    CHECK(open_window_alone()->at(0, 0, 1) == working->at(0, 0, 1));
}

TEST_CASE("a window that works keeps its slice and what is adopted there when another one fails") {
    Pages pages(4), others(2);
    const auto working = open_window_alone(), failed = open_window_alone();
    working->adopt(pages.memory, pages.bytes);
    void* const freely_known = working->allocate(MiB, 4096, Window::Known::to_any_peers);
    void* const own = working->allocate(MiB);
    failed->quarantine();
    const std::uint64_t left = working->free_bytes();
    working->release(freely_known);  // the failed one's peers may know of it
    CHECK(working->free_bytes() == left);
    working->release(own);
    CHECK(working->free_bytes() == left + MiB);
    const auto next = open_window_alone();
    CHECK(next->at(0, 0, 1) != working->at(0, 0, 1));
    CHECK(working->offset_of(pages.memory, pages.bytes));
    CHECK_FALSE(next->offset_of(pages.memory, pages.bytes));
    CHECK_THAT(error_of([&] { next->adopt(pages.memory, pages.bytes); }), Catch::Contains("has failed"));
    next->adopt(others.memory, others.bytes);
    CHECK_FALSE(working->offset_of(others.memory, others.bytes));
    working->restore(pages.memory);
    next->adopt(pages.memory, pages.bytes);
    CHECK(next->offset_of(pages.memory, pages.bytes));
}

TEST_CASE("what was withheld for a window that failed is used again when its members have closed it") {
    require_success(run_job(2, [](Rank rank) -> std::string {
        const auto working = open_window(rank);
        auto first = open_window(rank), second = open_window(rank);
        const auto release_one = [&] {
            working->release(working->allocate(MiB, 4096, Window::Known::to_any_peers));
        };
        const std::uint64_t before = working->free_bytes();
        first->quarantine();
        release_one();
        second->quarantine();
        release_one();
        expect(working->free_bytes() == before - 2 * MiB, "late peers may write to both blocks");
        barrier(rank);
        if (rank.rank == 0) first.reset(), second.reset();
        barrier(rank);
        release_one();
        if (rank.rank == 0) expect(working->free_bytes() < before - 2 * MiB, "rank 1 has closed nothing");
        barrier(rank);
        first.reset();
        barrier(rank);
        release_one();
        // One is still withheld for the second window, by rank 1 and for it; each release adds another.
        expect(working->free_bytes() < before - 2 * MiB, "rank 1 has not closed the second");
        barrier(rank);
        second.reset();
        barrier(rank);
        release_one();
        release_one();
        expect(working->free_bytes() > before, "all to be free, and what the windows had");
        // No process can write any more: the memory is as good as new.
        expect(open_window(rank)->at(rank.rank, 0, 1) == working->at(rank.rank, 0, 1), "the same slice");
        barrier(rank);
        return "";
    }));
}

TEST_CASE("a member that has ended without closing its window keeps nothing from being used again") {
    require_success(run_job(3, [](Rank rank) -> std::string {
        const auto working = open_window(rank);
        auto failed = open_window(rank), passing = open_window(rank, MiB);
        const std::uint64_t before = working->free_bytes();
        if (rank.rank == 2) {  // closes nothing, and ends
            failed.release(), passing.release();
            return "";
        }
        failed->quarantine();
        working->release(working->allocate(MiB, 4096, Window::Known::to_any_peers));
        failed.reset(), passing.reset();
        const bool is_free = eventually([&] {
            working->release(working->allocate(100));  // checks the others
            return working->free_bytes() > before + MiB / 2;
        });
        expect(is_free, "what was withheld, and what both windows had, to be free");
        return "";
    }));
}

TEST_CASE("a forked child opens windows of its own, with another slice") {
    const auto window = open_window_alone();
    Pages pages(2);
    window->adopt(pages.memory, pages.bytes);
    const pid_t child = fork();
    if (child == 0) {
        const auto own = open_window_alone();
        const bool right = own->at(0, 0, 1) != window->at(0, 0, 1) && !own->offset_of(pages.memory, 1) &&
                           own->allocate(100) != nullptr;
        _exit(right ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(window->offset_of(pages.memory, pages.bytes));
}

TEST_CASE("a forked child has nothing of its parent's peers, and no descriptor of what all of them share") {
    require_success(run_job(2, [](Rank rank) -> std::string {
        const auto window = open_window(rank);
        void* const block = window->allocate(in_long_form(100, 65) * MiB);
        const auto offsets = gather_offsets(rank, window->offset_of(block, 1).value());
        window->at(1 - rank.rank, offsets[1 - rank.rank], 1);
        const std::uint64_t before = mapped_bytes();
        const pid_t child = fork();
        if (child == 0) {
            std::size_t descriptors = 0;
            for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
                std::error_code gone;  // listing the folder takes a descriptor itself
                const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
                descriptors += target.find("hocket-window") != target.npos;
            }
            _exit(mapped_bytes() == before / 2 && descriptors == 0 ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        expect(before == 2 * (32 + 128) * MiB, fmt::format("two members' extents, not {}", before));
        expect(status == 0, "a child to have its parent's own memory alone");
        barrier(rank);
        return "";
    }));
}

TEST_CASE("threads map what they are told of at the same time") {
    // Each in an extent of its own. What is allocated is cleared, which takes long.
    const std::vector<std::size_t> sizes =
        is_long_form() ? std::vector<std::size_t>{40, 100, 200} : std::vector<std::size_t>{33, 65};
    require_success(run_job(2, [&](Rank rank) -> std::string {
        const auto window = open_window(rank);
        std::vector<std::uint64_t> told;
        for (const std::size_t size : sizes) {
            auto* const block = static_cast<std::byte*>(window->allocate(size * MiB));
            block[size] = std::byte(rank.rank + 1);
            told.push_back(gather_offsets(rank, window->offset_of(block, 1).value())[1 - rank.rank]);
        }
        std::atomic<int> wrong{0};
        std::vector<std::byte*> found[4];
        std::vector<std::thread> threads;
        for (auto& mine : found)
            threads.emplace_back([&] {
                std::size_t i = 0;
                for (const std::size_t size : sizes) {
                    mine.push_back(window->at(1 - rank.rank, told[i++], size * MiB));
                    wrong += mine.back()[size] != std::byte(2 - rank.rank);
                }
            });
        for (std::thread& thread : threads) thread.join();
        expect(wrong == 0, "what the other has written");
        for (const auto& one : found) expect(one == found[0], "one place for all threads");
        const std::uint64_t expected = 2 * (32 + 64 + 128 + in_long_form(256, 0)) * MiB;
        expect(mapped_bytes() == expected, fmt::format("{} bytes, not {}", expected, mapped_bytes()));
        barrier(rank);
        return "";
    }));
}

TEST_CASE("threads open windows at the same time") {
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            for (int round = 0; round < 20; ++round) {
                const auto window = open_window_alone();
                auto* const block = static_cast<char*>(window->allocate(10000));
                std::memset(block, i, 10000);
                if (round % 5 == i) window->quarantine();
                wrong += block[9999] != i;
                window->release(block);
            }
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(mapped_windows() == 0);
}
