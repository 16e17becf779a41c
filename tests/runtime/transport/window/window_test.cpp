// Windows between real processes.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/runtime/transport/window/windows.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/sizes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool address_space_is_the_sanitizers = true;
#else
constexpr bool address_space_is_the_sanitizers = false;
#endif

std::size_t open_descriptors() {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

std::string mappings() {
    std::ifstream file("/proc/self/maps");
    return (std::ostringstream() << file.rdbuf()).str();
}

std::uint64_t address_space_in_use() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * 4096;
}

void limit(__rlimit_resource resource, std::uint64_t value) {
    rlimit both{value, value};
    expect(setrlimit(resource, &both) == 0, "to be allowed to lower a limit");
}

bool rings(int fd, int milliseconds) {
    pollfd entry{fd, POLLIN, 0};
    return poll(&entry, 1, milliseconds) == 1;
}

unsigned char mark(int writer, int owner, std::size_t at) {
    return static_cast<unsigned char>(writer * 37 + owner * 101 + static_cast<int>(at % 251) + 1);
}

}  // namespace

TEST_CASE("what one member writes, to its slice or to another's, all read") {
    const int size = GENERATE(1, 2, 4, 32);
    require_success(run_job(
        size,
        [](Rank rank) -> std::string {
            const std::size_t piece = in_long_form(10000, 1001);
            const auto window = open_window(rank, 100);
            expect(window->self() == rank.rank && window->members() == rank.size, "to be who it is");
            for (int member = 0; member < rank.size; ++member)
                for (int at = 0; at < 100; ++at)
                    expect(window->reserved(member)[at] == std::byte{}, "a zeroed reserved area");
            barrier(rank);
            window->reserved(rank.rank)[99] = std::byte(rank.rank + 1);
            const std::size_t bytes = piece * static_cast<std::size_t>(rank.size);
            void* const block = window->allocate(bytes);
            const auto offset = window->offset_of(block, bytes);
            expect(offset && *offset >= 4096, "the block to lie beside the reserved area");
            const auto offsets = gather_offsets(rank, *offset);
            for (int owner = 0; owner < rank.size; ++owner) {
                std::byte* const target = window->at(owner, offsets[owner], bytes) + piece * rank.rank;
                for (std::size_t at = 0; at < piece; ++at) target[at] = std::byte(mark(rank.rank, owner, at));
            }
            barrier(rank);
            for (int owner = 0; owner < rank.size; ++owner) {
                expect(window->reserved(owner)[99] == std::byte(owner + 1), "the mark of the slice's owner");
                const std::byte* const source = window->at(owner, offsets[owner], bytes);
                std::size_t at = 0;
                while (at < bytes &&
                       source[at] == std::byte(mark(static_cast<int>(at / piece), owner, at % piece)))
                    ++at;
                expect(at == bytes, fmt::format("what was written at {} of {}'s block", at, owner));
            }
            barrier(rank);
            window->release(block);
            return "";
        },
        60));
}

TEST_CASE("opening and closing a window leaves no descriptor and no mapping behind") {
    require_success(run_job(3, [](Rank rank) -> std::string {
        open_window(rank);
        const std::size_t before = open_descriptors();
        for (int round = 0; round < 10; ++round) {
            const auto window = open_window(rank);
            std::memset(window->allocate(100000), 1, 100000);
            window->ring((rank.rank + 1) % 3);
            barrier(rank);
        }
        const std::size_t after = open_descriptors();
        barrier(rank);  // a rank that leaves takes its connection along
        expect(after == before, fmt::format("{} descriptors as before, not {}", before, after));
        expect(mappings().find("hocket-window") == std::string::npos, "no mapping to be left");
        return "";
    }));
}

TEST_CASE("blocks are aligned, zero at first, and their pages go back") {
    const auto window = open_window_alone(5000);
    const std::uint64_t all = window->free_bytes();
    CHECK(all == WindowMemory::make().bytes() - 8192);
    CHECK(reinterpret_cast<std::uintptr_t>(window->at(0, 0, 0)) % (2 * MiB) == 0);

    for (const std::size_t alignment : {std::size_t{1}, std::size_t{64}, 4 * KiB, 64 * KiB, 2 * MiB}) {
        auto* const block = static_cast<unsigned char*>(window->allocate(1000, alignment));
        CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
        CHECK(std::all_of(block, block + 1000, [](int byte) { return byte == 0; }));
        window->release(block);
    }
    const std::size_t bytes = 20 * MiB;
    void* const large = window->allocate(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(large) % (2 * MiB) == 0);
    CHECK(window->free_bytes() == all - bytes);
    std::memset(large, 1, bytes);
    CHECK(resident_pages(large, bytes) == bytes / 4096);
    window->release(large);
    CHECK(resident_pages(large, bytes) == 0);
    CHECK(window->free_bytes() == all);
    window->release(nullptr);
}

TEST_CASE("large blocks come in huge pages where the kernel makes them") {
    constexpr int collapse = 25;  // MADV_COLLAPSE
    constexpr std::size_t huge = 2 * MiB;
    const std::size_t bytes = 4 * huge;
    const int fd = memfd_create("probe", MFD_CLOEXEC);
    REQUIRE(ftruncate(fd, huge) == 0);
    auto* const room = static_cast<char*>(
        mmap(nullptr, 2 * huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    REQUIRE(room != MAP_FAILED);
    auto* const probe = room + (-reinterpret_cast<std::uintptr_t>(room) & (huge - 1));
    REQUIRE(mmap(probe, huge, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == probe);
    *probe = 1;
    const bool possible = madvise(probe, huge, collapse) == 0;
    munmap(room, 2 * huge);
    close(fd);
    if (!possible) HOCKET_SKIP("this kernel makes no huge pages of shared memory on request");

    const auto window = open_window_alone();
    std::memset(window->allocate(bytes), 1, bytes);
    std::ifstream smaps("/proc/self/smaps");
    std::size_t kibibytes = 0;
    bool in_window = false;
    for (std::string line; std::getline(smaps, line);) {
        if (line.find("-") < 20 && line.find(" rw-") != line.npos)
            in_window = line.find("hocket-window") != line.npos;
        if (in_window && line.starts_with("ShmemPmdMapped:")) kibibytes += std::stoul(line.substr(15));
    }
    CHECK(kibibytes >= huge / KiB);  // at least one: memory may be fragmented
}

TEST_CASE("what cannot be had or was not given is refused with the figures") {
    const auto window = open_window_alone();
    const std::uint64_t most = WindowMemory::make().extents().back().bytes();
    CHECK_THAT(error_of([&] { window->allocate(most + 1); }),
               Catch::Matches(fmt::format("status -9: no room for {} bytes.*: {} bytes are free, and no more "
                                          "than {} of them in one piece.*ulimit -f.*",
                                          most + 1, window->free_bytes(), most)));
    CHECK_THAT(error_of([&] { window->allocate(SIZE_MAX); }), Catch::StartsWith("status -9: no room for"));
    for (const std::size_t alignment : {std::size_t{0}, std::size_t{24}, 4 * MiB})
        CHECK_THAT(error_of([&] { window->allocate(64, alignment); }),
                   Catch::StartsWith("status -1: alignment"));
    auto* const block = static_cast<std::byte*>(window->allocate(8192));
    int local = 0;
    for (void* wrong : {static_cast<void*>(block + 64), static_cast<void*>(block + 4096),
                        static_cast<void*>(window->reserved(0)), static_cast<void*>(window->at(0, 0, 0)),
                        static_cast<void*>(&local)})
        CHECK_THAT(error_of([&] { window->release(wrong); }), Catch::StartsWith("status -1:"));
    window->release(block);
    CHECK_THAT(error_of([&] { window->release(block); }), Catch::StartsWith("status -1:"));
}

TEST_CASE("offset_of knows this rank's slice only") {
    require_success(run_job(3, [](Rank rank) -> std::string {
        const auto window = open_window(rank);
        const std::uint64_t bytes = in_long_form(100, 65) * MiB;
        const auto* const large = static_cast<std::byte*>(window->allocate(bytes));
        const auto far = window->offset_of(large, bytes);
        expect(far && *far >= 128 * MiB, "a block in another extent");
        expect(window->offset_of(large + 12345, 10) == *far + 12345, "a place there");
        const std::byte* const mine = window->at(rank.rank, 0, 0);
        const std::uint64_t size = first_extent_bytes;
        expect(window->offset_of(mine, 0) == 0u && window->offset_of(mine, size) == 0u, "a whole extent");
        expect(window->offset_of(mine + 12345, 10) == 12345u, "a place in it");
        expect(!window->offset_of(mine + size - 5, 6) && !window->offset_of(mine + 1, SIZE_MAX),
               "nothing for what reaches beyond it");
        expect(window->offset_of(mine + size, 0) != size,
               "the end of an extent is not the next one's beginning");
        expect(!window->offset_of(mine - 1, 1), "nothing for what is before it");
        expect(!window->offset_of(window->at((rank.rank + 1) % 3, 64, 1), 1), "nothing for a peer's");
        int local = 0;
        expect(!window->offset_of(&local, sizeof local), "nothing for other memory");
        expect(!window->offset_of(nullptr, 1), "nothing for null");
        return "";
    }));
}

TEST_CASE("in quarantine a released block keeps its pages and is not given out again") {
    const auto window = open_window_alone();
    const std::size_t bytes = 4 * MiB;
    void* const block = window->allocate(bytes);
    std::memset(block, 7, bytes);
    const std::uint64_t left = window->free_bytes();
    window->quarantine();
    window->release(block);
    CHECK(window->free_bytes() == left);
    CHECK(resident_pages(block, bytes) == bytes / 4096);
    for (int i = 0; i < 8; ++i) {
        auto* const other = static_cast<std::byte*>(window->allocate(bytes));
        CHECK((other + bytes <= block || other >= static_cast<std::byte*>(block) + bytes));
    }
}

TEST_CASE("a doorbell wakes its owner out of poll, and only its owner") {
    require_success(run_job(3, [](Rank rank) -> std::string {
        const auto window = open_window(rank);
        expect(!rings(window->doorbell_fd(), 0), "silence at first");
        barrier(rank);
        if (rank.rank == 0) {
            usleep(100000);
            const double start = now();
            for (int i = 0; i < 10000; ++i) window->ring(1);  // far more than are counted
            window->ring(0);
            expect(now() - start < 5, "ringing not to block");
            expect(rings(window->doorbell_fd(), 1000), "its own bell to ring");
        }
        if (rank.rank == 1) expect(rings(window->doorbell_fd(), 5000), "to be woken");
        barrier(rank);
        if (rank.rank == 2) expect(!rings(window->doorbell_fd(), 0), "the third one's silence");
        window->quiet();
        expect(!rings(window->doorbell_fd(), 0), "silence after quiet()");
        barrier(rank);
        window->ring(1);
        if (rank.rank == 1) expect(rings(window->doorbell_fd(), 5000), "to be woken again");
        return "";
    }));
}

TEST_CASE("a doorbell rings although its ringer's other rings go unheard") {
    // More unread messages than one socket's buffer holds.
    std::vector<std::unique_ptr<Doorbell>> deaf;
    const std::string prefix = WindowInvitation().name();
    const Doorbell ringer(prefix + "-ringer");
    for (int i = 0; i < 100; ++i) {
        const std::string name = fmt::format("{}-{}", prefix, i);
        deaf.push_back(std::make_unique<Doorbell>(name));
        const AbstractAddress address(name);
        for (int ring = 0; ring < 20; ++ring) ringer.ring(address);
    }
    for (const auto& bell : deaf) CHECK(rings(bell->fd(), 0));
    ringer.ring(AbstractAddress(prefix + "-nobody"));  // gone: no error
}

TEST_CASE("a limit on the size of files makes slices smaller, or ends in a clear error") {
    Processes processes;
    for (const std::uint64_t most : {1000 * MiB + 1, 50 * MiB})
        processes.start([=]() -> std::string {
            limit(RLIMIT_FSIZE, most);  // more would raise SIGXFSZ
            const WindowMemory memory = WindowMemory::make();
            const Extent last = memory.extents().back();
            std::memset(memory.at(last.begin, last.bytes()) + last.bytes() - MiB, 1, MiB);
            expect(last.end == memory.bytes() && last.begin == 512 * MiB, "a short extent at the end");
            return fmt::format("{}", memory.bytes() / MiB);
        });
    const auto outcomes = processes.wait();
    CHECK(outcomes[0].text == "1000");
    CHECK_THAT(outcomes[1].text, Catch::Matches("status -9: .*at least 64 MiB.* 50 MiB .ulimit -f.*"));
}

TEST_CASE("offsets that no block can have are refused") {
    const WindowMemory memory = WindowMemory::make();
    for (const auto& [offset, bytes] :
         std::vector<std::pair<std::uint64_t, std::uint64_t>>{{memory.bytes(), 1},
                                                              {memory.bytes() - 1, 2},
                                                              {first_extent_bytes - 1, 2},
                                                              {64 * MiB - 4096, 8192},
                                                              {UINT64_MAX, 1},
                                                              {4096, UINT64_MAX}})
        CHECK_THAT(error_of([&] { memory.at(offset, bytes); }),
                   Catch::StartsWith(
                       fmt::format("status -5: a rank of this host names {} bytes at {}", bytes, offset)));
    for (const unsigned number : {static_cast<unsigned>(memory.extents().size()), 255U})
        CHECK_THAT(error_of([&] { memory.origin(number); }), Catch::StartsWith("status -5: "));
    for (const Extent extent : memory.extents())
        CHECK(reinterpret_cast<std::uintptr_t>(memory.origin(extent_of(extent.begin))) + extent.begin ==
              reinterpret_cast<std::uintptr_t>(memory.at(extent.begin, extent.bytes())));
}

TEST_CASE("addresses are taken as memory is used, by its owner and by those who are told of it") {
    if (address_space_is_the_sanitizers)
        HOCKET_SKIP("the address sanitizer reserves address space of its own");
    require_success(run_job(2, [](Rank rank) -> std::string {
        const int other = 1 - rank.rank;
        const std::uint64_t before = address_space_in_use();
        const auto window = open_window(rank);
        const auto taken = [&] { return (address_space_in_use() - before) / MiB; };
        expect(taken() < 2 * 32 + 32, fmt::format("{} MiB of addresses at first", taken()));
        // Larger than all extents in use, then in an existing one, and larger again.
        std::uint64_t own = 32;
        for (const auto& [size, more] : std::vector<std::pair<std::size_t, std::size_t>>{
                 {20, 0}, {100, 128}, {25, 0}, {32, 32}, {in_long_form(300, 257), 512}}) {
            auto* const block = static_cast<std::byte*>(window->allocate(size * MiB));
            own += more;
            const std::uint64_t bytes = size * MiB;
            block[0] = block[bytes - 1] = std::byte(rank.rank + size);
            const auto offsets = gather_offsets(rank, window->offset_of(block, bytes).value());
            expect(taken() >= 2 * own - more && taken() < 2 * own - more + 32,
                   fmt::format("{} MiB of addresses for {} MiB, and {} of the other's", taken(), own,
                               own - more));
            const std::byte* const theirs = window->at(other, offsets[other], bytes);
            expect(theirs[0] == std::byte(other + size) && theirs[bytes - 1] == std::byte(other + size),
                   "what the other has written");
            expect(taken() >= 2 * own && taken() < 2 * own + 32,
                   fmt::format("{} MiB of addresses for 2 times {} MiB", taken(), own));
        }
        return "";
    }));
}

TEST_CASE("memory that was freed is used again, in each extent, and takes no more addresses") {
    const auto window = open_window_alone();
    const std::uint64_t free = window->free_bytes();
    const std::vector<std::size_t> sizes = is_long_form() ? std::vector<std::size_t>{20, 100, 60, 300, 3}
                                                          : std::vector<std::size_t>{20, 65, 33, 3};
    const auto round = [&] {
        std::vector<void*> blocks;
        std::vector<std::uint64_t> offsets;
        for (const std::size_t size : sizes) {
            blocks.push_back(window->allocate(size * MiB));
            *static_cast<int*>(blocks.back()) = 1;
            offsets.push_back(window->offset_of(blocks.back(), size * MiB).value());
        }
        for (void* block : blocks) window->release(block);
        return offsets;
    };
    const auto first = round();
    CHECK(window->free_bytes() == free);
    const std::uint64_t before = address_space_in_use();
    for (int i = 0; i < in_long_form(3, 1); ++i) CHECK(round() == first);
    CHECK(window->free_bytes() == free);
    CHECK(address_space_in_use() < before + 16 * MiB);
}

TEST_CASE("memory that address space is short for is refused with the limit, and all else goes on") {
    if (address_space_is_the_sanitizers)
        HOCKET_SKIP("the address sanitizer reserves more address space than any limit here leaves");
    const auto outcomes = run_job(2, [](Rank rank) -> std::string {
        const int other = 1 - rank.rank;
        const auto window = open_window(rank);
        const std::size_t bytes = 100 * MiB;
        if (rank.rank == 1) limit(RLIMIT_AS, address_space_in_use() + 80 * MiB);
        std::byte* block = nullptr;
        const std::uint64_t free = window->free_bytes();
        const Pages pages(bytes / 4096 / 2);
        const auto allocate = [&] { block = static_cast<std::byte*>(window->allocate(bytes)); };
        const std::string refusal = error_of(allocate);
        if (rank.rank == 1) {
            const std::string of_adopting = error_of([&] { window->adopt(pages.memory, bytes / 2); });
            expect(of_adopting.starts_with("status -9: ") && !window->has_adopted(), of_adopting);
            expect(window->free_bytes() == free, "nothing to have been taken");
            block = static_cast<std::byte*>(window->allocate(20 * MiB));  // there is room for that
            window->adopt(pages.memory, 4096);
        }
        const auto offsets = gather_offsets(rank, window->offset_of(block, 1).value());
        const std::string of_telling =
            error_of([&] { window->at(other, offsets[other], rank.rank == 0 ? 20 * MiB : bytes); });
        return refusal + "\n" + of_telling;
    });
    CHECK(outcomes[0].text == "no error\nno error");
    CHECK_THAT(
        outcomes[1].text,
        Catch::Matches("(status -9: cannot map 128 MiB more .*: Cannot allocate memory. The address space "
                       "limit .* .ulimit -v. is .* MiB; .* Raise the limit.*\n?){2}"));
}

TEST_CASE("a member whose limits are tighter than the others' says so, and so do they") {
    if (address_space_is_the_sanitizers)
        HOCKET_SKIP("the address sanitizer reserves more address space than any limit here leaves");
    const auto outcomes = run_job(2, [](Rank rank) -> std::string {
        if (rank.rank == 1) limit(RLIMIT_AS, address_space_in_use() + 50 * MiB);
        open_window(rank);
        return "opened";
    });
    CHECK_THAT(outcomes[0].text,
               Catch::StartsWith("status -9: rank 1 of this host, counted from 0: cannot map 32 MiB") &&
                   Catch::Contains("ulimit -v"));
    CHECK_THAT(outcomes[1].text, Catch::StartsWith("status -9: ") && Catch::Contains("cannot map"));
}

TEST_CASE("a window outlives the member that made it") {
    const auto outcomes = run_job(3, [](Rank rank) -> std::string {
        const auto window = open_window(rank);
        window->reserved(0)[64] = std::byte{1};
        barrier(rank);
        if (rank.rank == 0) kill(getpid(), SIGKILL);
        const bool is_lost = eventually([&] { return rank.job.loss().has_value(); });
        expect(is_lost, "rank 0's loss to be known");
        expect(window->reserved(0)[64] == std::byte{1}, "the dead one's slice to be readable");
        window->ring(0);
        window->reserved(rank.rank == 1 ? 2 : 1)[65] = std::byte{2};
        return "";
    });
    CHECK(outcomes[0].signal == SIGKILL);
    CHECK(outcomes[1].exit_code == 0);
    CHECK(outcomes[2].exit_code == 0);
}
