// Memory made shared in place, and private again.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/window/mapped_areas.hpp"
#include "tests/runtime/window/windows.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;

namespace {

// Pages of anonymous memory.
struct Pages {
    explicit Pages(std::size_t count, int flags = MAP_PRIVATE)
        : bytes(count * 4096),
          memory(static_cast<char*>(
              mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0))) {
        REQUIRE(memory != MAP_FAILED);
    }
    ~Pages() { munmap(memory, bytes); }
    Pages(const Pages&) = delete;
    const std::size_t bytes;
    char* const memory;
};

void fill(char* memory, std::size_t bytes, int seed) {
    for (std::size_t at = 0; at < bytes; ++at) memory[at] = static_cast<char>(at * 7 + at / 251 + seed);
}

bool is_filled(const char* memory, std::size_t bytes, int seed) {
    for (std::size_t at = 0; at < bytes; ++at)
        if (memory[at] != static_cast<char>(at * 7 + at / 251 + seed)) return false;
    return true;
}

bool is_private(const void* memory) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    return mapped_areas(at, at + 1).at(0).permissions == "rw-p";
}

}  // namespace

TEST_CASE("adopted memory keeps its contents, is shared both ways, and becomes private again") {
    struct Case {
        std::size_t skipped, bytes;  // of a malloc
    };
    const auto [skipped, bytes] = GENERATE(Case{0, 64}, Case{13, 5000}, Case{4000, 100}, Case{1, 100000},
                                           Case{333, 3000000}, Case{0, 1 << 20});
    require_success(run_job(2, [skipped = skipped, bytes = bytes](Rank rank) -> std::string {
        const auto window = open_window(rank);
        const std::uint64_t free_before = window->free_bytes();
        auto* const whole = static_cast<char*>(std::malloc(skipped + bytes + 100));
        char* const memory = whole + skipped;
        fill(whole, skipped + bytes + 100, rank.rank);
        window->adopt(memory, bytes);
        expect(!is_private(memory), "the memory to be mapped from the window");
        expect(is_filled(whole, skipped + bytes + 100, rank.rank), "the contents to stay, around it too");
        std::vector<char*> others;  // the heap still works
        for (std::size_t size = 1; size < 5000; size += 37)
            others.push_back(static_cast<char*>(std::malloc(size)));
        for (char* other : others) std::free(other);

        const auto offsets = gather_offsets(rank, window->offset_of(memory, bytes).value());
        char* const peers = reinterpret_cast<char*>(window->slice(1 - rank.rank)) + offsets[1 - rank.rank];
        std::vector<char> expected(skipped + bytes);
        fill(expected.data(), expected.size(), 1 - rank.rank);
        expect(std::memcmp(peers, expected.data() + skipped, bytes) == 0, "the peer's contents to be seen");
        barrier(rank);
        fill(peers, bytes, 50 + rank.rank);
        barrier(rank);
        expect(is_filled(memory, bytes, 50 + 1 - rank.rank), "the peer's writing to be seen");
        barrier(rank);
        window->restore(memory);
        expect(is_private(memory), "the memory to be private again");
        barrier(rank);
        std::memset(peers, 0, bytes);
        barrier(rank);
        expect(is_filled(memory, bytes, 50 + 1 - rank.rank), "the last contents to stay");
        expect(!window->offset_of(memory, bytes), "the memory to be forgotten");
        expect(window->free_bytes() == free_before, "the slice to have its room again");
        std::free(std::realloc(whole, 2 * (skipped + bytes)));
        return "";
    }));
}

TEST_CASE("offset_of finds what lies wholly in one adopted range") {
    const auto window = open_window_alone();
    const Pages pages(10), others(10);
    CHECK_FALSE(window->offset_of(pages.memory, 1));
    window->adopt(pages.memory + 100, 20000);
    window->adopt(others.memory, 4096);
    const auto first = window->offset_of(pages.memory + 100, 20000);
    REQUIRE(first);
    CHECK(*first % 4096 == 100);
    CHECK(window->offset_of(pages.memory + 150, 1000) == *first + 50);
    CHECK(window->offset_of(pages.memory + 20099, 1) == *first + 19999);
    CHECK_FALSE(window->offset_of(pages.memory + 99, 2));
    CHECK_FALSE(window->offset_of(pages.memory + 20099, 2));
    CHECK_FALSE(window->offset_of(pages.memory + 200, SIZE_MAX));
    CHECK(window->offset_of(others.memory, 4096).value() % 4096 == 0);
    CHECK_FALSE(window->offset_of(others.memory, 4097));
    window->restore(pages.memory + 100);
    CHECK_FALSE(window->offset_of(pages.memory + 100, 1));
    CHECK(window->offset_of(others.memory, 1));
}

TEST_CASE("memory that cannot be made shared is refused, and stays as it is") {
    const auto window = open_window_alone();
    const std::uint64_t free_before = window->free_bytes();
    const auto refusal = [&](const void* memory, std::size_t bytes) {
        return error_of([&] { window->adopt(const_cast<void*>(memory), bytes); });
    };
    const int fd = open("/proc/self/exe", O_RDONLY);
    void* const file = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    const Pages pages(8), shared(1, MAP_SHARED), hole(3), read_only(2);
    munmap(hole.memory + 4096, 4096);
    mprotect(read_only.memory, 4096, PROT_READ);
    char local[64] = {};
    static const char constant[64] = "constant";

    CHECK_THAT(refusal(pages.memory, 0), Catch::StartsWith("status -1:"));
    CHECK_THAT(refusal(nullptr, 10), Catch::StartsWith("status -1:"));
    CHECK_THAT(refusal(pages.memory, SIZE_MAX), Catch::StartsWith("status -1:"));
    CHECK_THAT(refusal(local, sizeof local), Catch::StartsWith("status -1:") && Catch::Contains("stack"));
    CHECK_THAT(refusal(constant, sizeof constant), Catch::StartsWith("status -1:"));
    CHECK_THAT(refusal(file, 4096), Catch::StartsWith("status -1:") && Catch::Contains("test_window"));
    CHECK_THAT(refusal(shared.memory, 4096), Catch::StartsWith("status -1:"));
    CHECK_THAT(refusal(hole.memory + 100, 8192),
               Catch::StartsWith("status -1:") && Catch::Contains("not all"));
    CHECK_THAT(refusal(read_only.memory, 8192), Catch::StartsWith("status -1:") && Catch::Contains("r--p"));
    CHECK_THAT(refusal(window->allocate(4096), 4096), Catch::Contains("hocket-window"));
    std::thread([&] {
        char threads[64];
        CHECK_THAT(refusal(threads, sizeof threads), Catch::Contains("stack"));
    }).join();

    window->adopt(pages.memory + 5000, 4096);  // in the second page and the third
    for (const auto& [begin, bytes] : std::vector<std::pair<int, std::size_t>>{
             {5000, 4096}, {0, 4097}, {12287, 1}, {0, 8 * 4096}, {4096, 10}})
        CHECK_THAT(refusal(pages.memory + begin, bytes),
                   Catch::StartsWith("status -1:") && Catch::Contains("shared already"));
    window->adopt(pages.memory, 4096);
    window->adopt(pages.memory + 12288, 1);
    for (int wrong : {1, 4096, 5001, 13000})
        CHECK_THAT(error_of([&] { window->restore(pages.memory + wrong); }), Catch::StartsWith("status -1:"));
    for (int right : {5000, 0, 12288}) window->restore(pages.memory + right);
    CHECK_THAT(error_of([&] { window->restore(pages.memory); }), Catch::StartsWith("status -1:"));
    CHECK(window->free_bytes() == free_before - 4096);
    munmap(file, 4096);
}

TEST_CASE("adopting more than the slice holds is refused with the figures") {
    WindowMemory memory = WindowMemory::make(1, 0);
    WindowHeap heap(0, 8192, [](auto, auto) {});
    WindowAdopted adopted(memory, 0, heap);
    const Pages pages(3);
    CHECK_THAT(
        error_of([&] { adopted.adopt(pages.memory, pages.bytes); }),
        Catch::StartsWith("status -9: cannot share the 12288 bytes") && Catch::Contains("8192 are free"));
    CHECK(is_private(pages.memory));
}

TEST_CASE("memory that was unmapped while it was shared is not mapped over again") {
    const auto window = open_window_alone();
    const std::uint64_t free_before = window->free_bytes();
    const Pages pages(4);
    window->adopt(pages.memory, pages.bytes);
    munmap(pages.memory + 4096, 4096);
    void* const other = mmap(pages.memory + 4096, 4096, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    REQUIRE(other == pages.memory + 4096);
    std::memset(other, 9, 4096);
    CHECK_THAT(error_of([&] { window->restore(pages.memory); }),
               Catch::StartsWith("status -1:") && Catch::Contains("unmapped"));
    CHECK(pages.memory[4096] == 9);
    CHECK(window->free_bytes() == free_before);
    CHECK_THAT(error_of([&] { window->restore(pages.memory); }), Catch::Contains("no shared memory begins"));
}

TEST_CASE("a window that goes restores what it adopted") {
    const Pages pages(4), gone(4);
    fill(pages.memory, pages.bytes, 3);
    {
        const auto window = open_window_alone();
        window->adopt(pages.memory, pages.bytes);
        window->adopt(gone.memory, gone.bytes);
        munmap(gone.memory, gone.bytes);
        fill(pages.memory, pages.bytes, 4);
    }
    CHECK(is_private(pages.memory));
    CHECK(is_filled(pages.memory, pages.bytes, 4));
}

TEST_CASE("in quarantine restored memory leaves its place in the slice to the peers") {
    const auto window = open_window_alone();
    const Pages pages(600);
    fill(pages.memory, pages.bytes, 5);
    window->adopt(pages.memory, pages.bytes);
    const std::uint64_t left = window->free_bytes();
    std::byte* const shared = window->slice(0) + window->offset_of(pages.memory, pages.bytes).value();
    window->quarantine();
    window->restore(pages.memory);
    CHECK(window->free_bytes() == left);
    std::memset(shared, 0, pages.bytes);  // a peer that is late
    CHECK(is_filled(pages.memory, pages.bytes, 5));
}

TEST_CASE("threads look up, adopt and restore at the same time") {
    const auto window = open_window_alone();
    const Pages lasting(4), passing(8);
    window->adopt(lasting.memory, lasting.bytes);
    const auto expected = window->offset_of(lasting.memory, 10);
    std::atomic<bool> done{false};
    std::atomic<long> wrong{0}, looks{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i)
        readers.emplace_back([&] {
            while (!done) {
                wrong += window->offset_of(lasting.memory, 10) != expected;
                ++looks;
            }
        });
    std::vector<std::thread> changers;
    for (char* mine : {passing.memory, passing.memory + 4 * 4096})
        changers.emplace_back([&, mine] {
            for (int round = 0; round < 100; ++round) {
                fill(mine, 4 * 4096, round);
                window->adopt(mine, 4 * 4096);
                wrong += !is_filled(mine, 4 * 4096, round);
                window->restore(mine);
                wrong += !is_filled(mine, 4 * 4096, round);
            }
        });
    for (std::thread& thread : changers) thread.join();
    done = true;
    for (std::thread& thread : readers) thread.join();
    CHECK(wrong == 0);
    CHECK(looks > 0);
}
