// Collectives on memory of devices keep the order of the caller's stream.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/capi/device/jobs.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

using Floats = std::vector<float>;

// Pinned memory of the test's own, for copies on its streams.
class PinnedFloats {
  public:
    PinnedFloats(const Cuda& cuda, std::size_t count) : cuda_(cuda), count_(count) {
        void* memory = nullptr;
        must(cuda.host_allocate(&memory, count * sizeof(float), 0), "cuMemHostAlloc");
        data_ = static_cast<float*>(memory);
    }
    ~PinnedFloats() { cuda_.host_release(data_); }
    PinnedFloats(const PinnedFloats&) = delete;

    void fill(float value) { std::fill_n(data_, count_, value); }
    bool is_all(float value) const {
        return std::all_of(data_, data_ + count_, [&](float each) { return each == value; });
    }
    void send_to(const DeviceMemory& memory, void* stream) const {
        must(cuda_.write_async(address(memory), data_, count_ * sizeof(float), stream), "cuMemcpyHtoDAsync");
    }
    void take_from(const DeviceMemory& memory, void* stream) {
        must(cuda_.read_async(data_, address(memory), count_ * sizeof(float), stream), "cuMemcpyDtoHAsync");
    }

  private:
    static unsigned long long address(const DeviceMemory& memory) {
        return reinterpret_cast<std::uintptr_t>(memory.data());
    }

    const Cuda& cuda_;
    const std::size_t count_;
    float* data_ = nullptr;
};

hkt_status sum_memory(hkt_comm* comm, const DeviceMemory& from, const DeviceMemory& to, std::size_t count,
                      hkt_request** request = nullptr) {
    return hkt_all_reduce(from.data(), to.data(), count, HKT_FLOAT32, HKT_SUM, comm, request);
}

float sum_of_ranks(int ranks, float step) {
    return static_cast<float>(ranks * (ranks + 1) / 2) * step;
}

}  // namespace

TEST_CASE("a start comes behind what was on the stream, and what follows comes behind its result") {
    for (const std::string hosts : {"a", "aaa", "ab", "aab"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [](const Cuda& cuda, hkt_comm* comm) {
                  const auto mine = static_cast<float>(hkt_comm_rank(comm) + 1);
                  for (const std::size_t count : {7, 1000, 700'001}) {
                      DeviceStream stream(cuda);
                      must(comm, hkt_comm_set_stream(comm, stream.handle()));
                      const DeviceMemory from(cuda, count * sizeof(float)), to(cuda, count * sizeof(float));
                      PinnedFloats given(cuda, count), got(cuda, count), again(cuda, count);
                      given.fill(mine);
                      got.fill(-1);
                      // Slow work, which the input waits for; and the output's last user, slow as well.
                      stream.be_busy(20 * hkt_comm_rank(comm) + 10);
                      given.send_to(from, stream.handle());
                      given.send_to(to, stream.handle());
                      hkt_request* request = nullptr;
                      must(comm, sum_memory(comm, from, to, count, &request));
                      must(comm, hkt_wait(request));
                      // No wait for the device up to here.
                      got.take_from(to, stream.handle());
                      given.send_to(to, stream.handle());
                      again.take_from(to, stream.handle());
                      must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                      expect(got.is_all(sum_of_ranks(hkt_comm_size(comm), 1)),
                             "work behind hkt_wait has not seen the result");
                      expect(again.is_all(mine), "a copy of the result came late");
                  }
              }) == "");
    }
}

TEST_CASE("results follow each other on a stream without the host") {
    for (const std::string hosts : {"aa", "ab", "aabb"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [](const Cuda& cuda, hkt_comm* comm) {
                  constexpr std::size_t count = 50'000;
                  DeviceStream stream(cuda);
                  must(comm, hkt_comm_set_stream(comm, stream.handle()));
                  DeviceMemory memory(cuda, count * sizeof(float));
                  PinnedFloats values(cuda, count);
                  values.fill(1);
                  values.send_to(memory, stream.handle());
                  float wanted = 1;
                  for (int i = 0; i < 8; ++i) {
                      wanted *= static_cast<float>(hkt_comm_size(comm));
                      must(comm, sum_memory(comm, memory, memory, count));
                  }
                  values.take_from(memory, stream.handle());
                  must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                  expect(values.is_all(wanted), "a start has read what was there before the last result");
              }) == "");
    }
}

TEST_CASE("several starts are in flight, on streams of their own, and are waited for in any order") {
    for (const std::string hosts : {"aaa", "abc", "aab"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [](const Cuda& cuda, hkt_comm* comm) {
                  constexpr std::size_t starts = 12;
                  const auto mine = static_cast<float>(hkt_comm_rank(comm) + 1);
                  std::vector<std::unique_ptr<DeviceStream>> streams;
                  std::vector<std::unique_ptr<DeviceMemory>> buffers;
                  std::vector<std::unique_ptr<PinnedFloats>> values;
                  std::vector<hkt_request*> requests(starts);
                  std::vector<std::size_t> counts;
                  for (std::size_t i = 0; i < starts; ++i) {
                      counts.push_back(i % 3 == 0 ? 100 : 40'000 * i);
                      streams.push_back(std::make_unique<DeviceStream>(cuda));
                      buffers.push_back(std::make_unique<DeviceMemory>(cuda, counts[i] * sizeof(float)));
                      values.push_back(std::make_unique<PinnedFloats>(cuda, counts[i]));
                      values[i]->fill(mine * static_cast<float>(i + 1));
                      // The first starts are the last to have their input, not on all ranks alike.
                      streams[i]->be_busy(static_cast<int>(20 - i) + 7 * hkt_comm_rank(comm));
                      values[i]->send_to(*buffers[i], streams[i]->handle());
                      must(comm, hkt_comm_set_stream(comm, streams[i]->handle()));
                      must(comm, sum_memory(comm, *buffers[i], *buffers[i], counts[i], &requests[i]));
                  }
                  for (std::size_t i = starts; i-- > 0;) {
                      if (i % 2 == 0) {
                          must(comm, hkt_wait(requests[i]));
                      } else {
                          hkt_status status = HKT_IN_PROGRESS;
                          expect(eventually([&] {
                                     status = hkt_test(requests[i]);
                                     return status != HKT_IN_PROGRESS;
                                 }),
                                 "hkt_test does not end");
                          must(comm, status);
                      }
                      values[i]->take_from(*buffers[i], streams[i]->handle());
                  }
                  for (std::size_t i = 0; i < starts; ++i) {
                      must(cuda.stream_synchronize(streams[i]->handle()), "cuStreamSynchronize");
                      expect(values[i]->is_all(sum_of_ranks(hkt_comm_size(comm), static_cast<float>(i + 1))),
                             "start " + std::to_string(i) + " has another result");
                  }
              }) == "");
    }
}

TEST_CASE("each thread has a stream of its own") {
    CHECK(run_on_devices("a", [](const Cuda& cuda, hkt_comm* comm) {
              const DeviceMemory from(cuda, 4000), to(cuda, 4000), elsewhere(cuda, 4000);
              PinnedFloats ones(cuda, 1000), got(cuda, 1000);
              ones.fill(1);
              ones.send_to(from, nullptr);
              must(cuda.stream_synchronize(nullptr), "cuStreamSynchronize");
              DeviceStream held(cuda);
              held.hold();
              must(comm, hkt_comm_set_stream(comm, held.handle()));
              hkt_request* request = nullptr;
              must(comm, sum_memory(comm, from, elsewhere, 1000, &request));
              expect(hkt_test(request) == HKT_IN_PROGRESS, "a start went ahead of its stream");
              // This thread has named no stream, so it waits for nothing that is on the other's.
              std::string trouble;
              std::thread([&] {
                  cuda.use_device(0);
                  if (sum_memory(comm, from, to, 1000) != HKT_SUCCESS) trouble = hkt_comm_last_error(comm);
                  cuda.stream_synchronize(nullptr);
                  // On a stream of its own: CUDA may put a copy on the default stream behind the other
                  // thread's start.
                  const DeviceStream reader(cuda);
                  got.take_from(to, reader.handle());
                  cuda.stream_synchronize(reader.handle());
              }).join();
              expect(trouble.empty(), trouble);
              expect(got.is_all(1), "the other thread's result");
              expect(hkt_test(request) == HKT_IN_PROGRESS, "a start went ahead of its stream");
              held.go_on();
              // Another thread waits for it: the stream is the one that it was started on.
              std::thread([&] {
                  cuda.use_device(0);
                  if (hkt_wait(request) != HKT_SUCCESS) trouble = hkt_comm_last_error(comm);
              }).join();
              expect(trouble.empty(), trouble);
              got.fill(0);
              got.take_from(elsewhere, held.handle());
              must(cuda.stream_synchronize(held.handle()), "cuStreamSynchronize");
              expect(got.is_all(1), "the result behind the held stream");
          }) == "");
}

TEST_CASE("two communicators of a process have streams of their own") {
    CHECK(run_on_devices("a", [](const Cuda& cuda, hkt_comm* comm) {
              const Comm other = alone();
              const DeviceMemory from(cuda, 4000), to(cuda, 4000);
              DeviceStream held(cuda);
              held.hold();
              must(comm, hkt_comm_set_stream(comm, held.handle()));
              must(other.get(), sum_memory(other.get(), from, to, 1000));
              held.go_on();
              must(comm, sum_memory(comm, from, to, 1000));
              must(cuda.stream_synchronize(held.handle()), "cuStreamSynchronize");
          }) == "");
}

TEST_CASE("starts that grow keep no more staging memory than a few times what the largest needs") {
    if (!Cuda::is_fake()) HOCKET_SKIP("only the tests' driver tells what is pinned");
    CHECK(run_on_devices("ab", [](const Cuda& cuda, hkt_comm* comm) {
              constexpr std::size_t least = 100'000, most = 600'000;
              const DeviceMemory from(cuda, most * 4), to(cuda, most * 4);
              for (std::size_t count = least; count <= most; count += count / 50) {
                  must(comm, sum_memory(comm, from, to, count));
                  must(cuda.stream_synchronize(nullptr), "cuStreamSynchronize");
              }
              // For input and output: the last block, up to half more than needed, and twice that in smaller
              // blocks.
              expect(cuda.count("pinned") < 2 * 3 * (most + most / 2) * 4,
                     std::to_string(cuda.count("pinned")) + " bytes are kept");
          }) == "");
}

TEST_CASE("staging memory is used again, and only once its copies have ended") {
    if (!Cuda::is_fake()) HOCKET_SKIP("only the tests' driver tells what is pinned");
    for (const std::string hosts : {"aa", "ab"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [](const Cuda& cuda, hkt_comm* comm) {
                  constexpr std::size_t count = 100'000;
                  DeviceStream stream(cuda);
                  must(comm, hkt_comm_set_stream(comm, stream.handle()));
                  const DeviceMemory from(cuda, count * 4), to(cuda, count * 4);
                  const auto start_once = [&](std::size_t of) {
                      must(comm, sum_memory(comm, from, to, of));
                      must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                  };
                  start_once(count);
                  const unsigned long long first = cuda.count("pinned");
                  expect(first >= 2 * count * 4, "input and output have staging memory");
                  for (int i = 0; i < 20; ++i) start_once(count - static_cast<std::size_t>(i));
                  expect(cuda.count("pinned") == first, "starts of one size took more memory");
                  // Results that wait behind a held stream keep their memory.
                  stream.hold();
                  hkt_request* request = nullptr;
                  must(comm, sum_memory(comm, from, to, count, &request));
                  must(comm, hkt_comm_set_stream(comm, nullptr));
                  const DeviceMemory elsewhere(cuda, count * 4);
                  hkt_request* second = nullptr;
                  must(comm, sum_memory(comm, elsewhere, elsewhere, count, &second));
                  expect(cuda.count("pinned") > first, "memory of a start in flight was lent again");
                  stream.go_on();
                  must(comm, hkt_wait(request));
                  must(comm, hkt_wait(second));
              }) == "");
    }
}

TEST_CASE("a driver that is loaded after the communicator was made is found") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver is not loaded by its path");
    const auto outcomes = run_ranks({1, {}, 60}, [](int) {
        const Comm comm = join();
        expect(hkt_comm_set_stream(comm.get(), nullptr) == HKT_SUCCESS, "the default stream needs no driver");
        int stream = 0;
        expect(
            hkt_comm_set_stream(comm.get(), &stream) == HKT_ERROR_INVALID_ARGUMENT &&
                std::string(hkt_comm_last_error(comm.get())).find("has no CUDA driver") != std::string::npos,
            "a stream without a driver");
        // As a program does that uses CUDA: Hocket finds the library by its name.
        const Cuda& cuda = Cuda::load();
        unsetenv("HOCKET_CUDA_DRIVER");
        must(comm.get(), hkt_comm_set_stream(comm.get(), nullptr));
        DeviceMemory memory(cuda, 4000);
        memory.write(std::vector<std::byte>(4000, std::byte{1}));
        must(comm.get(), sum_memory(comm.get(), memory, memory, 1000));
        expect(memory.read() == std::vector<std::byte>(4000, std::byte{1}), "a sum of one");
    });
    CHECK(problems(outcomes) == "");
}
