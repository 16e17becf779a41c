// Failures with memory of devices are reported on all ranks, and leave nothing behind.
#include <csignal>
#include <cstring>
#include <vector>

#include "tests/capi/device/jobs.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

hkt_status sum_floats(hkt_comm* comm, const void* from, void* to, std::size_t count,
                      hkt_request** request = nullptr) {
    return hkt_all_reduce(from, to, count, HKT_FLOAT32, HKT_SUM, comm, request);
}

// A function of the driver that fails, and the other names in the text.
struct Failing {
    const char* function;
    int after;  // the number of calls that succeed
    const char* named;
    int device = 0;
    int result = 719;
    hkt_status status = HKT_ERROR_DEVICE;
};

const Failing failing[] = {
    {"cuPointerGetAttributes", 0, "send"},
    {"cuPointerGetAttributes", 1, "recv"},
    {"cuCtxPushCurrent", 0, "send"},
    {"cuCtxPushCurrent", 1, "recv"},
    {"cuStreamCreate", 0, "send"},
    {"cuStreamCreate", 1, "recv"},
    {"cuStreamGetCtx", 0, "hkt_comm_set_stream"},
    {"cuStreamIsCapturing", 0, "send"},
    {"cuMemHostAlloc", 0, "send"},
    {"cuMemHostAlloc", 1, "recv"},
    {"cuMemHostAlloc", 1, "recv", 0, 2, HKT_ERROR_OUT_OF_MEMORY},
    {"cuEventCreate", 0, "send"},
    {"cuEventCreate", 1, "send"},
    {"cuEventRecord", 0, "send"},
    {"cuEventRecord", 1, "recv"},
    {"cuEventRecord", 3, "send"},
    {"cuStreamWaitEvent", 0, "send"},
    {"cuStreamWaitEvent", 1, "recv"},
    {"cuStreamWaitEvent", 2, "recv"},
    {"cuMemcpyDtoHAsync", 0, "send"},
    {"cuMemcpyDtoHAsync", 3, "send"},
    {"cuEventQuery", 0, "send"},
    {"cuEventQuery", 2, "send"},
    {"cuMemcpyHtoDAsync", 0, "recv"},
    {"cuDeviceGet", 0, "device 1", 1},
    {"cuDevicePrimaryCtxRetain", 0, "device 1", 1},
};

}  // namespace

TEST_CASE("where the driver fails, every rank is told which call it was and for which buffer") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not fail on demand");
    std::size_t number = 0;
    for (const Failing& how : failing) {
        ++number;  // so that each layout has each third failure, and each failure a layout
        for (const std::string hosts : {"a", "aa", "ab"}) {
            if (number++ % in_long_form(1, 3) != 0) continue;
            INFO(how.function << " after " << how.after << " calls, on " << hosts);
            const Tally ready;
            const auto outcomes = run_ranks({static_cast<int>(hosts.size()), {}, 60}, [&](int rank) {
                setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
                const Cuda& cuda = Cuda::load();
                cuda.use_device(how.device);
                constexpr std::size_t count = 600'000;
                const DeviceMemory from(cuda, count * 4), to(cuda, count * 4);
                DeviceStream stream(cuda);
                const unsigned long long own_streams = cuda.count("streams");
                const unsigned long long own_contexts = cuda.count("contexts");
                {
                    const Comm comm = join();
                    must(comm.get(), hkt_comm_set_stream(comm.get(), stream.handle()));
                    // The plan is made before.
                    std::vector<float> host(count);
                    must(comm.get(), sum_floats(comm.get(), host.data(), host.data(), count));
                    ready.meet(static_cast<int>(hosts.size()));
                    if (rank == 0) cuda.fail(how.function, how.after, how.result);
                    hkt_status status = sum_floats(comm.get(), from.data(), to.data(), count);
                    // A result may be handed over before another rank's failure is known.
                    if (rank != 0 && status == HKT_SUCCESS)
                        status = sum_floats(comm.get(), from.data(), to.data(), count);
                    const std::string text = hkt_comm_last_error(comm.get());
                    expect(status == how.status, std::string(hkt_error_string(status)) + ": " + text);
                    expect_in(text, how.function);
                    expect_in(text, how.named);
                    expect_in(text,
                              how.result == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_LAUNCH_FAILED");
                    if (rank != 0) expect_in(text, "rank 0 reported");
                    if (rank == 0) cuda.fail("", 0, 0);
                }
                expect(cuda.count("pinned") == 0 && cuda.count("events") == 0 &&
                           cuda.count("streams") == own_streams && cuda.count("contexts") == own_contexts,
                       "something is left behind");
            });
            CHECK(problems(outcomes) == "");
        }
    }
}

TEST_CASE("a rank that dies while devices copy is named to the survivors") {
    for (const std::string hosts : {"aaa", "abc", "aab"})
        for (const bool in_place : {false, true}) {
            INFO(hosts << (in_place ? ", in place" : ""));
            const Tally started;
            const auto outcomes = run_ranks({3, {}, 60}, [&](int rank) {
                setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
                const Cuda& cuda = Cuda::load();
                constexpr std::size_t count = 2'000'000;
                {
                    const DeviceMemory from(cuda, count * 4), to(cuda, count * 4);
                    DeviceStream stream(cuda);
                    const Comm comm = join();
                    must(comm.get(), hkt_comm_set_stream(comm.get(), stream.handle()));
                    must(comm.get(), sum_floats(comm.get(), from.data(), to.data(), 1000));
                    // Survivors have copies under way, which wait for their stream, when they learn of it.
                    stream.hold();
                    hkt_request* request = nullptr;
                    const void* input = in_place ? to.data() : from.data();
                    must(comm.get(), sum_floats(comm.get(), input, to.data(), count, &request));
                    started.meet(3);
                    if (rank == 2) raise(SIGKILL);
                    const hkt_status status = hkt_wait(request);
                    const std::string text = hkt_comm_last_error(comm.get());
                    expect(status == HKT_ERROR_PEER_LOST,
                           std::string(hkt_error_string(status)) + ": " + text);
                    expect_in(text, "rank 2 was lost");
                    stream.go_on();
                }
                if (Cuda::is_fake()) expect_nothing_left(cuda);
            });
            CHECK(outcomes[2].signal == SIGKILL);
            CHECK((outcomes[0].ok && outcomes[1].ok));
            INFO(outcomes[0].text << outcomes[1].text);
            CHECK(outcomes[0].text + outcomes[1].text == "");
        }
}

TEST_CASE("a communicator is destroyed while its devices copy") {
    for (const std::string hosts : {"a", "aa", "ab"}) {
        INFO(hosts);
        const auto outcomes = run_ranks({static_cast<int>(hosts.size()), {}, 60}, [&](int rank) {
            setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
            const Cuda& cuda = Cuda::load();
            const DeviceMemory memory(cuda, 8'000'000);
            DeviceStream stream(cuda);
            {
                const Comm comm = join();
                must(comm.get(), hkt_comm_set_stream(comm.get(), stream.handle()));
                stream.be_busy(50);
                hkt_request* request = nullptr;
                must(comm.get(), sum_floats(comm.get(), memory.data(), memory.data(), 2'000'000, &request));
            }
            if (Cuda::is_fake()) expect(cuda.count("pinned") == 0, "staging memory is left behind");
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("work on the stream that does not end is named when the deadline passes") {
    for (const std::string hosts : {"a", "aa", "ab"}) {
        INFO(hosts);
        const int ranks = static_cast<int>(hosts.size());
        const Tally ready;
        const auto outcomes = run_ranks({ranks, {}, 60}, [&](int rank) {
            setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
            setenv("HOCKET_TIMEOUT_MS", rank > 0 ? "20000" : ranks > 1 ? "3000" : "800", 1);
            const Cuda& cuda = Cuda::load();
            const DeviceMemory memory(cuda, 4'000'000);
            DeviceStream stream(cuda);
            {
                const Comm comm = join();
                must(comm.get(), hkt_comm_set_stream(comm.get(), stream.handle()));
                ready.meet(ranks);
                if (rank == 0) stream.hold();
                const hkt_status status = sum_floats(comm.get(), memory.data(), memory.data(), 1'000'000);
                const std::string text = hkt_comm_last_error(comm.get());
                stream.go_on();
                expect(status == HKT_ERROR_TIMEOUT, std::string(hkt_error_string(status)) + ": " + text);
                expect_in(text, rank == 0 ? "copying send" : "rank 0 reported");
                expect_in(text, "0 of 16 pieces have come");
            }
            if (Cuda::is_fake()) expect(cuda.count("pinned") == 0, "staging memory is left behind");
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a stream that is being captured is refused, and the communicator stays usable") {
    if (!Cuda::is_fake()) HOCKET_SKIP("only the tests' driver captures on demand");
    CHECK(run_on_devices("a", [](const Cuda& cuda, hkt_comm* comm) {
              const DeviceMemory memory(cuda, 4000);
              DeviceStream stream(cuda);
              cuda.capture(stream.handle(), 1);
              must(comm, hkt_comm_set_stream(comm, stream.handle()));
              expect(sum_floats(comm, memory.data(), memory.data(), 1000) == HKT_ERROR_INVALID_ARGUMENT,
                     "refused");
              expect_in(hkt_comm_last_error(comm), "captured into a graph");
              cuda.capture(stream.handle(), 0);
              must(comm, sum_floats(comm, memory.data(), memory.data(), 1000));
          }) == "");
}

TEST_CASE("a buffer that is longer than its memory is an error that names it") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver gives more than it was asked for");
    CHECK(run_on_devices("a", [](const Cuda& cuda, hkt_comm* comm) {
              const DeviceMemory memory(cuda, 4000);
              expect(sum_floats(comm, memory.data(), memory.data(), 100'000) == HKT_ERROR_DEVICE, "too long");
              const std::string text = hkt_comm_last_error(comm);
              expect_in(text, "cuMemcpyDtoHAsync failed: CUDA_ERROR_INVALID_VALUE");
              expect_in(text, "copying send");
          }) == "");
}

TEST_CASE(
    "tensors of devices that would have to be gathered are refused, and the communicator stays usable") {
    CHECK(run_on_devices("aa", [](const Cuda& cuda, hkt_comm* comm) {
              const std::size_t counts[] = {600, 400};
              hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
              options.schedule = "lars";
              options.tensor_counts = counts;
              options.tensors = 2;
              hkt_plan* plan = nullptr;
              must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &plan));
              const DeviceMemory memory(cuda, 4000), more(cuda, 4000);
              memory.write(std::vector<std::byte>(4000));
              std::vector<float> host(1000, 1);
              std::byte *const device = memory.data(), *const other = more.data();
              const void* const apart[] = {device, other};
              const void* const turned[] = {device + 1600, device};
              const void* const together[] = {device, device + 2400};
              const void* const on_host[] = {host.data(), host.data() + 600};
              const double rate = 0.1;
              hkt_start_options with = HKT_START_OPTIONS_INIT;
              with.parameters = &rate;
              with.parameter_count = 1;
              with.buffer_count = 1;
              with.tensors = 2;
              const auto start = [&](const void* const* send, const void* const* recv,
                                     const void* const* given) {
                  const void* const list = given;
                  with.buffers = &list;
                  return hkt_plan_start_with(plan, send, const_cast<void**>(recv), 1000, &with, nullptr);
              };
              const auto refused = [&](hkt_status status, const std::string& name) {
                  expect(status == HKT_ERROR_INVALID_ARGUMENT, "it took " + name);
                  for (const std::string& part :
                       {"hkt_plan_start_with: " + name + " (", std::string("memory of device 0"),
                        std::string("views of one buffer")})
                      expect_in(hkt_comm_last_error(comm), part);
              };
              refused(start(apart, apart, on_host), "send[0]");
              refused(start(turned, turned, on_host), "send[0]");
              refused(start(on_host, apart, on_host), "recv[0]");
              refused(start(on_host, on_host, apart), "buffers[0][0]");
              refused(start(together, together, together), "buffers[0][0]");  // recv is written meanwhile
              must(comm, start(together, together, on_host));
              must(comm, start(on_host, on_host, together));
              hkt_plan_destroy(plan);
          }) == "");
}

TEST_CASE("a driver that cannot be loaded is an error of the communicator") {
    const auto outcomes = run_ranks({1, {{"HOCKET_CUDA_DRIVER", "/nowhere/libcuda.so"}}, 60}, [](int) {
        hkt_comm* comm = nullptr;
        expect(hkt_comm_create(nullptr, &comm) == HKT_ERROR_DEVICE, "it was created");
        expect_in(hkt_last_error(), "/nowhere/libcuda.so");
        expect_in(hkt_last_error(), "HOCKET_CUDA_DRIVER");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks that differ are told so, wherever their memory is") {
    for (const std::string hosts : {"aa", "ab"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [](const Cuda& cuda, hkt_comm* comm) {
                  const int rank = hkt_comm_rank(comm);
                  const DeviceMemory memory(cuda, 40'000);
                  std::vector<float> host(10'000);
                  void* const buffer = rank == 0 ? static_cast<void*>(memory.data()) : host.data();
                  const hkt_status status = sum_floats(comm, buffer, buffer, rank == 0 ? 10'000 : 9'000);
                  expect(status == HKT_ERROR_MISMATCH, hkt_error_string(status));
              }) == "");
    }
}
