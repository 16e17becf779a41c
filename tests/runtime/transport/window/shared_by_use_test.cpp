// Memory that is shared because it is used again and again: nobody says when the program frees it.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "runtime/transport/window/shared_by_use.hpp"
#include "tests/runtime/transport/window/windows.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;

namespace {

constexpr std::size_t page = 4096, count = 40, total = count * page;

// Sanitizers bring their own malloc, and older kernels cannot be asked.
bool can_share() {
    const std::string obstacle = obstacle_to_sharing_by_use();
    if (!obstacle.empty()) WARN("nothing is shared by use: " << obstacle);
    return obstacle.empty();
}

bool has_only(const char* memory, std::size_t size, char value) {
    return size == 0 || (*memory == value && std::memcmp(memory, memory + 1, size - 1) == 0);
}

void* map_at(void* place, std::size_t size) {
    return mmap(place, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

// A place for a mapping of `size` bytes.
char* place_for(std::size_t size) {
    void* const place = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(place != MAP_FAILED);
    return static_cast<char*>(place);
}

// Memory that a window has shared by use, filled with a value.
struct Used : Pages {
    Used(Window& window, char value) : Pages(count) {
        std::memset(memory, value, total);
        REQUIRE(window.share_by_use(memory, total));
    }
    char* inner() const { return memory + page; }  // the first page stays private
    static constexpr std::size_t inner_bytes = total - page;
};

// Runs the function in a forked child, and returns true if it returned true there.
template <typename Function>
bool in_child(Function function) {
    const pid_t child = fork();
    if (child == 0) _exit(function() ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
}

// As on a kernel before Linux 6.11.
bool refuse_ioctl() {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog filter{sizeof program / sizeof *program, program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

TEST_CASE("memory that is shared by use keeps its contents, and stays shared after the window") {
    if (!can_share()) return;
    auto window = open_window_alone();
    const Used used(*window, 1);
    CHECK(window->lists(used.memory, total));
    CHECK(has_only(used.memory, total, 1));
    CHECK(is_private(used.memory));
    CHECK_FALSE(is_private(used.inner()));
    const auto offset = window->offset_of(used.inner(), Used::inner_bytes);
    REQUIRE(offset);
    CHECK(std::memcmp(window->at(0, *offset, Used::inner_bytes), used.inner(), Used::inner_bytes) == 0);
    const auto whole = window->staging_buffer_for(used.memory, total);
    REQUIRE(whole);
    CHECK(whole->shared_begin == page);
    CHECK(whole->shared_end == total);
    CHECK(window->share_by_use(used.memory, total));  // it is already
    window.reset();
    CHECK_FALSE(is_private(used.inner()));
    CHECK(has_only(used.memory, total, 1));

    // The next window shares it again.
    window = open_window_alone();
    CHECK_FALSE(window->lists(used.memory, total));
    CHECK(window->share_by_use(used.memory, total));
    CHECK(window->offset_of(used.inner(), Used::inner_bytes));
    CHECK(has_only(used.memory, total, 1));
}

TEST_CASE("memory that the program has unmapped, in part or as a whole, is private from then on") {
    if (!can_share()) return;
    struct Hole {
        std::size_t begin, size;
    };
    const auto [begin, size] =
        GENERATE(Hole{0, total}, Hole{page, page}, Hole{total - page, page}, Hole{20 * page, page});
    const bool asks_for_staging = GENERATE(false, true), is_mapped_anew = GENERATE(false, true);
    const auto window = open_window_alone();
    const std::uint64_t free_before = window->free_bytes();
    {
        Used used(*window, 1);
        munmap(used.memory + begin, size);
        if (is_mapped_anew) {
            REQUIRE(map_at(used.memory + begin, size) == used.memory + begin);
            std::memset(used.memory + begin, 2, size);
        } else {
            used.unmap(begin, size);
        }
        if (asks_for_staging)
            CHECK_FALSE(window->staging_buffer_for(used.memory, total));
        else
            CHECK_FALSE(window->offset_of(used.inner(), Used::inner_bytes));
        CHECK_FALSE(window->lists(used.memory, total));
        if (is_mapped_anew) CHECK(has_only(used.memory + begin, size, 2));
        // A part is still mapped: its block is in use.
        CHECK((window->free_bytes() < free_before) == (size < total));
    }
    const Used other(*window, 3);
    CHECK(window->free_bytes() == free_before - total);
}

// In a process of its own, because the heap stays shared.
TEST_CASE("memory of malloc may be freed, allocated again, and grow") {
    if (!can_share()) return;
    const std::size_t size = GENERATE(70'000, 1'000'000, 40'000'000);
    CHECK(in_child([&] {
        const auto window = open_window_alone();
        auto* memory = static_cast<char*>(std::malloc(size));
        bool right = true;
        for (int round = 0; round < (size > 1'000'000 ? in_long_form(10, 4) : 10); ++round) {
            const auto value = static_cast<char>(round);
            std::memset(memory, value, size);
            window->share_by_use(memory, size);
            right &= has_only(memory, size, value);
            if (round % 3 == 2) {
                memory = static_cast<char*>(std::realloc(memory, 2 * size));
                right &= has_only(memory, size, value);
            }
            std::free(memory);
            memory = static_cast<char*>(std::calloc(size, 1));
            right &= has_only(memory, size, 0);
            if (const auto staging = window->staging_buffer_for(memory, size))  // the heap is shared still
                right &= has_only(reinterpret_cast<char*>(staging->memory) + staging->shared_begin,
                                  staging->shared_end - staging->shared_begin, 0);
        }
        std::free(memory);
        return right;
    }));
}

TEST_CASE("a block whose mapping the program has moved is not used again before that is gone") {
    if (!can_share()) return;
    const auto window = open_window_alone();
    const std::uint64_t free_before = window->free_bytes();
    Used used(*window, 1);
    char* const place = place_for(Used::inner_bytes);
    REQUIRE(mremap(used.inner(), Used::inner_bytes, Used::inner_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                   place) == place);
    used.unmap(page, Used::inner_bytes);
    CHECK_FALSE(window->staging_buffer_for(used.memory, total));
    CHECK(window->free_bytes() == free_before - total);
    const Used second(*window, 2), third(*window, 3);
    CHECK(has_only(place, Used::inner_bytes, 1));
    std::memset(place, 4, Used::inner_bytes);
    CHECK(has_only(second.memory, total, 2));
    CHECK(has_only(third.memory, total, 3));
    munmap(place, Used::inner_bytes);
    const Used fourth(*window, 5), fifth(*window, 5);
    {
        Used gone(*window, 6);
        gone.unmap(0, total);
        CHECK_FALSE(window->staging_buffer_for(gone.memory, total));
    }
    CHECK(window->free_bytes() == free_before - 4 * total);
}

TEST_CASE("the program cannot enlarge a mapping into the next block") {
    if (!can_share()) return;
    const auto window = open_window_alone();
    const Used used(*window, 1), next(*window, 2);
    void* const grown = mremap(used.memory, total, 2 * total, MREMAP_MAYMOVE);
    CHECK(grown == MAP_FAILED);
    CHECK(has_only(used.memory, total, 1));
}

TEST_CASE("a forked child has its own copy of memory that is shared by use, wherever it is by then") {
    if (!can_share()) return;
    const auto window = open_window_alone();
    Used used(*window, 1), moved(*window, 2), reused(*window, 3);
    char* const place = place_for(Used::inner_bytes);
    REQUIRE(mremap(moved.inner(), Used::inner_bytes, Used::inner_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                   place) == place);
    moved.unmap(page, Used::inner_bytes);
    // Where memory was shared by use there is something else now.
    REQUIRE(map_at(reused.memory, total) == reused.memory);
    std::memset(reused.memory, 4, total);
    CHECK(in_child([&] {
        bool right = has_only(used.memory, total, 1) && has_only(place, Used::inner_bytes, 2) &&
                     has_only(reused.memory, total, 4) && is_private(used.inner()) && is_private(place);
        std::memset(used.memory, 11, total);
        std::memset(place, 12, Used::inner_bytes);
        std::memset(reused.memory, 14, total);
        return right && has_only(used.memory, total, 11) && has_only(place, Used::inner_bytes, 12);
    }));
    CHECK(has_only(used.memory, total, 1));
    CHECK(has_only(place, Used::inner_bytes, 2));
    CHECK(has_only(reused.memory, total, 4));
    // The parent goes on with it.
    CHECK(window->offset_of(used.inner(), Used::inner_bytes));
    munmap(place, Used::inner_bytes);
}

TEST_CASE("a forked child has its own copy of memory whose window is gone, and shares memory of its own") {
    if (!can_share()) return;
    auto window = open_window_alone();
    const Used used(*window, 1);
    window.reset();
    const int descriptors = GENERATE(0, 1);  // with and without room for more descriptors
    std::vector<int> taken;
    for (int fd; descriptors == 1 && (fd = dup(0)) >= 0;) taken.push_back(fd);
    CHECK(in_child([&] {
        for (const int fd : taken) close(fd);
        const bool is_own = is_private(used.inner());
        std::memset(used.memory, 9, total);
        const auto own = open_window_alone();
        const Used also(*own, 2);
        // Memory of the parent's window stays as it is.
        return is_own && own->offset_of(also.inner(), Used::inner_bytes).has_value() &&
               !own->share_by_use(used.memory, total) && has_only(used.memory, total, 9);
    }));
    for (const int fd : taken) close(fd);
    CHECK(has_only(used.memory, total, 1));
}

TEST_CASE("registering memory that is shared by use makes it registered, or takes its place") {
    if (!can_share()) return;
    const auto window = open_window_alone();
    const Used same(*window, 1), other(*window, 2);
    const auto refusal = error_of([&] { window->restore(same.memory); });
    CHECK_THAT(refusal, Catch::Contains("no memory that was registered with this communicator begins"));
    window->adopt(same.memory, total);
    window->adopt(same.memory, total);
    window->restore(same.memory);
    CHECK_FALSE(is_private(same.inner()));
    window->restore(same.memory);
    CHECK(is_private(same.inner()));
    CHECK(has_only(same.memory, total, 1));
    CHECK_FALSE(window->lists(same.memory, total));

    // It begins in the middle of a page.
    window->adopt(other.memory + 5000, 10 * page);
    CHECK(has_only(other.memory, total, 2));
    CHECK_FALSE(window->lists(other.memory, total));
    CHECK(window->lists(other.memory + 5000, 10 * page));
    CHECK_FALSE(window->share_by_use(other.memory, total));
    std::memset(other.memory, 3, total);
    window->restore(other.memory + 5000);
    CHECK(has_only(other.memory, total, 3));
    CHECK_FALSE(is_private(other.memory + 20 * page));  // left over
    CHECK(in_child([&] {
        std::memset(other.memory, 4, total);
        return is_private(other.memory + 20 * page);
    }));
    CHECK(has_only(other.memory, total, 3));
}

TEST_CASE("nothing is shared by use where the kernel cannot be asked") {
    if (!can_share()) return;
    CHECK(in_child([] {
        const auto window = open_window_alone();
        const Pages pages(count);
        return refuse_ioctl() && !obstacle_to_sharing_by_use().empty() &&
               !window->share_by_use(pages.memory, total) && is_private(pages.memory + page);
    }));
    // Memory that was shared before is not believed any more, and its block is not used again.
    CHECK(in_child([] {
        const auto window = open_window_alone();
        const std::uint64_t free_before = window->free_bytes();
        const Used used(*window, 1);
        return refuse_ioctl() && !window->staging_buffer_for(used.memory, total) &&
               window->free_bytes() == free_before - total && has_only(used.memory, total, 1);
    }));
}

TEST_CASE("nothing is shared by use where malloc is not the C library's") {
    if (!can_share()) return;
    CHECK(in_child([] {
        unsetenv("HOCKET_TEST_COUNTS");
        setenv("LD_PRELOAD", "libc_malloc_debug.so.0", 1);  // glibc's own, for checks
        execl("/proc/self/exe", "test_window", "obstacle of another malloc", nullptr);
        return false;
    }));
}

TEST_CASE("obstacle of another malloc", "[.]") {
    CHECK_THAT(obstacle_to_sharing_by_use(), Catch::Contains("malloc"));
}

TEST_CASE("memory that may be written by others, or is none of malloc's, is not shared by use") {
    if (!can_share()) return;
    const auto window = open_window_alone();
    const std::uint64_t free_before = window->free_bytes();
    const Pages pages(count), shared(count, MAP_SHARED), locked(1);
    char local[20 * page];
    CHECK_FALSE(window->share_by_use(local, sizeof local));
    CHECK_FALSE(window->share_by_use(shared.memory, total));
    CHECK_FALSE(window->share_by_use(nullptr, total));
    CHECK_FALSE(window->share_by_use(pages.memory + 1, page));  // no whole page
    CHECK_FALSE(window->share_by_use(window->allocate(total), total));
    REQUIRE(mlock(locked.memory, page) == 0);
    CHECK_FALSE(window->share_by_use(pages.memory, total));
    munlock(locked.memory, page);
    window->adopt(pages.memory + page, page);
    CHECK_FALSE(window->share_by_use(pages.memory, total));
    window->restore(pages.memory + page);
    CHECK(window->free_bytes() == free_before - total);
    CHECK(window->share_by_use(pages.memory, total));
    CHECK_FALSE(window->share_by_use(pages.memory + 5 * page, total));  // operations may use the first one
}
