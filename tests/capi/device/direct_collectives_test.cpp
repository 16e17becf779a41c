// Collectives that only move data, from device to device inside a host, by CUDA IPC.
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "tests/capi/device/messages.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

constexpr std::size_t piece = 400'001;

std::vector<Outcome> run_ranks_of_a_host(int ranks, const std::function<void(int, const Cuda&)>& body) {
    return run_ranks({ranks, {{"FAKE_CUDA_DELAY_US", "60"}}, 50}, [&](int rank) {
        setenv("HOCKET_HOST_ID", "a", 1);
        body(rank, Cuda::load());
    });
}

hkt_status gather_all(hkt_comm* comm, const DeviceMemory& from, const DeviceMemory& to,
                      hkt_request** request = nullptr) {
    return hkt_all_gather(from.data(), to.data(), piece, HKT_UINT8, comm, request);
}

Bytes gathered(int ranks, int number) {
    Bytes all;
    for (int rank = 0; rank < ranks; ++rank) {
        const Bytes one = contents(piece, number + rank);
        all.insert(all.end(), one.begin(), one.end());
    }
    return all;
}

}  // namespace

TEST_CASE("if one rank may not or cannot open the others' memory, all go by way of the host") {
    struct How {
        const char *name, *ipc;  // HOCKET_CUDA_IPC of rank 1
        const char* function;    // that says on rank 1 that it cannot
        bool direct;
    };
    const How ways[] = {{"all may", "on", "", true},
                        {"rank 1 may not", "off", "", false},
                        {"no handle", "on", "cuIpcGetMemHandle", false},
                        {"not opened", "on", "cuIpcOpenMemHandle", false}};
    for (const How& how : ways) {
        if (!Cuda::is_fake() && *how.function != '\0') continue;
        INFO(how.name);
        const auto outcomes = run_ranks_of_a_host(3, [&](int rank, const Cuda& cuda) {
            if (rank == 1) setenv("HOCKET_CUDA_IPC", how.ipc, 1);
            const DeviceMemory from(cuda, piece), to(cuda, 3 * piece);
            {
                const Comm comm = join();
                if (rank == 1 && *how.function != '\0') cuda.fail(how.function, 0, 801);
                for (int round = 0; round < 3; ++round) {
                    from.write(contents(piece, round + rank));
                    must(comm.get(), gather_all(comm.get(), from, to));
                    expect(to.read() == gathered(3, round), "round " + std::to_string(round));
                }
                if (Cuda::is_fake())
                    expect((cuda.count("cuMemcpyAsync") == (how.direct ? 9 : 0)) &&
                               (cuda.count("cuMemHostAlloc") == 0) == how.direct,
                           "the other way");
            }
            if (Cuda::is_fake()) expect_nothing_left(cuda);
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE(
    "a collective between devices comes behind all ranks' streams, and its inputs are free at the end") {
    CHECK(run_on_devices("aaa", [](const Cuda& cuda, hkt_comm* comm) {
              const int rank = hkt_comm_rank(comm);
              DeviceStream stream(cuda);
              must(comm, hkt_comm_set_stream(comm, stream.handle()));
              void* pinned = nullptr;
              must(cuda.host_allocate(&pinned, piece, 0), "cuMemHostAlloc");
              auto* const host = static_cast<std::byte*>(pinned);
              const DeviceMemory from(cuda, piece), to(cuda, 3 * piece);
              const auto address = [](const std::byte* memory) {
                  return static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(memory));
              };
              for (int round = 0; round < 6; ++round) {
                  const Bytes mine = contents(piece, round + rank);
                  std::copy(mine.begin(), mine.end(), host);
                  stream.be_busy(round % 3 == rank ? 30 : 1);
                  must(cuda.write_async(address(from.data()), host, piece, stream.handle()),
                       "cuMemcpyHtoDAsync");
                  // This write must not land after the result.
                  must(cuda.write_async(address(to.data() + piece), host, piece, stream.handle()),
                       "cuMemcpyHtoDAsync");
                  must(comm, gather_all(comm, from, to));
                  // No rank reads it any more.
                  must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                  from.write(Bytes(piece, std::byte{0xee}));
                  expect(to.read() == gathered(3, round), "round " + std::to_string(round));
              }
              must(cuda.host_release(host), "cuMemFreeHost");
          }) == "");
}

TEST_CASE("a collective between devices has not ended while another rank copies") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a copy");
    const Tally copies, looked;
    CHECK(run_on_devices("aaa", [&](const Cuda& cuda, hkt_comm* comm) {
              const int rank = hkt_comm_rank(comm);
              auto from = std::make_unique<DeviceMemory>(cuda, piece);
              const DeviceMemory to(cuda, 3 * piece);
              from->write(contents(piece, rank));
              if (rank == 1) cuda.hold_copies(1);
              hkt_request* request = nullptr;
              must(comm, gather_all(comm, *from, to, &request));
              if (rank == 1) {
                  expect(eventually([&] {
                             expect(hkt_test(request) == HKT_IN_PROGRESS, "its copies are held");
                             return cuda.count("cuMemcpyAsync") > 0;
                         }),
                         "it does not copy");
                  copies.add();
                  looked.await(2);
                  cuda.hold_copies(0);
              } else {
                  // Its own copies end meanwhile, and it says so to the others.
                  for (int looks = 0; looks < 200 || copies.value() == 0; ++looks) {
                      expect(hkt_test(request) == HKT_IN_PROGRESS, "another rank still reads");
                      std::this_thread::sleep_for(std::chrono::milliseconds(1));
                  }
                  looked.add();
              }
              must(comm, hkt_wait(request));
              from.reset();
              expect(to.read() == gathered(3, 0), "another result");
          }) == "");
}

TEST_CASE("several collectives between devices are in flight, beside others, and end in any order") {
    CHECK(run_on_devices("aaa", [](const Cuda& cuda, hkt_comm* comm) {
              constexpr std::size_t starts = 12;
              const int rank = hkt_comm_rank(comm);
              std::vector<std::unique_ptr<DeviceStream>> streams;
              std::vector<std::unique_ptr<DeviceMemory>> from, to;
              std::vector<hkt_request*> requests(starts);
              const DeviceMemory sums(cuda, 4000);
              for (std::size_t i = 0; i < starts; ++i) {
                  streams.push_back(std::make_unique<DeviceStream>(cuda));
                  from.push_back(std::make_unique<DeviceMemory>(cuda, piece));
                  to.push_back(std::make_unique<DeviceMemory>(cuda, 3 * piece));
                  from[i]->write(contents(piece, static_cast<int>(i) + rank));
                  streams[i]->be_busy(static_cast<int>(20 - i) + 7 * rank);
                  must(comm, hkt_comm_set_stream(comm, streams[i]->handle()));
                  must(comm, gather_all(comm, *from[i], *to[i], &requests[i]));
                  must(comm, hkt_comm_set_stream(comm, nullptr));
                  if (i % 4 == 2)
                      must(comm,
                           hkt_all_reduce(sums.data(), sums.data(), 1000, HKT_INT32, HKT_SUM, comm, nullptr));
              }
              for (std::size_t i = starts; i-- > 0;) must(comm, hkt_wait(requests[i]));
              for (std::size_t i = 0; i < starts; ++i)
                  expect(to[i]->read() == gathered(3, static_cast<int>(i)), "start " + std::to_string(i));
          }) == "");
}

TEST_CASE("where the driver fails in a collective between devices, every rank is told") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not fail on demand");
    struct Failing {
        const char* function;
        int after;
    };
    const Failing all[] = {
        {"cuPointerGetAttributes", 2}, {"cuMemGetAddressRange", 0}, {"cuIpcGetMemHandle", 0},
        {"cuEventCreate", 1},          {"cuEventRecord", 1},        {"cuEventQuery", 1},
        {"cuIpcOpenMemHandle", 1},     {"cuStreamCreate", 0},       {"cuMemcpyAsync", 1},
        {"cuEventCreate", 2},          {"cuEventRecord", 2},        {"cuEventQuery", 2}};
    for (const Failing& how : all) {
        INFO(how.function << " after " << how.after << " calls");
        const Tally ready;
        const auto outcomes = run_ranks_of_a_host(3, [&](int rank, const Cuda& cuda) {
            const DeviceMemory from(cuda, piece), to(cuda, 3 * piece);
            {
                const Comm comm = join();
                ready.meet(3);
                if (rank == 1) cuda.fail(how.function, how.after, 719);
                const hkt_status status = gather_all(comm.get(), from, to);
                const std::string text = hkt_comm_last_error(comm.get());
                expect(status == HKT_ERROR_DEVICE, std::string(hkt_error_string(status)) + ": " + text);
                expect_in(text, how.function);
                expect_in(text, "CUDA_ERROR_LAUNCH_FAILED");
                if (rank != 1) expect_in(text, "rank 1 reported");
                if (rank == 1) cuda.fail("", 0, 0);
            }
            expect_nothing_left(cuda);
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a rank that dies in a collective between devices is named to the survivors") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a copy");
    for (const bool copies : {false, true}) {
        INFO((copies ? "while it copies" : "before it copies"));
        const Tally ready;
        const auto outcomes = run_ranks_of_a_host(3, [&](int rank, const Cuda& cuda) {
            {
                const DeviceMemory from(cuda, piece), to(cuda, 3 * piece);
                DeviceStream stream(cuda);
                const Comm comm = join();
                must(comm.get(), hkt_comm_set_stream(comm.get(), stream.handle()));
                if (rank == 2 && copies) cuda.hold_copies(1);
                if (rank == 2 && !copies) stream.hold();
                hkt_request* request = nullptr;
                hkt_status status = gather_all(comm.get(), from, to, &request);
                // The others drive until rank 2 has come so far, or its death is known; a late rank learns of
                // it at once.
                if (status == HKT_SUCCESS)
                    expect(eventually([&] {
                               status = hkt_test(request);
                               if (rank == 2 && (!copies || cuda.count("cuMemcpyAsync") > 0)) ready.add();
                               return status != HKT_IN_PROGRESS || ready.value() > 0;
                           }),
                           "it does not come so far");
                if (rank == 2) raise(SIGKILL);
                if (status == HKT_IN_PROGRESS) status = hkt_wait(request);
                const std::string text = hkt_comm_last_error(comm.get());
                expect(status == HKT_ERROR_PEER_LOST, std::string(hkt_error_string(status)) + ": " + text);
                expect_in(text, "rank 2 was lost");
            }
            expect_nothing_left(cuda);
        });
        CHECK(outcomes[2].signal == SIGKILL);
        CHECK(outcomes[0].text + outcomes[1].text == "");
        CHECK((outcomes[0].ok && outcomes[1].ok));
    }
}

TEST_CASE("a stream that does not come keeps a collective between devices back, and is named") {
    const Tally ready;
    const auto outcomes = run_ranks_of_a_host(3, [&](int rank, const Cuda& cuda) {
        setenv("HOCKET_TIMEOUT_MS", rank == 1 ? "3000" : "20000", 1);
        {
            const Comm comm = join();
            auto from = std::make_unique<DeviceMemory>(cuda, piece);
            const DeviceMemory to(cuda, 3 * piece);
            DeviceStream stream(cuda);
            must(comm.get(), hkt_comm_set_stream(comm.get(), stream.handle()));
            ready.meet(3);  // rank 1 waits for the others no longer than its deadline
            if (rank == 1) stream.hold();
            const hkt_status status = gather_all(comm.get(), *from, to);
            stream.go_on();  // drivers free memory only when all streams have come to their end
            from.reset();    // no rank reads it
            const std::string text = hkt_comm_last_error(comm.get());
            expect(status == HKT_ERROR_TIMEOUT, std::string(hkt_error_string(status)) + ": " + text);
            expect_in(text, "copying send (");
            expect_in(text, "it waits for work that was on the caller's stream before");
        }
        if (Cuda::is_fake()) expect_nothing_left(cuda);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks that start different collectives are told so, from device to device as well") {
    const auto outcomes = run_ranks_of_a_host(2, [](int rank, const Cuda& cuda) {
        for (const int kind : {0, 1, 2}) {
            const Comm comm = join();
            const DeviceMemory from(cuda, 2 * piece * 4), to(cuda, 2 * piece * 4);
            hkt_status status = HKT_SUCCESS;
            if (rank == 0)
                status = gather_all(comm.get(), from, to);
            else if (kind == 0)  // another count
                status = hkt_all_gather(from.data(), to.data(), piece + 1, HKT_UINT8, comm.get(), nullptr);
            else if (kind == 1)  // a collective that goes by way of the host
                status =
                    hkt_all_reduce(from.data(), to.data(), piece, HKT_FLOAT32, HKT_SUM, comm.get(), nullptr);
            else
                status = hkt_broadcast(from.data(), to.data(), piece, HKT_UINT8, 0, comm.get(), nullptr);
            expect(status == HKT_ERROR_MISMATCH, std::to_string(kind) + ": " + hkt_error_string(status));
        }
    });
    CHECK(problems(outcomes) == "");
}
