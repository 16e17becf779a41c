// Kernels on a device are part of their stream: behind earlier work, in front of later work, in a graph that
// it captures. The host waits for nothing.
#include <numeric>
#include <thread>

#include "tests/capi/device/kernels.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;

namespace {

Select some_selection(std::uint64_t seed) {
    Random random(seed);
    return {DataType::float32, numbers_of(distribution("normal"), 5000, seed), 50,
            numbers_of(distribution("Laplace"), 5000, seed + 1)};
}

std::vector<std::vector<std::byte>> expected_of(const Select& what) {
    Selected on_host(nullptr, what);
    must_call(on_host.call());
    return on_host.results();
}

// Pinned memory of the host.
class PinnedMemory {
  public:
    PinnedMemory(const Cuda& cuda, std::size_t bytes) : cuda_(cuda) {
        must(cuda.host_allocate(&memory_, bytes, 0), "cuMemHostAlloc");
    }
    ~PinnedMemory() { cuda_.host_release(memory_); }
    PinnedMemory(const PinnedMemory&) = delete;
    void* get() const { return memory_; }

  private:
    const Cuda& cuda_;
    void* memory_ = nullptr;
};

void kernels_on(const DeviceStream& stream) {
    must_call(hkt_kernels_set_stream(stream.handle()));
}

}  // namespace

TEST_CASE("kernels come behind the work that is on their stream, and before what follows") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              const Select what = some_selection(1);
              Select before = what;
              before.numbers.assign(before.numbers.size(), 1.f);
              Selected on_device(&cuda, before);
              const std::vector<std::byte> x = as_type(what.type, what.numbers);
              const PinnedMemory input(cuda, x.size()), output(cuda, 4 * what.k);
              std::memcpy(input.get(), x.data(), x.size());
              std::memset(output.get(), 0, 4 * what.k);
              DeviceStream stream(cuda);
              kernels_on(stream);
              Selected first(&cuda, before);
              must_call(first.call());  // it loads code, which may wait
              stream.hold();
              must(cuda.write_async(reinterpret_cast<std::uintptr_t>(on_device.x().data()), input.get(),
                                    x.size(), stream.handle()),
                   "cuMemcpyHtoDAsync");
              must_call(on_device.call());  // the stream does not go on, and the call returns
              must(cuda.read_async(output.get(), reinterpret_cast<std::uintptr_t>(on_device.values().data()),
                                   4 * what.k, stream.handle()),
                   "cuMemcpyDtoHAsync");
              stream.go_on();
              const auto found = on_device.results(stream.handle());
              expect(found == expected_of(what), "the kernel did not see what came before");
              expect(std::memcmp(output.get(), found[2].data(), 4 * what.k) == 0,
                     "what came later did not see the kernel's results");
          }) == "");
}

TEST_CASE("every kernel goes to the stream of its thread") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              DeviceStream held(cuda);
              const Select what = some_selection(2);
              const std::vector<std::byte> dense(4000), ones = bytes_of(std::vector<float>(10, 1));
              std::vector<std::uint32_t> at(10);
              std::iota(at.begin(), at.end(), 3u);
              Somewhere sum(&cuda, dense), values(&cuda, ones), indices(&cuda, bytes_of(at));
              const std::vector<std::size_t> counts = {100, 70'000};
              Model model(&cuda, DataType::float32, counts, 6),
                  host_model(nullptr, DataType::float32, counts, 6);
              const auto before = model.results();
              kernels_on(held);
              // The first call loads code, which may wait; and to free memory of a device waits for all of
              // its streams.
              Selected first(&cuda, what);
              must_call(first.call());
              std::vector<Selected> kept;
              held.hold();
              must_call(hkt_scatter_add(sum.data(), 1000, HKT_FLOAT32, values.data(), HKT_FLOAT32,
                                        indices.as<std::uint32_t>(), 10, 0));
              for (Model* one : {&model, &host_model}) {
                  must_call(one->norms());
                  must_call(one->lamb(0.1, 1));
                  must_call(one->lars(0.1));
              }
              // Another thread, which has named none or another one, is not held up.
              std::string problem;
              std::thread other([&] {
                  try {
                      cuda.use_device(0);
                      for (const bool names_one : {false, true}) {
                          std::optional<DeviceStream> own;
                          if (names_one) own.emplace(cuda);
                          if (own) kernels_on(*own);
                          Selected& on_device = kept.emplace_back(&cuda, what);
                          must_call(on_device.call());
                          expect(on_device.results(own ? own->handle() : nullptr) == expected_of(what),
                                 "another thread's results differ");
                      }
                  } catch (const std::exception& error) {
                      problem = error.what();
                  }
              });
              other.join();
              expect(problem.empty(), problem);
              // Reading by another stream does not wait for the one that is held.
              DeviceStream reader(cuda);
              expect(sum.read(reader.handle()) == dense, "values were added on another stream");
              expect(model.results(reader.handle()) == before, "a step was taken on another stream");
              held.go_on();
              expect(model.results(held.handle()) == host_model.results(), "the steps' results differ");
              std::vector<float> added(1000);
              std::fill_n(added.begin() + 3, 10, 1.f);
              expect(sum.read(held.handle()) == bytes_of(added), "the sums differ");
              must_call(hkt_kernels_set_stream(nullptr));
          }) == "");
}

TEST_CASE("kernels run on the device of their memory, and leave the thread's context as it was") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              if (cuda.devices() < 2) return;
              const Select what = some_selection(3);
              cuda.use_device(1);
              {
                  std::optional<DeviceStream> stream;
                  for (const bool names_one : {false, true}) {
                      if (names_one) stream.emplace(cuda);
                      must_call(hkt_kernels_set_stream(stream ? stream->handle() : nullptr));
                      Selected on_device(&cuda, what);
                      cuda.use_device(0);
                      must_call(on_device.call());
                      int device = -1;
                      must(cuda.context_get_device(&device), "cuCtxGetDevice");
                      expect(device == 0, "the thread's context is another one");
                      cuda.use_device(1);
                      expect(on_device.results(stream ? stream->handle() : nullptr) == expected_of(what),
                             "results differ");
                  }
                  must_call(hkt_kernels_set_stream(nullptr));
              }
              cuda.use_device(0);
          }) == "");
}

TEST_CASE("a call on a device allocates nothing and waits for nothing") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not count its calls");
    CHECK(run_kernels([](const Cuda& cuda) {
              const Select what = some_selection(4);
              Selected on_device(&cuda, what);
              Model model(&cuda, DataType::bfloat16, {5, 70'000}, 4);
              DeviceStream stream(cuda);
              kernels_on(stream);
              const char* const never[] = {"cuMemAlloc",          "cuMemFree",     "cuMemHostAlloc",
                                           "cuStreamSynchronize", "cuStreamQuery", "cuEventQuery",
                                           "cuMemcpyDtoH",        "cuMemcpyHtoD",  "cuMemcpyDtoHAsync",
                                           "cuMemcpyHtoDAsync",   "cuStreamCreate"};
              const auto calls = [&] {
                  unsigned long long all = 0;
                  for (const char* function : never) all += cuda.count(function);
                  return all;
              };
              const auto before = calls(), launches = cuda.count("cuLaunchKernel");
              must_call(on_device.call());
              must_call(model.norms());
              must_call(model.lars(0.1));
              must_call(model.lamb(0.1, 1));
              expect(calls() == before, "one of these functions was called");
              expect(cuda.count("cuLaunchKernel") > launches, "nothing was launched");
          }) == "");
}

TEST_CASE("a stream that captures takes kernels into its graph, which runs as often as one likes") {
    if (!Cuda::is_fake()) HOCKET_SKIP("the tests know the graphs of their own driver only");
    CHECK(run_kernels([](const Cuda& cuda) {
              DeviceStream stream(cuda);
              kernels_on(stream);
              const std::vector<std::size_t> counts = {300, 70'000};
              Model on_host(nullptr, DataType::float32, counts, 8),
                  on_device(&cuda, DataType::float32, counts, 8);
              const auto before = on_device.results(stream.handle());
              cuda.capture(stream.handle(), 1);
              must_call(on_device.norms());
              must_call(on_device.lars(0.25));
              cuda.capture(stream.handle(), 0);
              expect(on_device.results(stream.handle()) == before, "it ran while it was captured");
              for (int replay = 0; replay < 2; ++replay) {
                  cuda.replay(stream.handle());
                  must_call(on_host.norms());
                  must_call(on_host.lars(0.25));
                  expect(on_device.results(stream.handle()) == on_host.results(), "a replay differs");
              }
          }) == "");
}
