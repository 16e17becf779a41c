// Messages between two ranks, from and to memory of devices.
#include <memory>
#include <vector>

#include "tests/capi/device/messages.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

constexpr std::size_t sizes[] = {0, 1, 4000, 4001, 300'000, 5'000'001};

}  // namespace

TEST_CASE("messages go from and to memory of devices, in order, behind their streams") {
    for (const std::string hosts : {"aa", "ab", "aab"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [](const Cuda& cuda, hkt_comm* comm) {
                  const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
                  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
                  DeviceStream stream(cuda);
                  must(comm, hkt_comm_set_stream(comm, stream.handle()));
                  std::vector<std::unique_ptr<DeviceMemory>> from, to;
                  std::vector<Bytes> from_host, to_host;
                  std::vector<hkt_request*> requests;
                  int number = 0;
                  for (const std::size_t bytes : sizes) {
                      from.push_back(std::make_unique<DeviceMemory>(cuda, bytes));
                      to.push_back(std::make_unique<DeviceMemory>(cuda, bytes));
                      from_host.push_back(contents(bytes, 10 * rank + number));
                      to_host.emplace_back(bytes);
                      from.back()->write(from_host.back());
                      stream.be_busy(3 * rank + 1);
                      // Device to device, device to host, host to device: all with one tag, so in order.
                      requests.push_back(send(comm, from.back()->data(), bytes, next, 7));
                      requests.push_back(receive(comm, to.back()->data(), bytes, previous, 7));
                      requests.push_back(send(comm, from.back()->data(), bytes, next, 7));
                      requests.push_back(receive(comm, to_host.back().data(), bytes, previous, 7));
                      ++number;
                  }
                  for (hkt_request* request : requests) must(comm, hkt_wait(request));
                  for (std::size_t i = 0; i < std::size(sizes); ++i) {
                      const Bytes wanted = contents(sizes[i], 10 * previous + static_cast<int>(i));
                      expect(to[i]->read(stream.handle()) == wanted, "device to device");
                      expect(to_host[i] == wanted, "device to host");
                  }
                  // From the host to a device, without requests on one side.
                  for (std::size_t i = 0; i < std::size(sizes); ++i) {
                      hkt_request* const sent = send(comm, from_host[i].data(), sizes[i], next, 1);
                      must(comm, hkt_recv(to[i]->data(), sizes[i], HKT_UINT8, previous, 1, comm, nullptr));
                      must(comm, hkt_wait(sent));
                      expect(to[i]->read(stream.handle()) ==
                                 contents(sizes[i], 10 * previous + static_cast<int>(i)),
                             "host to device");
                  }
              }) == "");
    }
}

TEST_CASE("a rank sends to itself from a device to a device") {
    CHECK(run_on_devices("a", [](const Cuda& cuda, hkt_comm* comm) {
              for (const std::size_t bytes : sizes) {
                  const DeviceMemory from(cuda, bytes), to(cuda, bytes);
                  from.write(contents(bytes, 1));
                  hkt_request* const received = receive(comm, to.data(), bytes, 0, 0);
                  must(comm, hkt_send(from.data(), bytes, HKT_UINT8, 0, 0, comm, nullptr));
                  must(comm, hkt_wait(received));
                  expect(to.read() == contents(bytes, 1), "to itself");
              }
          }) == "");
}

TEST_CASE("a receive from any rank takes messages to a device") {
    for (const std::string hosts : {"aaa", "aab"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [](const Cuda& cuda, hkt_comm* comm) {
                  const int rank = hkt_comm_rank(comm);
                  for (const std::size_t bytes : sizes) {
                      const DeviceMemory memory(cuda, bytes);
                      if (rank != 0) {
                          memory.write(contents(bytes, rank));
                          must(comm, hkt_send(memory.data(), bytes, HKT_UINT8, 0, 3, comm, nullptr));
                      } else {
                          std::int32_t first = -1, second = -1;
                          for (std::int32_t* source : {&first, &second}) {
                              must(comm,
                                   hkt_recv_any(memory.data(), bytes, HKT_UINT8, 3, source, comm, nullptr));
                              expect(memory.read() == contents(bytes, *source), "what came");
                          }
                          expect(first + second == 3, "from both");
                      }
                      must(comm, hkt_barrier(comm));  // none is a message of the next size
                  }
              }) == "");
    }
}

TEST_CASE("a message whose stream stands still does not keep collectives back, and its deadline names it") {
    for (const std::string hosts : {"aa", "ab"}) {
        INFO(hosts);
        const Tally ready;
        const auto outcomes = run_ranks({2, {}, 60}, [&](int rank) {
            setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
            setenv("HOCKET_TIMEOUT_MS", rank == 0 ? "3000" : "20000", 1);
            const Cuda& cuda = Cuda::load();
            const DeviceMemory memory(cuda, 4000), other(cuda, 4000);
            DeviceStream held(cuda);
            {
                const Comm comm = join();
                ready.meet(2);
                if (rank == 0) {
                    held.hold();
                    must(comm.get(), hkt_comm_set_stream(comm.get(), held.handle()));
                }
                hkt_request* const request = rank == 0 ? send(comm.get(), memory.data(), 4000, 1, 3)
                                                       : receive(comm.get(), memory.data(), 4000, 0, 3);
                must(comm.get(), hkt_comm_set_stream(comm.get(), nullptr));
                must(comm.get(), hkt_all_reduce(other.data(), other.data(), 1000, HKT_INT32, HKT_SUM,
                                                comm.get(), nullptr));
                const hkt_status status = hkt_wait(request);
                const std::string text = hkt_comm_last_error(comm.get());
                held.go_on();
                expect(status == HKT_ERROR_TIMEOUT, std::string(hkt_error_string(status)) + ": " + text);
                expect(text.find("copying buffer (") != std::string::npos &&
                           text.find("0 of 1 pieces have come") != std::string::npos,
                       text);
            }
            if (Cuda::is_fake()) expect(cuda.count("pinned") == 0, "staging memory is left behind");
        });
        CHECK(problems(outcomes) == "");
    }
}
