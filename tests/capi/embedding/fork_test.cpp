// A rank forks: its child's use of inherited objects affects only the child.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/embedding/children.hpp"
#include "tests/capi/embedding/ways.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

// A sum over all ranks, out of place; each rank gives rank + 1.
void require_sum_of_ranks(hkt_comm* comm, std::size_t count, const std::string& when) {
    const int ranks = hkt_comm_size(comm);
    std::vector<std::int64_t> mine(count, hkt_comm_rank(comm) + 1), sum(count, -1);
    must(comm, hkt_all_reduce(mine.data(), sum.data(), count, HKT_INT64, HKT_SUM, comm, nullptr));
    for (const std::int64_t value : sum)
        expect(value == ranks * (ranks + 1) / 2, "the sum " + when + " is " + std::to_string(value));
}

void require_refusal(hkt_status status) {
    const std::string text = hkt_last_error();
    expect(status == HKT_ERROR_INVALID_ARGUMENT,
           "a child's call is " + std::string(hkt_error_string(status)));
    expect(text.find("forked") != std::string::npos, "the text of a child's call is: " + text);
}

// Checks that a child's calls on its parent's communicator, other than operations, are refused.
void require_refusals(hkt_comm* parents, hkt_plan* plan, hkt_request* request) {
    float x[10] = {};
    hkt_request* none = nullptr;
    require_refusal(hkt_recv_any(x, 1, HKT_FLOAT32, 7, nullptr, parents, &none));
    require_refusal(hkt_barrier_monitored(parents, 10));
    require_refusal(hkt_request_join(&request, 1, &none));
    hkt_comm* made = nullptr;
    const std::int32_t first = 0;
    const hkt_unique_id id{};
    require_refusal(hkt_comm_split(parents, 0, 0, &made));
    require_refusal(hkt_comm_create_group(parents, &first, 1, &made));
    require_refusal(hkt_comm_shrink(parents, &made));
    require_refusal(hkt_comm_grow(parents, HKT_ALL_WAITING, &id, &made));
    std::size_t count = 0;
    require_refusal(hkt_comm_lost(parents, nullptr, 0, &count));
    require_refusal(hkt_comm_dump(parents, "/nowhere"));
    require_refusal(hkt_comm_set_stream(parents, nullptr));
    int is_shared = 0;
    require_refusal(hkt_mem_free(parents, x));
    require_refusal(hkt_mem_deregister(parents, x));
    require_refusal(hkt_mem_is_shared(parents, x, sizeof x, &is_shared));
    hkt_op op;
    require_refusal(hkt_op_create(parents, "absmax", &op));
    require_refusal(hkt_op_destroy(HKT_SUM, parents));
    require_refusal(hkt_plan_start_with(plan, x, x, 10, nullptr, &none));
    require_refusal(hkt_plan_save_state(plan, nullptr, 0, &count));
    const void* const saved = x;
    const std::size_t bytes = sizeof x;
    require_refusal(hkt_plan_load_state(plan, &saved, &bytes, 1));
    expect(hkt_plan_parameter(plan, 0) == nullptr, "a parameter");
    expect(std::string(hkt_plan_schedule(plan, 10)).empty(), "schedule");
    expect(std::string(hkt_comm_last_error(parents)) == hkt_last_error(), "the text is the child's");
    expect(none == nullptr && made == nullptr, "nothing is made");
}

}  // namespace

TEST_CASE("a forked child cannot use its parent's handles, and the parent's job goes on") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({3, way}, [](int rank) {
            const Comm comm = join();
            std::vector<float> data(5000, 1);
            hkt_plan* plan = nullptr;
            must(comm.get(),
                 hkt_plan_create(comm.get(), HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, nullptr, &plan));
            require_sum_of_ranks(comm.get(), 20000, "before the fork");
            hkt_request* request = nullptr;
            std::vector<float> result(5000);
            must(comm.get(), hkt_plan_start(plan, data.data(), result.data(), data.size(), &request));
            if (rank != 2)
                in_child([&] {
                    hkt_comm* const parents = comm.get();
                    float* const x = data.data();
                    void* memory = nullptr;
                    hkt_op op;
                    require_refusal(hkt_all_reduce(x, x, 5000, HKT_FLOAT32, HKT_SUM, parents, nullptr));
                    require_refusal(hkt_all_gather(x, x, 1, HKT_FLOAT32, parents, nullptr));
                    require_refusal(hkt_send(x, 1, HKT_FLOAT32, 2, 7, parents, nullptr));
                    require_refusal(hkt_recv(x, 1, HKT_FLOAT32, 2, 7, parents, nullptr));
                    require_refusal(hkt_barrier(parents));
                    hkt_request* none = nullptr;
                    require_refusal(hkt_barrier_start(parents, &none));
                    require_refusal(hkt_wait(request));
                    require_refusal(hkt_test(request));
                    require_refusal(hkt_wait_for(request, 10));
                    std::size_t index = 0;
                    require_refusal(hkt_wait_any(&request, 1, 10, &index));
                    require_refusal(hkt_request_eventfd(request, 0));
                    require_refusal(hkt_request_callback(
                        request, [](void*) {}, nullptr));
                    require_refusal(hkt_plan_start(plan, x, x, 5000, nullptr));
                    require_refusal(hkt_plan_reset_state(plan));
                    require_refusal(hkt_comm_status(parents));
                    require_refusal(hkt_comm_abort(parents));
                    require_refusal(hkt_mem_alloc(parents, 10, &memory));
                    require_refusal(hkt_mem_register(parents, x, 10));
                    require_refusal(hkt_premul_sum_create(2, parents, &op));
                    hkt_plan* another = nullptr;
                    require_refusal(
                        hkt_plan_create(parents, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, nullptr, &another));
                    require_refusals(parents, plan, request);
                    expect(hkt_comm_rank(parents) == -1 && hkt_comm_size(parents) == -1, "rank and size");
                    expect(hkt_comm_info(parents, "topology") == nullptr, "info");
                    expect(std::string(hkt_plan_explain(plan)).empty(), "explain");
                    hkt_plan_destroy(plan);
                    hkt_comm_destroy(parents);
                });
            must(comm.get(), hkt_wait(request));
            for (const float value : result) expect(value == 3, "the sum beside the fork");
            require_sum_of_ranks(comm.get(), 20000, "after the fork");
            require_sum_of_ranks(comm.get(), 3, "after the fork, of three elements");
            hkt_plan_destroy(plan);
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a forked child may have a communicator of its own") {
    const auto outcomes = run_ranks({2}, [](int) {
        const Comm comm = join();
        require_sum_of_ranks(comm.get(), 1000, "before the fork");
        in_child([&] {
            const Comm own = alone();
            require_sum_of_ranks(own.get(), 1000, "in the child");
            in_child([&] {  // and its own children none of either
                std::vector<float> data(10);
                for (hkt_comm* const parents : {own.get(), comm.get()})
                    require_refusal(
                        hkt_all_reduce(data.data(), data.data(), 10, HKT_FLOAT32, HKT_SUM, parents, nullptr));
            });
        });
        require_sum_of_ranks(comm.get(), 1000, "after the fork");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank's death is noticed while a forked child of it lives") {
    for (const auto& way : ways) {
        auto environment = way;
        environment["HOCKET_HEARTBEAT_TIMEOUT_MS"] = environment["HOCKET_TIMEOUT_MS"] = "3600000";
        struct Shared {
            std::atomic<pid_t> child;
            std::atomic<int> survivors;
        };
        auto* const shared = new (shared_memory(sizeof(Shared))) Shared{};
        const Tally met;
        // A survivor that does not notice is ended by its deadline, while the child still lives.
        const auto outcomes = run_ranks({3, environment, 30}, [&, shared](int rank) {
            const Comm comm = join();
            require_sum_of_ranks(comm.get(), 1000, "before the death");
            met.meet(3);  // the others may still be in the sum
            if (rank == 1) {
                const pid_t child = fork();
                if (child == 0) {
                    alarm(40);
                    for (;;) pause();
                }
                shared->child = child;
                raise(SIGKILL);
            }
            std::vector<float> data(1000);
            hkt_status status = HKT_SUCCESS;
            while (status == HKT_SUCCESS)
                status =
                    hkt_all_reduce(data.data(), data.data(), 1000, HKT_FLOAT32, HKT_SUM, comm.get(), nullptr);
            expect(status == HKT_ERROR_PEER_LOST, hkt_comm_last_error(comm.get()));
            if (++shared->survivors == 2 && shared->child > 0) kill(shared->child, SIGKILL);
        });
        CHECK(outcomes[1].signal == SIGKILL);
        for (const int survivor : {0, 2}) CHECK(outcomes[survivor].text == "");
    }
}

namespace {

// Allocates and frees, so that the allocator writes beside its blocks.
void shake_heap() {
    std::vector<void*> blocks;
    for (std::size_t round = 0; round < 20; ++round) {
        for (std::size_t size = 8; size < 20000; size += 61) {
            blocks.push_back(std::malloc(size));
            std::memset(blocks.back(), 0x5a, size);
        }
        for (std::size_t i = 0; i < blocks.size(); i += 2) std::free(std::exchange(blocks[i], nullptr));
    }
    for (void* block : blocks) std::free(block);
}

}  // namespace

TEST_CASE("registered memory that shares pages with the heap survives forks, on both sides") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        const Comm comm = join();
        for (const std::size_t count : {std::size_t{10}, std::size_t{3000}, std::size_t{300001}}) {
            std::vector<float> send(count), recv(count, -1);
            std::iota(send.begin(), send.end(), static_cast<float>(rank));
            must(comm.get(), hkt_mem_register(comm.get(), send.data(), count * sizeof(float)));
            must(comm.get(), hkt_mem_register(comm.get(), recv.data(), count * sizeof(float)));
            const auto reduce = [&](const std::string& when) {
                std::fill(recv.begin(), recv.end(), -1.0F);
                must(comm.get(), hkt_all_reduce(send.data(), recv.data(), count, HKT_FLOAT32, HKT_SUM,
                                                comm.get(), nullptr));
                for (std::size_t i = 0; i < count; ++i)
                    expect(recv[i] == 2 * static_cast<float>(i) + 1,
                           "element " + std::to_string(i) + " " + when);
            };
            reduce("before the fork");
            in_child([&] {
                for (std::size_t i = 0; i < count; ++i)
                    expect(send[i] == static_cast<float>(i + static_cast<std::size_t>(rank)),
                           "what a child reads");
                shake_heap();
                std::fill(send.begin(), send.end(), 1e9F);
                std::fill(recv.begin(), recv.end(), 1e9F);
                shake_heap();
                for (const float value : send) expect(value == 1e9F, "what a child has written");
            });
            shake_heap();
            must(comm.get(), hkt_barrier(comm.get()));
            reduce("after the fork");
            must(comm.get(), hkt_mem_deregister(comm.get(), send.data()));
            must(comm.get(), hkt_mem_deregister(comm.get(), recv.data()));
            reduce("deregistered");
        }
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("memory from hkt_mem_alloc is a child's own") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        const Comm comm = join();
        constexpr std::size_t count = 200000;
        void* memory = nullptr;
        must(comm.get(), hkt_mem_alloc(comm.get(), count * sizeof(std::int32_t), &memory));
        auto* const x = static_cast<std::int32_t*>(memory);
        std::fill_n(x, count, rank + 1);
        in_child([&] {
            for (std::size_t i = 0; i < count; ++i) expect(x[i] == rank + 1, "what a child reads");
            std::fill_n(x, count, 77);
            expect(x[count / 2] == 77, "what a child has written");
        });
        must(comm.get(), hkt_all_reduce(x, x, count, HKT_INT32, HKT_SUM, comm.get(), nullptr));
        for (std::size_t i = 0; i < count; ++i) expect(x[i] == 3, "the parent's sum");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a forked child cannot use its parent's cache, and closes its copy at once") {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("hocket-fork-" + std::to_string(getpid()));
    const auto outcomes = run_ranks({1}, [&](int) {
        hkt_cache_options options = HKT_CACHE_OPTIONS_INIT;
        const std::string disk = folder.string();
        options.folder = disk.c_str();
        options.dataset = "samples of a test";
        options.memory_bytes = 64 << 20;
        options.read = [](void*, std::uint64_t key, hkt_cache_value* value) {
            void* const to = hkt_cache_value_reserve(value, sizeof key);
            std::memcpy(to, &key, sizeof key);
            return HKT_SUCCESS;
        };
        hkt_cache* cache = nullptr;
        expect(hkt_cache_open(&options, &cache) == HKT_SUCCESS, hkt_last_error());
        const auto require_sample = [&](std::uint64_t key) {
            hkt_sample sample;
            expect(hkt_cache_get(cache, key, &sample) == HKT_SUCCESS, hkt_last_error());
            std::uint64_t value = 0;
            expect(sample.bytes == sizeof value, "a sample's size");
            std::memcpy(&value, sample.data, sizeof value);
            expect(value == key, "a sample");
            hkt_cache_release(cache, &sample, 1);
        };
        for (std::uint64_t key = 0; key < 50; ++key) require_sample(key);
        in_child([&] {
            hkt_sample sample;
            require_refusal(hkt_cache_get(cache, 3, &sample));
            require_refusal(hkt_cache_put(cache, 3, &sample, 1));
            require_refusal(hkt_cache_flush(cache));
            const std::uint64_t keys[] = {1, 2};
            require_refusal(hkt_cache_prefetch(cache, keys, 2));
            require_refusal(hkt_cache_set_order(cache, keys, 2, 0));
            hkt_sample samples[2];
            require_refusal(hkt_cache_get_batch(cache, keys, 2, samples, nullptr));
            std::uint64_t offsets[3];
            char room[64];
            require_refusal(hkt_cache_copy_batch(cache, keys, 2, room, sizeof room, offsets));
            hkt_cache_stats stats;
            require_refusal(hkt_cache_get_stats(cache, &stats, sizeof stats));
            hkt_cache_verification verification;
            require_refusal(hkt_cache_verify(cache, nullptr, nullptr, &verification, sizeof verification));
            std::uint64_t found = 0;
            require_refusal(hkt_cache_find(cache, "a", &found));
            const char* name = nullptr;
            require_refusal(hkt_cache_name(cache, 0, &name));
            std::int32_t port = 0;
            require_refusal(hkt_cache_serve(cache, "127.0.0.1", 0, "a secret", &port));
            expect(hkt_cache_count(cache) == 0 && hkt_cache_cursor(cache) == 0, "count and cursor");
            hkt_cache_close(cache);
        });
        for (std::uint64_t key = 0; key < 100; ++key) require_sample(key);
        hkt_cache_close(cache);
        // Nothing of it stays locked by a child that lives on.
        expect(hkt_cache_open(&options, &cache) == HKT_SUCCESS, hkt_last_error());
        require_sample(7);
        hkt_cache_close(cache);
    });
    std::filesystem::remove_all(folder);
    CHECK(problems(outcomes) == "");
}
