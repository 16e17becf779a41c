// Shared memory is the process's: good for all its communicators, whichever it came from.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

constexpr std::size_t float_count = 300000;  // large enough to be used in place
constexpr std::uint64_t mebibyte = 1 << 20;

#ifdef __SANITIZE_ADDRESS__
constexpr bool address_space_is_the_sanitizers = true;
#else
constexpr bool address_space_is_the_sanitizers = false;
#endif

std::uint64_t address_space_in_use() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * 4096;
}

bool is_shared(hkt_comm* comm, const void* memory, std::size_t bytes) {
    int answer = -1;
    must(comm, hkt_mem_is_shared(comm, memory, bytes, &answer));
    return answer == 1;
}

void require_sum_in(hkt_comm* comm, float* data, float mine, float expected) {
    std::fill(data, data + float_count, mine);
    must(comm, hkt_all_reduce(data, data, float_count, HKT_FLOAT32, HKT_SUM, comm, nullptr));
    const auto* const wrong =
        std::find_if(data, data + float_count, [&](float value) { return value != expected; });
    if (wrong != data + float_count)
        expect(false, "the sum is " + std::to_string(*wrong) + ", not " + std::to_string(expected));
}

struct Mapped {
    std::size_t areas = 0;
    std::uint64_t bytes = 0;
};
Mapped mapped_windows() {
    Mapped mapped;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find("hocket-window") == line.npos) continue;
        ++mapped.areas;
        mapped.bytes +=
            std::stoull(line.substr(line.find('-') + 1), nullptr, 16) - std::stoull(line, nullptr, 16);
    }
    return mapped;
}

// The shared memory that this process has touched.
std::uint64_t resident_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("RssShmem:")) return std::stoull(line.substr(9)) * 1024;
    return 0;
}

}  // namespace

TEST_CASE("memory that one communicator has allocated or registered is shared for all") {
    const auto outcomes = run_ranks({4}, [](int rank) {
        const Comm first = join();
        const Comm second = split(first.get(), 0), half = split(first.get(), rank / 2);
        auto* block = static_cast<float*>(nullptr);
        must(first.get(),
             hkt_mem_alloc(first.get(), float_count * sizeof *block, reinterpret_cast<void**>(&block)));
        std::vector<float> plain(float_count);
        const std::size_t bytes = float_count * sizeof(float);
        expect(!is_shared(first.get(), plain.data(), bytes), "private at first");
        for (const Comm* comm : {&first, &second, &half}) {
            expect(is_shared(comm->get(), block, bytes), "a block");
            expect(is_shared(comm->get(), block + 7, bytes - 28), "a part of a block");
            must(comm->get(), hkt_mem_register(comm->get(), plain.data(), bytes));
            expect(is_shared(comm->get(), plain.data(), bytes), "what was registered");
        }
        for (const Comm* comm : {&first, &second}) {
            require_sum_in(comm->get(), block, static_cast<float>(rank), 6);
            require_sum_in(comm->get(), plain.data(), static_cast<float>(rank), 6);
        }
        require_sum_in(half.get(), block, static_cast<float>(rank), rank < 2 ? 1 : 5);
        require_sum_in(half.get(), plain.data(), static_cast<float>(rank), rank < 2 ? 1 : 5);
        must(second.get(), hkt_mem_deregister(second.get(), plain.data()));
        expect(hkt_mem_deregister(second.get(), plain.data()) == HKT_ERROR_INVALID_ARGUMENT,
               "once too often");
        must(first.get(), hkt_mem_deregister(first.get(), plain.data()));
        expect(is_shared(first.get(), plain.data(), bytes), "the group has registered it, too");
        must(half.get(), hkt_mem_deregister(half.get(), plain.data()));
        expect(!is_shared(first.get(), plain.data(), bytes), "private again");
        expect(hkt_mem_free(half.get(), block) == HKT_ERROR_INVALID_ARGUMENT, "another one's block");
        must(first.get(), hkt_mem_free(first.get(), block));
        require_sum_in(half.get(), plain.data(), 1, 2);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("what a communicator has registered is private when it is destroyed, unless others have, too") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        const Comm first = join();
        std::vector<float> mine(float_count), both(float_count);
        {
            const Comm second = split(first.get(), 0);
            must(second.get(), hkt_mem_register(second.get(), mine.data(), float_count * sizeof(float)));
            must(second.get(), hkt_mem_register(second.get(), both.data(), float_count * sizeof(float)));
            must(first.get(), hkt_mem_register(first.get(), both.data(), float_count * sizeof(float)));
            require_sum_in(first.get(), mine.data(), static_cast<float>(rank), 1);
        }
        expect(!is_shared(first.get(), mine.data(), float_count * sizeof(float)), "it is private");
        expect(is_shared(first.get(), both.data(), float_count * sizeof(float)), "it is shared");
        require_sum_in(first.get(), mine.data(), 2, 4);
        require_sum_in(first.get(), both.data(), 3, 6);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("addresses are taken in proportion to what the ranks of a host share") {
    if (address_space_is_the_sanitizers)
        HOCKET_SKIP("the address sanitizer reserves address space of its own");
    const int ranks = GENERATE(2, in_long_form(8, 4));
    const auto outcomes = run_ranks({ranks}, [ranks](int rank) {
        const auto all = static_cast<std::uint64_t>(ranks);
        const std::uint64_t before = address_space_in_use();
        const Comm comm = join();
        const std::uint64_t grown = address_space_in_use() - before;
        expect(grown < 300 * mebibyte + all * 32 * mebibyte,
               "not so many MiB of addresses: " + std::to_string(grown / mebibyte));
        expect(mapped_windows().bytes == all * 32 * mebibyte, "32 MiB of each rank");
        std::vector<float> plain(float_count);
        require_sum_in(comm.get(), plain.data(), static_cast<float>(rank),
                       static_cast<float>(ranks * (ranks - 1) / 2));
        expect(mapped_windows().bytes == all * 32 * mebibyte, "nothing more for private memory");
        void* memory = nullptr;
        must(comm.get(), hkt_mem_alloc(comm.get(), 100 * mebibyte, &memory));
        must(comm.get(), hkt_barrier(comm.get()));
        expect(mapped_windows().bytes == (all * 32 + 128) * mebibyte, "its own block, and nobody else's yet");
        require_sum_in(comm.get(), static_cast<float*>(memory), static_cast<float>(rank),
                       static_cast<float>(ranks * (ranks - 1) / 2));
        must(comm.get(), hkt_barrier(comm.get()));
        const std::uint64_t mapped = mapped_windows().bytes / mebibyte;
        expect(mapped > all * 32 + 128 && mapped <= all * (32 + 128),
               "others' blocks, too: " + std::to_string(mapped) + " MiB");
        must(comm.get(), hkt_barrier(comm.get()));
        if (rank == 0)
            must(comm.get(), hkt_send(memory, float_count, HKT_FLOAT32, 1, 7, comm.get(), nullptr));
        if (rank == 1)
            must(comm.get(), hkt_recv(memory, float_count, HKT_FLOAT32, 0, 7, comm.get(), nullptr));
        expect(mapped_windows().bytes <= all * (32 + 128) * mebibyte, "no more for a message");
        must(comm.get(), hkt_barrier(comm.get()));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("groups take the addresses of their own parts, and what they had is used again") {
    const auto outcomes = run_ranks({3}, [](int) {
        const Comm comm = join();
        const Mapped before = mapped_windows();
        expect(before.areas == 3, "the memory of three ranks, not of " + std::to_string(before.areas));
        std::vector<float> data(float_count);
        std::vector<Comm> groups;
        for (int i = 0; i < 20; ++i) {
            groups.push_back(split(comm.get(), 0));
            require_sum_in(groups.back().get(), data.data(), 1, 3);
        }
        const std::uint64_t with_groups = mapped_windows().bytes;
        expect(with_groups <= 8 * before.bytes,
               "no more addresses for 20 groups than " + std::to_string(with_groups));
        groups.clear();
        std::uint64_t settled = 0;
        for (int i = 0; i < 60; ++i) {
            require_sum_in(split(comm.get(), 0).get(), data.data(), 1, 3);
            if (i == 20) settled = resident_bytes();
        }
        expect(mapped_windows().bytes == with_groups, "no more addresses");
        expect(settled > 0, "to see shared memory");
        expect(resident_bytes() < settled + (16 << 20), "no more memory than " + std::to_string(settled) +
                                                            ", not " + std::to_string(resident_bytes()));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("after a loss registered memory is shared for the communicator of those that are left") {
    const Tally met;
    const auto outcomes = run_ranks({3}, [&](int rank) {
        Comm comm = join();
        std::vector<float> data(float_count);
        must(comm.get(), hkt_mem_register(comm.get(), data.data(), float_count * sizeof(float)));
        require_sum_in(comm.get(), data.data(), 1, 3);
        met.meet(3);  // the others may still be in the sum
        if (rank == 1) _exit(0);
        expect(hkt_all_reduce(data.data(), data.data(), float_count, HKT_FLOAT32, HKT_SUM, comm.get(),
                              nullptr) == HKT_ERROR_PEER_LOST,
               "the loss to be noticed");
        hkt_comm* rest = nullptr;
        must(comm.get(), hkt_comm_shrink(comm.get(), &rest));
        const Comm shrunk(rest);
        expect(is_shared(rest, data.data(), float_count * sizeof(float)), "it is still registered");
        require_sum_in(rest, data.data(), 2, 4);
        must(rest, hkt_mem_register(rest, data.data(), float_count * sizeof(float)));
        comm.reset();
        expect(is_shared(rest, data.data(), float_count * sizeof(float)), "the new one has registered it");
        require_sum_in(rest, data.data(), 3, 6);
    });
    CHECK(outcomes[0].text == "");
    CHECK(outcomes[2].text == "");
}

TEST_CASE("memory is used again after a group has failed, however it failed") {
    const auto shared_pages = [] {
        std::ifstream statm("/proc/self/statm");
        std::uint64_t all = 0, resident = 0, shared = 0;
        statm >> all >> resident >> shared;
        return shared;
    };
    for (const std::string& how : std::vector<std::string>{"abort", "mismatch", "timeout", "loss"}) {
        INFO(how);
        const Tally met, closed;  // closed: the group that failed
        const auto outcomes =
            run_ranks({3, {{"HOCKET_TIMEOUT_MS", how == "timeout" ? "3000" : "20000"}}}, [&](int rank) {
                const Comm comm = join();
                const Comm works = split(comm.get(), rank == 2 ? 1 : 0);  // ranks 0 and 1
                Comm fails = split(comm.get(), 0);
                require_sum_in(fails.get(), std::vector<float>(float_count).data(), 1, 3);
                met.meet(3);  // the others may still be in the sum
                std::vector<float> x(10 + static_cast<std::size_t>(rank));
                if (rank == 2 && how == "loss") _exit(0);
                if (rank == 2 && how == "abort") hkt_comm_abort(fails.get());
                const auto use = [&] {
                    return hkt_all_reduce(x.data(), x.data(), how == "mismatch" ? x.size() : 10, HKT_FLOAT32,
                                          HKT_SUM, fails.get(), nullptr);
                };
                if (rank == 2 && how == "timeout")
                    closed.await(2);  // the others have waited for it in vain
                else
                    expect(use() != HKT_SUCCESS, "the group to fail");
                fails.reset();
                closed.add();
                if (rank == 2) return;
                closed.await(how == "loss" ? 2 : 3);
                const auto rounds = [&](int all) {
                    for (int round = 0; round < all; ++round) {
                        void* memory = nullptr;
                        must(works.get(), hkt_mem_alloc(works.get(), mebibyte, &memory));
                        std::memset(memory, 1, mebibyte);
                        must(works.get(), hkt_all_reduce(memory, memory, mebibyte / 4, HKT_INT32, HKT_SUM,
                                                         works.get(), nullptr));
                        must(works.get(), hkt_mem_free(works.get(), memory));
                    }
                };
                rounds(5);
                const std::uint64_t before = shared_pages();
                rounds(60);
                const std::uint64_t after = shared_pages(), grown = after - std::min(before, after);
                expect(grown * 4096 < 8 * mebibyte, std::to_string(grown) + " pages in 60 rounds of 256");
            });
        CHECK(outcomes[0].text == "");
        CHECK(outcomes[1].text == "");
    }
}

TEST_CASE("whether memory is shared needs a place for the answer") {
    const auto outcomes = run_ranks({1}, [](int) {
        const Comm comm = join();
        int answer = 7;
        expect(hkt_mem_is_shared(comm.get(), &answer, 4, nullptr) == HKT_ERROR_INVALID_ARGUMENT, "no place");
        expect(hkt_mem_is_shared(nullptr, &answer, 4, &answer) == HKT_ERROR_INVALID_ARGUMENT,
               "no communicator");
        must(comm.get(), hkt_mem_is_shared(comm.get(), nullptr, 4, &answer));
        expect(answer == 0, "null is not shared");
        must(comm.get(), hkt_mem_is_shared(comm.get(), &comm, SIZE_MAX, &answer));
        expect(answer == 0, "not so many bytes");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("buffers become shared by use where the option says so, and are not registered then") {
    CHECK(problems(run_ranks({2, {{"HOCKET_SHARE_BUFFERS", "off"}}, 60}, [](int rank) {
              hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
              options.share_buffers = 3;
              hkt_comm* none = nullptr;
              expect(hkt_comm_create(&options, &none) == HKT_ERROR_INVALID_ARGUMENT &&
                         std::string(hkt_last_error()).find("share_buffers is 3") != std::string::npos,
                     "a value that does not exist to be refused");
              options.share_buffers = HKT_SHARE_BUFFERS_ON;
              const Comm comm = join(&options);
              std::vector<float> buffer(float_count);
              const auto shared = [&] {
                  return is_shared(comm.get(), buffer.data(), float_count * sizeof(float));
              };
              for (int use = 0; use < 4; ++use)
                  require_sum_in(comm.get(), buffer.data(), static_cast<float>(rank + use),
                                 static_cast<float>(1 + 2 * use));
              if (!shared()) return;  // this process cannot (tests/runtime/transport/window)
              failure_of(comm.get(), hkt_mem_deregister(comm.get(), buffer.data()),
                         HKT_ERROR_INVALID_ARGUMENT);
              expect(shared(), "the buffer to be shared still");
              must(comm.get(), hkt_mem_register(comm.get(), buffer.data(), float_count * sizeof(float)));
              require_sum_in(comm.get(), buffer.data(), 1, 2);
              must(comm.get(), hkt_mem_deregister(comm.get(), buffer.data()));
              expect(!shared(), "the buffer to be private");
              require_sum_in(comm.get(), buffer.data(), 2, 4);
          })) == "");
}
