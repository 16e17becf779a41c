// Messages from device to device inside a host, by CUDA IPC.
#include <csignal>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/capi/device/messages.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

constexpr std::size_t large = 300'001;

// The place of a rank's buffer: the host, or a device.
using Where = std::optional<int>;

class MessageBuffer {
  public:
    MessageBuffer(const Cuda& cuda, Where where, std::size_t bytes)
        : cuda_(cuda), where_(where), host_(where ? 0 : bytes) {
        if (!where) return;
        cuda.use_device(*where);
        device_ = std::make_unique<DeviceMemory>(cuda, bytes);
        cuda.use_device(0);
    }
    std::byte* data() { return device_ ? device_->data() : host_.data(); }
    void put(const Bytes& bytes) {
        if (device_)
            device_->write(bytes);
        else
            host_ = bytes;
    }
    Bytes take() const {
        if (!device_) return host_;
        cuda_.use_device(*where_);
        const Bytes read = device_->read();
        cuda_.use_device(0);
        return read;
    }

  private:
    const Cuda& cuda_;
    const Where where_;
    Bytes host_;
    std::unique_ptr<DeviceMemory> device_;
};

void expect_count(const Cuda& cuda, const char* what, unsigned long long wanted) {
    expect(cuda.count(what) == wanted,
           std::string(what) + ": " + std::to_string(cuda.count(what)) + ", not " + std::to_string(wanted));
}

// Runs two ranks of one host, without checking for leftovers.
std::vector<Outcome> run_pair(const std::function<void(int, const Cuda&)>& body) {
    return run_ranks({2, {{"FAKE_CUDA_DELAY_US", "60"}}, 50}, [&](int rank) {
        setenv("HOCKET_HOST_ID", "a", 1);
        body(rank, Cuda::load());
    });
}

}  // namespace

TEST_CASE("between devices of a host, data do not touch the host") {
    if (!Cuda::is_fake()) HOCKET_SKIP("only the tests' driver counts its calls");
    for (const std::string hosts : {"aa", "aaa"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [](const Cuda& cuda, hkt_comm* comm) {
                  const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
                  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
                  unsigned long long received = 0;
                  for (const std::size_t bytes : {std::size_t{4001}, large, std::size_t{5'000'001}}) {
                      const DeviceMemory from(cuda, bytes), to(cuda, bytes);
                      from.write(contents(bytes, rank));
                      hkt_request* const sent = send(comm, from.data(), bytes, next, 7);
                      hkt_request* const came = receive(comm, to.data(), bytes, previous, 7);
                      must(comm, hkt_wait(came));
                      must(comm, hkt_wait(sent));
                      expect(to.read() == contents(bytes, previous), "another message");
                      expect_count(cuda, "cuMemcpyAsync", ++received);
                  }
                  expect_count(cuda, "cuMemHostAlloc", 0);
              }) == "");
    }
}

// Device 1's memory has no handle, like that of a pool; a rank that may not, or cannot, copy directly must be
// respected.
TEST_CASE("what cannot go from device to device goes by way of the host, as before") {
    struct How {
        const char *name, *ipc[2];  // HOCKET_CUDA_IPC, by rank
        const char* function;       // of the driver, which says that it cannot
        bool direct;                // device 0 to any device goes directly
    };
    const How ways[] = {{"both may", {"on", "on"}, "", true},
                        {"the sender may not", {"off", "on"}, "", false},
                        {"the receiver may not", {"on", "off"}, "", false},
                        {"no handle", {"on", "on"}, "cuIpcGetMemHandle", false},
                        {"not opened", {"on", "on"}, "cuIpcOpenMemHandle", false}};
    for (const How& how : ways) {
        if (*how.function != '\0' && !Cuda::is_fake()) continue;
        INFO(how.name);
        const auto outcomes = run_pair([&](int rank, const Cuda& cuda) {
            setenv("HOCKET_CUDA_IPC", how.ipc[rank], 1);
            const Comm comm = join();
            if (*how.function != '\0') cuda.fail(how.function, 0, 801);
            unsigned long long direct = 0;
            int number = 0;
            const int last = cuda.devices() - 1;
            for (const Where from : {Where(), Where(0), Where(last)})
                for (const Where to : {Where(), Where(0), Where(last)})
                    for (const bool receives_late : {false, true}) {
                        ++number;
                        MessageBuffer buffer(cuda, rank == 0 ? from : to, large);
                        if (rank == 0) buffer.put(contents(large, number));
                        // The offer is there before its receive, or the other way round.
                        if (rank == (receives_late ? 1 : 0)) must(comm.get(), hkt_barrier(comm.get()));
                        hkt_request* const request = rank == 0
                                                         ? send(comm.get(), buffer.data(), large, 1, 0)
                                                         : receive(comm.get(), buffer.data(), large, 0, 0);
                        if (rank == (receives_late ? 0 : 1)) must(comm.get(), hkt_barrier(comm.get()));
                        must(comm.get(), hkt_wait(request));
                        if (rank == 1)
                            expect(buffer.take() == contents(large, number),
                                   "message " + std::to_string(number));
                        direct += how.direct && from == 0 && to ? 1 : 0;
                        if (Cuda::is_fake() && rank == 1) expect_count(cuda, "cuMemcpyAsync", direct);
                    }
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("messages of all kinds between two ranks stay in their order") {
    CHECK(run_on_devices("aa", [](const Cuda& cuda, hkt_comm* comm) {
              const int rank = hkt_comm_rank(comm), other = 1 - rank;
              const std::size_t sizes[] = {large, 100, 2'000'000, 5000, 1, large};
              DeviceStream stream(cuda);
              must(comm, hkt_comm_set_stream(comm, stream.handle()));
              std::vector<std::unique_ptr<MessageBuffer>> from, to;
              std::vector<hkt_request*> requests;
              for (std::size_t i = 0; i < 48; ++i) {
                  const std::size_t bytes = sizes[i % std::size(sizes)];
                  from.push_back(
                      std::make_unique<MessageBuffer>(cuda, i % 5 == 3 ? Where() : Where(0), bytes));
                  to.push_back(std::make_unique<MessageBuffer>(cuda, i % 7 == 2 ? Where() : Where(0), bytes));
                  from[i]->put(contents(bytes, static_cast<int>(2 * i) + rank));
                  if (i % 11 == 0) stream.be_busy(5 + 5 * rank);
                  requests.push_back(send(comm, from[i]->data(), bytes, other, 0));
              }
              for (std::size_t i = 0; i < 48; ++i)
                  requests.push_back(receive(comm, to[i]->data(), sizes[i % std::size(sizes)], other, 0));
              for (hkt_request* const request : requests) must(comm, hkt_wait(request));
              must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
              for (std::size_t i = 0; i < 48; ++i)
                  expect(
                      to[i]->take() == contents(sizes[i % std::size(sizes)], static_cast<int>(2 * i) + other),
                      "message " + std::to_string(i));
          }) == "");
}

TEST_CASE("a message between devices comes behind both streams, and both starts end behind it") {
    CHECK(run_on_devices("aa", [](const Cuda& cuda, hkt_comm* comm) {
              const int rank = hkt_comm_rank(comm);
              DeviceStream stream(cuda);
              must(comm, hkt_comm_set_stream(comm, stream.handle()));
              void* pinned = nullptr;
              must(cuda.host_allocate(&pinned, large, 0), "cuMemHostAlloc");
              auto* const host = static_cast<std::byte*>(pinned);
              const DeviceMemory memory(cuda, large);
              const auto device =
                  static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(memory.data()));
              for (int round = 0; round < 6; ++round) {
                  const Bytes message = contents(large, round);
                  // Work that is on the stream before. The receiver's write must not land after the message.
                  if (rank == 0)
                      std::copy(message.begin(), message.end(), host);
                  else
                      std::fill_n(host, large, std::byte{0x11});
                  stream.be_busy(round % 2 == rank ? 30 : 1);
                  must(cuda.write_async(device, host, large, stream.handle()), "cuMemcpyHtoDAsync");
                  const auto status = rank == 0
                                          ? hkt_send(memory.data(), large, HKT_UINT8, 1, 0, comm, nullptr)
                                          : hkt_recv(memory.data(), large, HKT_UINT8, 0, 0, comm, nullptr);
                  must(comm, status);
                  // Work that follows: the sender spoils its buffer, the receiver reads.
                  if (rank == 0) {
                      must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                      std::fill_n(host, large, std::byte{0xee});
                      must(cuda.write_async(device, host, large, stream.handle()), "cuMemcpyHtoDAsync");
                      must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                  } else {
                      must(cuda.read_async(host, device, large, stream.handle()), "cuMemcpyDtoHAsync");
                      must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                      expect(Bytes(host, host + large) == message, "round " + std::to_string(round));
                  }
              }
              must(cuda.host_release(host), "cuMemFreeHost");
          }) == "");
}

TEST_CASE("a send between devices has not ended while it may still be read") {
    const Tally receiver_waits, sender_looked;
    CHECK(run_on_devices("aa", [&](const Cuda& cuda, hkt_comm* comm) {
              const DeviceMemory memory(cuda, large);
              DeviceStream stream(cuda);
              must(comm, hkt_comm_set_stream(comm, stream.handle()));
              if (hkt_comm_rank(comm) == 0) {
                  memory.write(contents(large, 1));
                  hkt_request* const request = send(comm, memory.data(), large, 1, 0);
                  receiver_waits.await(1);
                  expect(hkt_test(request) == HKT_IN_PROGRESS, "the receiver's stream stands still");
                  sender_looked.add();
                  must(comm, hkt_wait(request));
                  memory.write(Bytes(large, std::byte{0xee}));
                  return;
              }
              stream.hold();
              hkt_request* const request = receive(comm, memory.data(), large, 0, 0);
              expect(hkt_test(request) == HKT_IN_PROGRESS, "its stream stands still");
              receiver_waits.add();
              sender_looked.await(1);
              stream.go_on();
              must(comm, hkt_wait(request));
              expect(memory.read() == contents(large, 1), "another message");
          }) == "");
}

TEST_CASE("memory that was freed and allocated anew is another message's") {
    CHECK(run_on_devices("aa", [](const Cuda& cuda, hkt_comm* comm) {
              const bool sends = hkt_comm_rank(comm) == 0;
              const DeviceMemory to(cuda, large);
              for (int round = 0; round < 100; ++round) {
                  // One size for a while, for which a driver returns the same addresses again and again.
                  const std::size_t bytes = round < 60 ? large : 5000 + static_cast<std::size_t>(round) * 100;
                  if (sends) {
                      const DeviceMemory from(cuda, bytes);
                      from.write(contents(bytes, round));
                      must(comm, hkt_send(from.data(), bytes, HKT_UINT8, 1, 0, comm, nullptr));
                      continue;
                  }
                  must(comm, hkt_recv(to.data(), bytes, HKT_UINT8, 0, 0, comm, nullptr));
                  Bytes got = to.read();
                  got.resize(bytes);
                  expect(got == contents(bytes, round), "round " + std::to_string(round));
                  if (Cuda::is_fake()) expect(cuda.count("opened") <= 32, "too much is kept open");
              }
          }) == "");
}

TEST_CASE("memory of the other rank is opened once, and what was not used for long is closed") {
    if (!Cuda::is_fake()) HOCKET_SKIP("only the tests' driver counts its calls");
    CHECK(run_on_devices("aa", [](const Cuda& cuda, hkt_comm* comm) {
              const bool sends = hkt_comm_rank(comm) == 0;
              std::vector<std::unique_ptr<DeviceMemory>> all;
              for (int i = 0; i < 40; ++i) all.push_back(std::make_unique<DeviceMemory>(cuda, large));
              const auto pass = [&](std::size_t which, int number, std::size_t at = 0) {
                  const std::byte* const begin = all[which]->data() + at;
                  if (sends) {
                      all[which]->write(contents(large, number));
                      must(comm, hkt_send(begin, large - at, HKT_UINT8, 1, 0, comm, nullptr));
                      return;
                  }
                  must(comm, hkt_recv(all[0]->data(), large - at, HKT_UINT8, 0, 0, comm, nullptr));
                  const Bytes sent = contents(large, number), got = all[0]->read();
                  expect(std::equal(sent.begin() + static_cast<std::ptrdiff_t>(at), sent.end(), got.begin()),
                         "message " + std::to_string(number));
              };
              for (int i = 0; i < 5; ++i) pass(0, i, static_cast<std::size_t>(i) * 1000);
              if (!sends) expect_count(cuda, "cuIpcOpenMemHandle", 1);
              for (std::size_t i = 0; i < 40; ++i) {
                  pass(0, 7);  // it is used all the time
                  pass(i, static_cast<int>(i));
              }
              if (sends) return;
              expect_count(cuda, "cuIpcOpenMemHandle", 40);
              expect_count(cuda, "opened", 32);
          }) == "");
}

TEST_CASE("however much memory of the other rank is in use, none goes by way of the host") {
    if (!Cuda::is_fake()) HOCKET_SKIP("only the tests' driver counts its calls");
    CHECK(run_on_devices("aa",
                         [](const Cuda& cuda, hkt_comm* comm) {
                             const bool sends = hkt_comm_rank(comm) == 0;
                             std::vector<std::unique_ptr<DeviceMemory>> all;
                             std::vector<hkt_request*> requests(40);
                             for (int i = 0; i < 40; ++i) {
                                 all.push_back(std::make_unique<DeviceMemory>(cuda, large));
                                 if (sends) all.back()->write(contents(large, i));
                             }
                             for (int i = 0; i < 40; ++i) {
                                 std::byte* const data = all[static_cast<std::size_t>(i)]->data();
                                 auto** const request = &requests[static_cast<std::size_t>(i)];
                                 must(comm, sends ? hkt_send(data, large, HKT_UINT8, 1, i, comm, request)
                                                  : hkt_recv(data, large, HKT_UINT8, 0, i, comm, request));
                             }
                             for (hkt_request* request : requests) must(comm, hkt_wait(request));
                             expect_count(cuda, "cuMemcpyDtoHAsync", 0);
                             for (int i = 0; !sends && i < 40; ++i)
                                 expect(all[static_cast<std::size_t>(i)]->read() == contents(large, i),
                                        "message " + std::to_string(i));
                         },
                         {{"FAKE_CUDA_DELAY_US", "50000"}}) == "");
}

TEST_CASE("two ranks of one process send by way of the host") {
    const auto outcomes = run_pair([](int process, const Cuda& cuda) {
        if (process != 0) return;
        std::string trouble[2];
        const auto be = [&](int rank) {
            try {
                cuda.use_device(0);
                hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
                options.rank = rank;
                options.world_size = 2;
                const Comm comm = join(&options);
                const DeviceMemory memory(cuda, large);
                if (rank == 0) {
                    memory.write(contents(large, 1));
                    must(comm.get(), hkt_send(memory.data(), large, HKT_UINT8, 1, 0, comm.get(), nullptr));
                } else {
                    must(comm.get(), hkt_recv(memory.data(), large, HKT_UINT8, 0, 0, comm.get(), nullptr));
                    expect(memory.read() == contents(large, 1), "another message");
                }
            } catch (const std::exception& error) {
                trouble[rank] = error.what();
            }
        };
        std::thread other(be, 1);
        be(0);
        other.join();
        expect(trouble[0].empty() && trouble[1].empty(), trouble[0] + trouble[1]);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("where the driver fails between devices, both ranks are told") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not fail on demand");
    struct Failing {
        const char* function;
        int after, rank;
    };
    const Failing all[] = {
        {"cuPointerGetAttributes", 1, 0}, {"cuMemGetAddressRange", 0, 0}, {"cuIpcGetMemHandle", 0, 0},
        {"cuEventRecord", 0, 0},          {"cuEventQuery", 0, 0},         {"cuEventCreate", 0, 1},
        {"cuEventRecord", 0, 1},          {"cuEventQuery", 0, 1},         {"cuIpcOpenMemHandle", 0, 1},
        {"cuIpcCloseMemHandle", 0, 1},    {"cuStreamCreate", 0, 1},       {"cuMemcpyAsync", 0, 1},
        {"cuEventCreate", 1, 1},          {"cuEventRecord", 1, 1},        {"cuEventQuery", 1, 1},
    };
    for (const Failing& how : all) {
        INFO(how.function << " after " << how.after << " calls, on rank " << how.rank);
        const Tally ready;
        const bool closes = std::string(how.function) == "cuIpcCloseMemHandle";
        const auto outcomes = run_pair([&](int rank, const Cuda& cuda) {
            std::vector<std::unique_ptr<DeviceMemory>> many;
            for (int i = 0; i < 34; ++i) many.push_back(std::make_unique<DeviceMemory>(cuda, large));
            {
                const Comm comm = join();
                ready.meet(2);
                if (rank == how.rank) cuda.fail(how.function, how.after, 719);
                hkt_status status = HKT_SUCCESS;
                for (std::size_t i = 0; i < (closes ? 34 : 2) && status == HKT_SUCCESS; ++i)
                    status = rank == 0
                                 ? hkt_send(many[i]->data(), large, HKT_UINT8, 1, 0, comm.get(), nullptr)
                                 : hkt_recv(many[i]->data(), large, HKT_UINT8, 0, 0, comm.get(), nullptr);
                const std::string text = hkt_comm_last_error(comm.get());
                expect(status == HKT_ERROR_DEVICE, std::string(hkt_error_string(status)) + ": " + text);
                expect_in(text, how.function);
                expect_in(text, "buffer (");
                expect_in(text, "CUDA_ERROR_LAUNCH_FAILED");
                if (rank != how.rank) expect_in(text, "reported");
                if (rank == how.rank) cuda.fail("", 0, 0);
            }
            for (const char* what : {"pinned", "streams", "events"}) expect_count(cuda, what, 0);
            expect_count(cuda, "opened", closes && rank == 1 ? 1 : 0);  // the driver did not close it
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a rank that dies with a message between devices is named, and its memory can be forgotten") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a copy");
    for (const int dies : {0, 1})
        for (const bool copies : {false, true}) {
            INFO("rank " << dies << (copies ? ", while a copy is under way" : ", before the copy"));
            const Tally ready;
            const auto outcomes = run_pair([&](int rank, const Cuda& cuda) {
                {
                    const Comm comm = join();
                    const DeviceMemory memory(cuda, large);
                    DeviceStream stream(cuda);
                    must(comm.get(), hkt_comm_set_stream(comm.get(), stream.handle()));
                    if (rank == 1 && copies) cuda.hold_copies(1);
                    if (rank == 1 && !copies) stream.hold();
                    hkt_request* const request = rank == 0 ? send(comm.get(), memory.data(), large, 1, 0)
                                                           : receive(comm.get(), memory.data(), large, 0, 0);
                    // Rank 1 drives until it has come so far; rank 0 until then, or until rank 1's death is
                    // known.
                    hkt_status status = HKT_IN_PROGRESS;
                    expect(
                        eventually([&] {
                            status = hkt_test(request);
                            if (rank == 1 && cuda.count(copies ? "cuMemcpyAsync" : "cuIpcOpenMemHandle") > 0)
                                ready.add();
                            return status != HKT_IN_PROGRESS || ready.value() > 0;
                        }),
                        "it does not come so far");
                    if (rank == dies) raise(SIGKILL);
                    if (rank == 1) cuda.hold_copies(0);
                    if (status == HKT_IN_PROGRESS) status = hkt_wait(request);
                    const std::string text = hkt_comm_last_error(comm.get());
                    stream.go_on();
                    // The copy may have ended before its rank learned of the loss.
                    if (status == HKT_SUCCESS && copies && rank == 1) return;
                    expect(status == HKT_ERROR_PEER_LOST,
                           std::string(hkt_error_string(status)) + ": " + text);
                    expect_in(text, "rank " + std::to_string(dies) + " was lost");
                }
                for (const char* what : {"pinned", "streams", "events", "opened"})
                    expect_count(cuda, what, 0);
            });
            const auto died = static_cast<std::size_t>(dies);
            CHECK(outcomes[died].signal == SIGKILL);
            CHECK(outcomes[1 - died].text == "");
            CHECK(outcomes[1 - died].ok);
        }
}

TEST_CASE("memory is not read once its start has failed") {
    if (!Cuda::is_fake()) HOCKET_SKIP("only the tests' driver sees who reads what was freed");
    const Tally ready, freed;
    const auto outcomes = run_pair([&](int rank, const Cuda& cuda) {
        setenv("HOCKET_TIMEOUT_MS", rank == 0 ? "3000" : "20000", 1);
        const Comm comm = join();
        ready.meet(2);  // rank 0 waits for the other one no longer than its deadline
        DeviceStream stream(cuda);
        must(comm.get(), hkt_comm_set_stream(comm.get(), stream.handle()));
        auto memory = std::make_unique<DeviceMemory>(cuda, large);
        if (rank == 0) {
            const hkt_status status = hkt_send(memory->data(), large, HKT_UINT8, 1, 0, comm.get(), nullptr);
            expect(status == HKT_ERROR_TIMEOUT, hkt_error_string(status));
            memory.reset();
            freed.add();
            return;
        }
        // It has opened the other rank's memory, and its stream stands still until that is freed.
        stream.hold();
        hkt_request* const request = receive(comm.get(), memory->data(), large, 0, 0);
        expect(eventually([&] {
                   expect(hkt_test(request) == HKT_IN_PROGRESS, "it has ended");
                   return cuda.count("cuIpcOpenMemHandle") > 0;
               }),
               "the message does not come");
        freed.await(1);
        stream.go_on();
        must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
        const hkt_status status = hkt_wait(request);
        expect(status == HKT_ERROR_TIMEOUT, hkt_error_string(status));
        expect_count(cuda, "cuMemcpyAsync", 0);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a receiver's stream that does not come is named when the deadline passes") {
    const Tally ready;
    const auto outcomes = run_pair([&](int rank, const Cuda& cuda) {
        setenv("HOCKET_TIMEOUT_MS", rank == 1 ? "3000" : "20000", 1);
        const DeviceMemory memory(cuda, large);
        DeviceStream stream(cuda);
        {
            const Comm comm = join();
            must(comm.get(), hkt_comm_set_stream(comm.get(), stream.handle()));
            ready.meet(2);
            if (rank == 1) stream.hold();
            const hkt_status status =
                rank == 0 ? hkt_send(memory.data(), large, HKT_UINT8, 1, 0, comm.get(), nullptr)
                          : hkt_recv(memory.data(), large, HKT_UINT8, 0, 0, comm.get(), nullptr);
            const std::string text = hkt_comm_last_error(comm.get());
            stream.go_on();
            expect(status == HKT_ERROR_TIMEOUT, std::string(hkt_error_string(status)) + ": " + text);
            expect_in(text, "copying buffer (");
            expect_in(text, "it waits for work that was on the caller's stream before");
        }
        if (Cuda::is_fake()) expect_count(cuda, "opened", 0);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a wrong HOCKET_CUDA_IPC is refused") {
    const auto outcomes = run_ranks({1, {{"HOCKET_CUDA_IPC", "maybe"}}, 60}, [](int) {
        hkt_comm* comm = nullptr;
        expect(hkt_comm_create(nullptr, &comm) == HKT_ERROR_INVALID_ARGUMENT, "it was created");
        expect_in(hkt_last_error(), "HOCKET_CUDA_IPC is \"maybe\"; it must be on or off");
    });
    CHECK(problems(outcomes) == "");
}
