// Starts that cannot be kernels of devices, and kernels whose ranks fail.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include "tests/capi/device/plans.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/tally.hpp"

using namespace hocket;
using namespace hocket::test;

// ---- By way of the host -------------------------------------------------------------------------

TEST_CASE("starts that cannot be kernels go by way of the host, and say why once") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real device can");
    const auto beside = std::filesystem::path(HOCKET_LIBRARY).parent_path() / "hocket_kernels.txt";
    const bool has_ready_made = std::filesystem::exists(beside);  // not in a build for a sanitizer
    struct Way {
        const char* name;
        Environment more;  // of rank 1
        std::string told[2];
        hkt_op op = HKT_SUM;
    };
    const Environment no_compiler = {{"FAKE_CUDA_CAPABILITY", "90"},
                                     {"HOCKET_JIT_LIBRARY", "/nonexistent.so"}};
    const std::string other = "rank 1 cannot go from device to device";
    const Way ways[] = {
        {"no IPC", {{"HOCKET_CUDA_IPC", "off"}}, {other, "all_reduce by ring: HOCKET_CUDA_IPC is off"}},
        {"blocking launches",
         {{"CUDA_LAUNCH_BLOCKING", "1"}},
         {other, "with CUDA_LAUNCH_BLOCKING=1 kernels"}},
        {"an old device",
         {{"FAKE_CUDA_CAPABILITY", "75"}},
         {other, "the device has compute capability 7.5, and kernels of plans need 8.0"}},
        {"a driver that refuses PTX", {{"FAKE_CUDA_CAPABILITY", "90"}}, {other, "cuModuleLoadData failed"}},
        {"no compiler", {{"HOCKET_JIT_LIBRARY", "/nonexistent.so"}}, {other, "/nonexistent.so"}},
        {"no compiler for an unusual plan",
         no_compiler,
         {other, "the code of this kernel did not come with Hocket, and plans cannot be compiled"},
         HKT_PRODUCT},
        // So it is not the compiler that is missing: a ring of two ranks is direct.
        {"a driver that refuses what came with Hocket",
         no_compiler,
         {other, has_ready_made ? "cuModuleLoadData failed" : "did not come with Hocket"}},
    };
    for (const Way& way : ways) {
        INFO(way.name);
        const auto outcomes = run_on_a_host(2, {}, [&](int rank, const Cuda& cuda) {
            if (rank == 1)
                for (const auto& [name, value] : way.more) setenv(name.c_str(), value.c_str(), 1);
            const Comm comm = join();
            for (int i = 0; i < 2; ++i)
                check(cuda, comm.get(), {.collective = HKT_ALL_REDUCE, .schedule = "ring", .op = way.op}, 0);
            const std::string told = hkt_comm_info(comm.get(), "by_host");
            expect_in(told, way.told[rank]);
            expect(std::ranges::count(told, '\n') == 0, "it says so more than once: " + told);
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("ranks that differ in the place of their buffers are told so") {
    for (const bool is_first : {true, false}) {
        INFO((is_first ? "in the first start" : "in the second start"));
        const auto outcomes =
            run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "20000"}}, [&](int rank, const Cuda& cuda) {
                const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "direct"};
                const DeviceMemory memory(cuda, 4 * what.count);
                Bytes host(4 * what.count);
                const Comm comm = join();
                const Plan plan = plan_of(comm.get(), what);
                if (!is_first)
                    must(comm.get(),
                         hkt_plan_start(plan.get(), memory.data(), memory.data(), what.count, nullptr));
                void* const data = rank == 1 ? host.data() : memory.data();
                hkt_request* request = nullptr;
                must(comm.get(), hkt_plan_start(plan.get(), data, data, what.count, &request));
                const hkt_status status = hkt_wait(request);
                const std::string text = hkt_comm_last_error(comm.get());
                expect(status == HKT_ERROR_MISMATCH, std::string(hkt_error_string(status)) + ": " + text);
                expect_in(text, "on devices");
            });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a start whose buffers are on the host and on a device goes by way of the host") {
    CHECK(run_on_devices(
              "aa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "direct"};
                  const Plan plan = plan_of(comm, what);
                  for (int start = 0; start < 3; ++start) {
                      const Bytes from = random_elements(
                          what.type, what.count, static_cast<std::uint64_t>(start + hkt_comm_rank(comm)));
                      Bytes wanted(from.size()), to(from.size());
                      const DeviceMemory memory(cuda, from.size());
                      memory.write(from);
                      must(comm, hkt_plan_start(plan.get(), memory.data(), to.data(), what.count, nullptr));
                      must(comm, hkt_plan_start(plan.get(), from.data(), wanted.data(), what.count, nullptr));
                      expect(to == wanted, "another result");
                  }
                  expect(launches(cuda) == 0, "a kernel writes to memory of the host");
              },
              on) == "");
}

TEST_CASE("without HOCKET_CUDA_PLANS combining goes by way of the host") {
    CHECK(run_on_devices("aa", [&](const Cuda& cuda, hkt_comm* comm) {
              check(cuda, comm, {.collective = HKT_ALL_REDUCE, .schedule = "ring"}, 0);
              expect_in(hkt_comm_info(comm, "by_host"), "HOCKET_CUDA_PLANS is off");
          }) == "");
}

TEST_CASE("ranks that differ in HOCKET_CUDA_PLANS are refused") {
    const auto outcomes = run_ranks({2, {}, 50}, [&](int rank) {
        setenv("HOCKET_CUDA_PLANS", rank == 0 ? "on" : "off", 1);
        hkt_comm* comm = nullptr;
        expect(hkt_comm_create(nullptr, &comm) == HKT_ERROR_MISMATCH, "it was not refused");
        expect_in(hkt_last_error(), "the ranks differ in HOCKET_CUDA_PLANS");
    });
    CHECK(problems(outcomes) == "");
}

// ---- Failures -----------------------------------------------------------------------------------

namespace {

constexpr std::size_t count = 50'000;

hkt_status start_ring(hkt_comm* comm, const DeviceMemory& memory, std::size_t elements,
                      hkt_request** request) {
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = "ring";
    hkt_plan* created = nullptr;
    hkt_status status = hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &created);
    if (status != HKT_SUCCESS) return status;
    const Plan plan(created);
    hkt_request* made = nullptr;
    status = hkt_plan_start(plan.get(), memory.data(), memory.data(), elements, &made);
    if (status != HKT_SUCCESS) return status;
    if (request != nullptr) {
        *request = made;
        return HKT_SUCCESS;
    }
    return hkt_wait(made);
}

}  // namespace

TEST_CASE("a rank that does not start is named when the deadline comes") {
    const Tally done;
    const auto outcomes = run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "3000"}}, [&](int rank, const Cuda& cuda) {
        {
            const DeviceMemory memory(cuda, 4 * count);
            const Comm comm = join();
            if (rank == 1) {
                done.await(2);
                return;
            }
            const hkt_status status = start_ring(comm.get(), memory, count, nullptr);
            done.add();
            const std::string text = hkt_comm_last_error(comm.get());
            expect(status == HKT_ERROR_TIMEOUT, std::string(hkt_error_string(status)) + ": " + text);
            expect_in(text, "rank 1");
        }
        if (Cuda::is_fake()) expect_nothing_left(cuda);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank that is late is waited for") {
    const auto outcomes = run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "20000"}}, [&](int rank, const Cuda& cuda) {
        const Comm comm = join();
        for (int late = 0; late < 3; ++late) {
            if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(400));
            check(cuda, comm.get(), {.collective = HKT_ALL_REDUCE, .schedule = "ring"});
        }
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks that start different things on devices are told so") {
    const auto outcomes = run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "5000"}}, [&](int rank, const Cuda& cuda) {
        const DeviceMemory memory(cuda, 4 * count);
        const Comm comm = join();
        const hkt_status status = start_ring(comm.get(), memory, rank == 2 ? count - 1 : count, nullptr);
        const std::string text = hkt_comm_last_error(comm.get());
        expect(status == HKT_ERROR_MISMATCH, std::string(hkt_error_string(status)) + ": " + text);
        expect_in(text, "rank 2");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank that dies while kernels wait for it is named, with the step that waits") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a kernel");
    const Tally launched;
    const auto outcomes = run_on_a_host(3, {}, [&](int rank, const Cuda& cuda) {
        {
            const DeviceMemory memory(cuda, 4 * count);
            const Comm comm = join();
            if (rank == 1) cuda.hold_kernels(1);
            hkt_request* request = nullptr;
            must(comm.get(), start_ring(comm.get(), memory, count, &request));
            hkt_status status = HKT_IN_PROGRESS;
            expect(eventually([&] {
                       status = hkt_test(request);
                       return status != HKT_IN_PROGRESS || launches(cuda) > 0;
                   }),
                   "it does not launch");
            launched.add();
            if (rank == 1) {
                launched.await(3);
                std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the others' kernels wait
                raise(SIGKILL);
            }
            if (status == HKT_IN_PROGRESS) status = hkt_wait(request);
            const std::string text = hkt_comm_last_error(comm.get());
            expect(status == HKT_ERROR_PEER_LOST, std::string(hkt_error_string(status)) + ": " + text);
            expect_in(text, "rank 1 was lost");
            expect_in(text, "ring.sched:");
        }
        expect_nothing_left(cuda);
    });
    CHECK(outcomes[1].signal == SIGKILL);
    CHECK(outcomes[0].text + outcomes[2].text == "");
    CHECK((outcomes[0].ok && outcomes[2].ok));
}

// Rank 2 combines what rank 3 has with its own for rank 0, and then rank 3's kernel has nothing more to do.
TEST_CASE("a start ends when the kernels of all ranks have") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a kernel");
    const Tally launched, looked;
    const auto outcomes = run_on_a_host(4, {}, [&](int rank, const Cuda& cuda) {
        const DeviceMemory memory(cuda, 4 * count);
        const Comm comm = join();
        const Plan plan = plan_of(comm.get(), {.collective = HKT_REDUCE, .schedule = "binomial"});
        if (rank == 0) cuda.hold_kernels(1);
        hkt_request* request = nullptr;
        must(comm.get(), hkt_plan_start(plan.get(), memory.data(), memory.data(), count, &request));
        expect(eventually([&] {
                   (void)hkt_test(request);
                   return launches(cuda) > 0;
               }),
               "it does not launch");
        launched.meet(4);
        for (int i = 0; rank == 3 && i < 300; ++i) {
            expect(hkt_test(request) == HKT_IN_PROGRESS, "it has ended");
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        looked.meet(4);
        cuda.hold_kernels(0);
        must(comm.get(), hkt_wait(request));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a kernel that does not come is a timeout on all ranks, which names rank and line") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a kernel");
    for (const bool in_calls : {true, false}) {
        INFO((in_calls ? "the hosts wait" : "the hosts are in no call"));
        const Tally ready;
        const auto outcomes =
            run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "3000"}}, [&](int rank, const Cuda& cuda) {
                const DeviceMemory memory(cuda, 4 * count);
                {
                    const Comm comm = join();
                    ready.meet(3);
                    if (rank == 1) cuda.hold_kernels(1);
                    hkt_request* request = nullptr;
                    hkt_status status = start_ring(comm.get(), memory, count, &request);
                    if (status == HKT_SUCCESS) {
                        status = HKT_IN_PROGRESS;
                        eventually([&] {
                            status = hkt_test(request);
                            return status != HKT_IN_PROGRESS || launches(cuda) > 0;
                        });
                    }
                    if (!in_calls) {
                        // Meanwhile the clock of the host's deadline stands still, and a few tests do not
                        // take it there: the kernel's own deadline has passed.
                        std::this_thread::sleep_for(std::chrono::milliseconds(4000));
                        for (int i = 0; rank != 1 && status == HKT_IN_PROGRESS && i < 5; ++i) {
                            status = hkt_test(request);
                            if (status == HKT_IN_PROGRESS)
                                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                        }
                        expect(rank == 1 || status != HKT_IN_PROGRESS, "its kernel has no deadline");
                    }
                    if (status == HKT_IN_PROGRESS) status = hkt_wait(request);
                    cuda.hold_kernels(0);
                    const std::string text = hkt_comm_last_error(comm.get());
                    expect(status == HKT_ERROR_TIMEOUT, std::string(hkt_error_string(status)) + ": " + text);
                    if (rank != 1) {
                        expect_in(text, "ring.sched:");
                        expect_in(text, "waiting for rank ");
                    }
                    expect(text.find("no thread of it is in a call") == std::string::npos, text);
                    // What is behind the kernel on the caller's stream goes on.
                    (void)memory.read();
                }
                // Rank 1's kernel had not ended when it had to go on, so other ranks' memory stays open
                // there.
                if (rank != 1) expect_nothing_left(cuda);
            });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("after a failure one second is enough for all kernels that do not end") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a kernel");
    const Tally started;
    const auto outcomes = run_on_a_host(2, {}, [&](int rank, const Cuda& cuda) {
        const DeviceMemory memory(cuda, 4 * count);
        const Comm comm = join();
        must(comm.get(), start_ring(comm.get(), memory, count, nullptr));
        must(comm.get(), hkt_barrier(comm.get()));
        cuda.hold_kernels(1);
        hkt_request* request = nullptr;
        for (int i = 0; i < 8; ++i) must(comm.get(), start_ring(comm.get(), memory, count, &request));
        started.meet(2);
        const auto began = std::chrono::steady_clock::now();
        if (rank == 0) must(comm.get(), hkt_comm_abort(comm.get()));
        expect(hkt_wait(request) == HKT_ERROR_ABORTED, hkt_comm_last_error(comm.get()));
        expect(std::chrono::steady_clock::now() - began < std::chrono::seconds(4),
               "it waits for each kernel");
        cuda.hold_kernels(0);
        (void)memory.read();  // waits for them
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a device that lacks memory for a kernel is asked again, and says why once") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not fail on demand");
    const auto outcomes = run_on_a_host(2, {}, [&](int rank, const Cuda& cuda) {
        const DeviceMemory first(cuda, 4 * count), second(cuda, 4 * count);
        const Comm comm = join();
        constexpr int out_of_memory = 2;
        if (rank == 1) cuda.fail("cuMemAlloc", 0, out_of_memory);
        for (const DeviceMemory* memory : {&first, &second})
            must(comm.get(), start_ring(comm.get(), *memory, count, nullptr));
        expect(launches(cuda) == 0, "a kernel without memory");
        const std::string told = hkt_comm_info(comm.get(), "by_host");
        expect_in(told, rank == 1
                            ? "all_reduce by ring: the device, or its driver, has no memory for its kernel"
                            : "rank 1 cannot go from device to device");
        expect(std::ranges::count(told, '\n') == 0, "it says so more than once: " + told);
        if (rank == 1) cuda.fail("", 0, 0);
        must(comm.get(), start_ring(comm.get(), first, count, nullptr));
        expect(launches(cuda) == 1, "it is no kernel");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("where the driver fails in a start that is a kernel, every rank is told") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not fail on demand");
    for (const char* function :
         {"cuLaunchKernel", "cuMemsetD8Async", "cuDeviceGetAttribute", "cuModuleLoadData",
          "cuFuncGetAttribute", "cuIpcOpenMemHandle", "cuEventRecord"}) {
        INFO(function);
        const Tally ready;
        const auto outcomes =
            run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "8000"}}, [&](int rank, const Cuda& cuda) {
                const DeviceMemory memory(cuda, 4 * count);
                const Comm comm = join();
                ready.meet(3);
                if (rank == 0) cuda.fail(function, 0, 719);
                const hkt_status status = start_ring(comm.get(), memory, count, nullptr);
                const std::string text = hkt_comm_last_error(comm.get());
                if (rank == 0) cuda.fail("", 0, 0);
                expect(status == HKT_ERROR_DEVICE, std::string(hkt_error_string(status)) + ": " + text);
                expect_in(text, std::string(function) + " failed: CUDA_ERROR_LAUNCH_FAILED");
            });
        CHECK(problems(outcomes) == "");
    }
}
