// Memory made shared in place, and private again.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "tests/runtime/transport/window/windows.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;

namespace {

constexpr std::size_t period = 251 * 256;

char byte_at(std::size_t at, int seed) {
    return static_cast<char>(at * 7 + at / 251 + seed);
}

void fill(char* memory, std::size_t bytes, int seed) {
    for (std::size_t at = 0; at < std::min(bytes, period); ++at) memory[at] = byte_at(at, seed);
    for (std::size_t at = period; at < bytes; at += period)
        std::memcpy(memory + at, memory, std::min(period, bytes - at));
}

bool is_filled(const char* memory, std::size_t bytes, int seed) {
    for (std::size_t at = 0; at < std::min(bytes, period); ++at)
        if (memory[at] != byte_at(at, seed)) return false;
    return bytes <= period || std::memcmp(memory, memory + period, bytes - period) == 0;
}

// Data in the outer pages is copied, as the engine does it.
struct Shown {
    Shown(const Window& window, char* of, std::size_t size)
        : memory(of), bytes(size), staging_buffer(window.staging_buffer_for(of, size)) {
        offset = staging_buffer ? window.offset_of(staging_buffer->memory, size).value()
                                : window.offset_of(of, size).value();
        here = reinterpret_cast<char*>(window.at(window.self(), offset, size));
    }
    void to_peers() const { copy(here, memory); }
    void from_peers() const { copy(memory, here); }

    char *const memory, *here;
    const std::size_t bytes;
    const std::optional<StagingBuffer> staging_buffer;
    std::uint64_t offset;

  private:
    void copy(char* to, const char* from) const {
        if (!staging_buffer) return;
        std::memcpy(to, from, staging_buffer->shared_begin);
        std::memcpy(to + staging_buffer->shared_end, from + staging_buffer->shared_end,
                    bytes - staging_buffer->shared_end);
    }
};

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
        const Shown shown(*window, memory, bytes);
        const auto middle = reinterpret_cast<std::uintptr_t>(memory) + bytes / 2;
        const bool has_page = bytes > 3 * 4096;
        expect(!has_page || !is_private(reinterpret_cast<void*>(middle)),
               "the memory to be mapped from the window");
        // malloc's bookkeeping lies before it, and the next block behind it.
        expect(is_private(memory - 1 - skipped) && is_private(memory + bytes),
               "the memory around it to be private");
        shown.to_peers();
        expect(is_filled(whole, skipped + bytes + 100, rank.rank), "the contents to stay, around it too");
        std::vector<char*> others;  // the heap still works
        for (std::size_t size = 1; size < 5000; size += 37)
            others.push_back(static_cast<char*>(std::malloc(size)));
        for (char* other : others) std::free(other);

        const auto offsets = gather_offsets(rank, shown.offset);
        char* const peers = reinterpret_cast<char*>(window->at(1 - rank.rank, offsets[1 - rank.rank], bytes));
        std::vector<char> expected(skipped + bytes);
        fill(expected.data(), expected.size(), 1 - rank.rank);
        expect(std::memcmp(peers, expected.data() + skipped, bytes) == 0, "the peer's contents to be seen");
        barrier(rank);
        fill(peers, bytes, 50 + rank.rank);
        barrier(rank);
        shown.from_peers();
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

TEST_CASE("what has moved is found in the slice, and the rest has a staging buffer") {
    const auto window = open_window_alone();
    const Pages pages(10), others(10);
    CHECK_FALSE(window->offset_of(pages.memory, 1));
    CHECK_FALSE(window->has_adopted());
    window->adopt(pages.memory + 100, 20000);  // pages 1 to 3 move
    window->adopt(others.memory, 4096);
    CHECK(window->has_adopted());
    CHECK_FALSE(window->offset_of(pages.memory + 100, 20000));
    const auto first = window->offset_of(pages.memory + 4096, 3 * 4096);
    REQUIRE(first);
    CHECK(*first % 4096 == 0);
    CHECK(window->offset_of(pages.memory + 4146, 1000) == *first + 50);
    CHECK_FALSE(window->offset_of(pages.memory + 4095, 2));
    CHECK_FALSE(window->offset_of(pages.memory + 4 * 4096 - 1, 2));
    CHECK_FALSE(window->offset_of(pages.memory + 4200, SIZE_MAX));
    CHECK(window->offset_of(others.memory, 4096).value() % 4096 == 0);
    CHECK_FALSE(window->offset_of(others.memory, 4097));

    const auto whole = window->staging_buffer_for(pages.memory + 100, 20000);
    REQUIRE(whole);
    CHECK(whole->memory == window->at(0, *first - 4096 + 100, 20000));
    CHECK(whole->shared_begin == 4096 - 100);
    CHECK(whole->shared_end == 4 * 4096 - 100);
    const auto last = window->staging_buffer_for(pages.memory + 16384, 10);  // in a page that has not moved
    REQUIRE(last);
    CHECK(last->memory == whole->memory + 16384 - 100);
    CHECK(last->shared_begin == 0);
    CHECK(last->shared_end == 0);
    const auto inner = window->staging_buffer_for(pages.memory + 5000, 100);
    REQUIRE(inner);
    CHECK(inner->shared_begin == 0);
    CHECK(inner->shared_end == 100);
    CHECK_FALSE(window->staging_buffer_for(pages.memory + 99, 2));
    CHECK_FALSE(window->staging_buffer_for(pages.memory + 20099, 2));
    CHECK_FALSE(window->staging_buffer_for(others.memory, 4096));  // it needs no staging buffer
    window->restore(pages.memory + 100);
    CHECK_FALSE(window->staging_buffer_for(pages.memory + 100, 1));
    CHECK(window->offset_of(others.memory, 1));
}

TEST_CASE("neighbours in one page are adopted each by itself, and memory as often as is asked") {
    const auto window = open_window_alone();
    const std::uint64_t free_before = window->free_bytes();
    const Pages pages(6);
    fill(pages.memory, pages.bytes, 1);
    const std::pair<std::size_t, std::size_t> ranges[] = {{10, 90}, {100, 9000}, {9100, 3}, {9103, 15000}};
    for (const auto& [begin, bytes] : ranges) window->adopt(pages.memory + begin, bytes);
    window->adopt(pages.memory + 9103, 15000);
    CHECK(is_filled(pages.memory, pages.bytes, 1));
    fill(pages.memory, pages.bytes, 2);
    for (const auto& [begin, bytes] : ranges) window->restore(pages.memory + begin);
    CHECK(window->offset_of(pages.memory + 3 * 4096, 4096));  // it was adopted twice
    window->restore(pages.memory + 9103);
    CHECK_FALSE(window->has_adopted());
    CHECK(is_filled(pages.memory, pages.bytes, 2));
    CHECK(window->free_bytes() == free_before);
}

TEST_CASE("memory is adopted where there is room, in another extent, too") {
    const std::size_t bytes = in_long_form(40 << 20, 33 << 20);
    require_success(run_job(2, [=](Rank rank) -> std::string {
        const auto window = open_window(rank);
        const Pages pages(bytes / 4096 + 1);
        fill(pages.memory, pages.bytes, rank.rank);
        window->adopt(pages.memory + 100, bytes);
        const Shown shown(*window, pages.memory + 100, bytes);
        expect(extent_of(shown.offset) > 0, "another extent than the first");
        expect(!window->staging_buffer_for(pages.memory + 100 + bytes, 0), "nothing at its end");
        shown.to_peers();
        const auto offsets = gather_offsets(rank, shown.offset);
        char* const peers = reinterpret_cast<char*>(window->at(1 - rank.rank, offsets[1 - rank.rank], bytes));
        std::vector<char> expected(100 + bytes);
        fill(expected.data(), expected.size(), 1 - rank.rank);
        expect(std::memcmp(peers, expected.data() + 100, bytes) == 0, "the peer's contents to be seen");
        barrier(rank);
        window->restore(pages.memory + 100);
        expect(is_filled(pages.memory, pages.bytes, rank.rank), "the contents to stay");
        return "";
    }));
}

TEST_CASE("a forked child has its own copy of adopted memory and of the slice, and of no other slice") {
    const auto window = open_window_alone();
    const Pages pages(5);
    fill(pages.memory, pages.bytes, 1);
    const std::size_t large_bytes =
        GENERATE(5000, 30 << 20, in_long_form(100 << 20, 65 << 20));  // in the first extent, or another
    auto* const large = static_cast<char*>(window->allocate(large_bytes));
    fill(large, 5000, 5);
    window->adopt(pages.memory + 7, 4 * 4096);
    auto* const block = static_cast<char*>(window->allocate(5 << 20));
    fill(block, 5000, 2);
    const pid_t child = fork();
    if (child == 0) {
        bool right =
            is_filled(pages.memory, pages.bytes, 1) && is_filled(block, 5000, 2) && is_filled(large, 5000, 5);
        fill(pages.memory, pages.bytes, 3);
        fill(block, 5000, 4);
        fill(large, 5000, 6);
        right &= is_filled(pages.memory, pages.bytes, 3) && is_filled(block, 5000, 4);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(is_filled(pages.memory, pages.bytes, 1));
    CHECK(is_filled(block, 5000, 2));
    CHECK(is_filled(large, 5000, 5));
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
    const Pages pages(8), shared(1, MAP_SHARED), read_only(2);
    Pages hole(3);
    hole.unmap(4096, 4096);
    // The kernel puts no other mapping right under memory that may grow downwards: the hole stays one.
    REQUIRE(mmap(hole.memory + 8192, 4096, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1, 0) == hole.memory + 8192);
    mprotect(read_only.memory, 4096, PROT_READ);
    char local[64] = {};
    static const char constant[64] = "constant";

    CHECK_THAT(refusal(pages.memory, 0), Catch::StartsWith("status -1:"));
    CHECK_THAT(refusal(nullptr, 10), Catch::StartsWith("status -1:"));
    CHECK_THAT(refusal(pages.memory, SIZE_MAX), Catch::StartsWith("status -1:"));
    CHECK_THAT(refusal(pages.memory, std::size_t{1} << 62), Catch::Contains("not all of them are mapped"));
    CHECK_THAT(refusal(local, sizeof local), Catch::StartsWith("status -1:") && Catch::Contains("stack"));
    CHECK_THAT(refusal(constant, sizeof constant), Catch::StartsWith("status -1:"));
    CHECK_THAT(refusal(file, 4096), Catch::StartsWith("status -1:") && Catch::Contains("test_window"));
    CHECK_THAT(refusal(shared.memory, 4096), Catch::StartsWith("status -1:"));
    CHECK_THAT(refusal(hole.memory + 100, 8192),
               Catch::StartsWith("status -1:") && Catch::Contains("not all"));
    CHECK_THAT(refusal(read_only.memory, 8192), Catch::StartsWith("status -1:") && Catch::Contains("r--p"));
    CHECK_THAT(refusal(window->allocate(4096), 4096), Catch::Contains("shared memory already"));
    std::thread([&] {
        char threads[64];
        CHECK_THAT(refusal(threads, sizeof threads), Catch::Contains("stack"));
    }).join();

    window->adopt(pages.memory + 5000, 4096);  // in the second page and the third
    for (const auto& [begin, bytes] : std::vector<std::pair<int, std::size_t>>{
             {5000, 4095}, {5001, 4095}, {4999, 2}, {9095, 1}, {0, 8 * 4096}, {4096, 1000}})
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
    const WindowMemory memory = WindowMemory::make();
    WindowHeap heap(
        {{0, 8192}}, [](Extent) {}, [](auto, auto) {});
    WindowAdopted adopted(memory, heap);
    const Pages pages(3);
    CHECK_THAT(error_of([&] { adopted.adopt(pages.memory, pages.bytes); }),
               Catch::StartsWith("status -9: cannot share the 12288 bytes") &&
                   Catch::Contains("8192 bytes are free"));
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
    CHECK_THAT(error_of([&] { window->restore(pages.memory); }),
               Catch::Contains("no memory that was registered with this communicator begins"));
}

TEST_CASE("a window that goes restores what it adopted") {
    const Pages pages(4);
    Pages gone(4);
    fill(pages.memory, pages.bytes, 3);
    {
        const auto window = open_window_alone();
        window->adopt(pages.memory, pages.bytes);
        window->adopt(gone.memory, gone.bytes);
        gone.unmap(0, gone.bytes);
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
    std::byte* const shared =
        window->at(0, window->offset_of(pages.memory, pages.bytes).value(), pages.bytes);
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
            for (int round = 0; round < in_long_form(100, 40); ++round) {
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
