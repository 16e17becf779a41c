// Uses of device memory that kernels refuse, and the error in a process without the kernels.
#include <dlfcn.h>

#include <filesystem>
#include <thread>

#include "tests/capi/device/kernels.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;

namespace {

constexpr std::size_t topk_count = 1000, k = 10;

// The arguments of a call of hkt_topk. Tests replace one.
struct Topk {
    void* x;
    void* values;
    std::uint32_t* indices;
    std::size_t* selected;
    std::int32_t* non_finite;
    hkt_topk_options options;

    hkt_status call() const {
        return hkt_topk(x, topk_count, HKT_FLOAT32, k, &options, values, indices, selected, non_finite);
    }
    void refused(const std::vector<std::string>& words) const {
        expect_refused(call(), HKT_ERROR_INVALID_ARGUMENT, words);
    }
};

// Memory for them, on the host or on a device.
class TopkMemory {
  public:
    explicit TopkMemory(const Cuda* cuda)
        : x_(cuda, bytes_of(std::vector<float>(topk_count, 2))),
          values_(cuda, 4 * k),
          indices_(cuda, 4 * k),
          residual_(cuda, bytes_of(std::vector<float>(topk_count, 1))),
          selected_(cuda, 8),
          non_finite_(cuda, 4),
          workspace_(cuda, 4 << 20) {}

    Topk arguments() {
        Topk all{x_.data(),
                 values_.data(),
                 indices_.as<std::uint32_t>(),
                 selected_.as<std::size_t>(),
                 non_finite_.as<std::int32_t>(),
                 HKT_TOPK_OPTIONS_INIT};
        all.options.residual = residual_.as<float>();
        all.options.value_type = HKT_FLOAT32;
        all.options.workspace = workspace_.data();
        all.options.workspace_bytes = workspace_.bytes();
        return all;
    }

  private:
    Somewhere x_, values_, indices_, residual_, selected_, non_finite_, workspace_;
};

// Each argument in turn is taken from `other`, which lies elsewhere.
void expect_no_mix(const Topk& usual, const Topk& other, const std::string& where,
                   const std::string& elsewhere) {
    const auto refused = [&](const char* name, auto member) {
        Topk mixed = usual;
        member(mixed) = member(other);
        mixed.refused({"hkt_topk: its memory lies in several places", " " + where,
                       std::string(name) + " " + elsewhere, "All of it must be on the host, or all in"});
    };
    refused(
        "x", [](auto& all) -> auto& { return all.x; });
    refused(
        "values", [](auto& all) -> auto& { return all.values; });
    refused(
        "indices", [](auto& all) -> auto& { return all.indices; });
    refused(
        "selected", [](auto& all) -> auto& { return all.selected; });
    refused(
        "non_finite", [](auto& all) -> auto& { return all.non_finite; });
    refused(
        "the residual", [](auto& all) -> auto& { return all.options.residual; });
    refused(
        "the workspace", [](auto& all) -> auto& { return all.options.workspace; });
}

}  // namespace

TEST_CASE("a kernel's memory is on the host or on one device, and the text says where each argument lies") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              TopkMemory host(nullptr), device(&cuda);
              must_call(device.arguments().call());
              must_call(host.arguments().call());
              expect_no_mix(device.arguments(), host.arguments(), "on device 0", "on the host");
              expect_no_mix(host.arguments(), device.arguments(), "on the host", "on device 0");
              if (cuda.devices() > 1) {
                  cuda.use_device(1);
                  TopkMemory second(&cuda);
                  expect_no_mix(device.arguments(), second.arguments(), "on device 0", "on device 1");
                  cuda.use_device(0);
              }
              void* context = nullptr;
              must(cuda.context_create(&context, 0, 0), "cuCtxCreate");
              {
                  TopkMemory other(&cuda);
                  expect_no_mix(device.arguments(), other.arguments(), "on device 0 in context",
                                "on device 0 in context");
                  // A stream of the one context, and memory of the other.
                  DeviceStream stream(cuda);
                  must_call(hkt_kernels_set_stream(stream.handle()));
                  must_call(other.arguments().call());
                  device.arguments().refused(
                      {"hkt_kernels_set_stream", "another context", "values (", "on device 0"});
              }
              cuda.use_device(0);
          }) == "");
}

TEST_CASE("a stream of another device is refused") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              if (cuda.devices() < 2) return;
              TopkMemory first(&cuda);
              cuda.use_device(1);
              TopkMemory second(&cuda);
              {
                  DeviceStream stream(cuda);
                  must_call(hkt_kernels_set_stream(stream.handle()));
                  first.arguments().refused({"hkt_kernels_set_stream", "on device 0"});
                  must_call(second.arguments().call());
              }
              cuda.use_device(0);
              {
                  DeviceStream stream(cuda);
                  must_call(hkt_kernels_set_stream(stream.handle()));
                  second.arguments().refused({"hkt_kernels_set_stream", "on device 1"});
              }
          }) == "");
}

TEST_CASE("a workspace is needed on a device, as large and as aligned as it has to be") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              TopkMemory memory(&cuda), host(nullptr);
              const Topk usual = memory.arguments();
              std::size_t needed = 0;
              must_call(hkt_topk_workspace(topk_count, HKT_FLOAT32, k, &usual.options, &needed));
              const auto with = [&](void* workspace, std::size_t bytes) {
                  Topk all = usual;
                  all.options.workspace = workspace;
                  all.options.workspace_bytes = bytes;
                  return all;
              };
              auto* const own = static_cast<std::byte*>(usual.options.workspace);
              must_call(with(own, needed).call());
              const std::string size = std::to_string(needed) + " B";
              with(own, needed - 1)
                  .refused({"hkt_topk", size, std::to_string(needed - 1), "hkt_topk_workspace"});
              with(nullptr, needed).refused({"hkt_topk", size, "was given none"});
              with(nullptr, 0).refused({size, "was given none"});
              with(own, 0).refused({size, "one of 0 B"});
              with(own + 8, needed).refused({"hkt_topk: the workspace is", "multiple of 256"});
              with(usual.x, needed).refused({"overlap", "the workspace"});
              // On the host it is ignored.
              Topk on_host = host.arguments();
              on_host.options.workspace = static_cast<std::byte*>(on_host.options.workspace) + 1;
              on_host.options.workspace_bytes = 3;
              must_call(on_host.call());
              // 16 bits take less than float32, a residual takes that of float32.
              std::size_t halves = 0;
              must_call(hkt_topk_workspace(topk_count, HKT_FLOAT16, k, nullptr, &halves));
              expect(halves < needed, "a selection of float16 needs as much as one of float32");
              must_call(hkt_topk_workspace(topk_count, HKT_FLOAT16, k, &usual.options, &halves));
              expect(halves == needed, "a residual of float32 needs another size");
              expect_refused(hkt_topk_workspace(topk_count, HKT_INT8, k, nullptr, &halves),
                             HKT_ERROR_INVALID_ARGUMENT, {"hkt_topk_workspace: type is int8"});
              expect_refused(hkt_topk_workspace(topk_count, HKT_FLOAT32, k, nullptr, nullptr),
                             HKT_ERROR_INVALID_ARGUMENT, {"bytes is null"});

              const std::vector<std::size_t> counts = {70'000, 3};
              must_call(hkt_tensors_workspace(counts.data(), 2, &needed));
              expect(needed == 3 * 8 + 2 * 4, "tensors need " + std::to_string(needed));
              const std::vector<std::size_t> absurd = {3, SIZE_MAX};
              expect_refused(hkt_tensors_workspace(absurd.data(), 2, &needed), HKT_ERROR_INVALID_ARGUMENT,
                             {"counts[1]"});
              expect_refused(hkt_tensors_workspace(nullptr, 2, &needed), HKT_ERROR_INVALID_ARGUMENT,
                             {"counts is null"});
              Somewhere tensor(&cuda, 4000), norm(&cuda, 4);
              const void* const tensors[] = {tensor.data()};
              const std::size_t thousand[] = {1000};
              expect_refused(hkt_norms(tensors, thousand, 1, HKT_FLOAT32, norm.as<float>(), 0),
                             HKT_ERROR_INVALID_ARGUMENT,
                             {"hkt_norms", "workspace of 12 B", "hkt_norms_with takes it"});
          }) == "");
}

TEST_CASE("what is refused on the host is refused on a device") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              TopkMemory memory(&cuda);
              const Topk usual = memory.arguments();
              const auto refused = [&](const std::vector<std::string>& words, auto change) {
                  Topk all = usual;
                  change(all);
                  all.refused(words);
              };
              refused({"x is null, but has to have 1000"}, [](Topk& all) { all.x = nullptr; });
              refused({"values is null, but has to have 10"}, [](Topk& all) { all.values = nullptr; });
              refused({"selected is null"}, [](Topk& all) { all.selected = nullptr; });
              refused({"x is ", "not a multiple of 4"},
                      [](Topk& all) { all.x = static_cast<std::byte*>(all.x) + 2; });
              refused({"selected is ", "not a multiple of 8"}, [](Topk& all) {
                  all.selected =
                      reinterpret_cast<std::size_t*>(reinterpret_cast<std::byte*>(all.selected) + 4);
              });
              refused({"values (40 B", "overlap"},
                      [](Topk& all) { all.values = static_cast<std::byte*>(all.x) + 3960; });
              refused({"non_finite", "overlap"},
                      [](Topk& all) { all.non_finite = reinterpret_cast<std::int32_t*>(all.indices + 1); });
              refused({"scale is 0"}, [](Topk& all) { all.options.scale = 0; });

              Somewhere dense(&cuda, 4000), values(&cuda, 40), indices(&cuda, 40);
              const auto add = [&](hkt_type type, hkt_type value_type, void* from) {
                  return hkt_scatter_add(dense.data(), 1000 / hkt_type_size(type), type, from, value_type,
                                         indices.as<std::uint32_t>(), 5, 0);
              };
              expect_refused(add(HKT_INT32, HKT_INT32, values.data()), HKT_ERROR_INVALID_ARGUMENT,
                             {"type on a device is int32; it must be one of float32, float16, bfloat16"});
              expect_refused(add(HKT_FLOAT32, HKT_FLOAT64, values.data()), HKT_ERROR_INVALID_ARGUMENT,
                             {"value_type on a device is float64"});
              expect_refused(add(HKT_FLOAT32, HKT_FLOAT32, dense.as<float>() + 9), HKT_ERROR_INVALID_ARGUMENT,
                             {"dense", "overlap"});

              // Lists are the host's.
              Somewhere list(&cuda, 8), skipped(&cuda, 4), workspace(&cuda, 256);
              const std::size_t counts[] = {10};
              float* const weights[] = {values.as<float>()};
              float* const momenta[] = {dense.as<float>()};
              const void* const gradients[] = {indices.data()};
              hkt_lars_options options = HKT_LARS_OPTIONS_INIT;
              options.workspace = workspace.data();
              options.workspace_bytes = workspace.bytes();
              const auto lars = [&](float* const* of, const std::size_t* sizes, std::int32_t* flag) {
                  return hkt_lars(of, gradients, momenta, sizes, 1, HKT_FLOAT32, 0.1, &options, flag);
              };
              auto* const flag = skipped.as<std::int32_t>();
              must_call(lars(weights, counts, flag));
              expect_refused(lars(list.as<float*>(), counts, flag), HKT_ERROR_INVALID_ARGUMENT,
                             {"hkt_lars: weights (", "memory of device 0", "copy it to the host"});
              expect_refused(lars(weights, list.as<std::size_t>(), flag), HKT_ERROR_INVALID_ARGUMENT,
                             {"hkt_lars: counts (", "memory of device 0"});
              std::int32_t on_host = 0;
              expect_refused(lars(weights, counts, &on_host), HKT_ERROR_INVALID_ARGUMENT,
                             {"hkt_lars", "skipped on the host", "weights[0], momenta[0]"});
              expect_refused(hkt_norms_with(gradients, counts, 1, HKT_FLOAT32, values.as<float>(), 0,
                                            indices.data(), 40),
                             HKT_ERROR_INVALID_ARGUMENT, {"hkt_norms", "the workspace", "overlap"});
          }) == "");
}

TEST_CASE("where the driver fails, the text has its function, and the next call works") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not fail on demand");
    struct Failing {
        const char* function;
        int device = 0, result = 719;
        hkt_status status = HKT_ERROR_DEVICE;
        const char* named = nullptr;
    };
    for (const Failing& how :
         {Failing{"cuPointerGetAttributes"}, Failing{"cuCtxPushCurrent"}, Failing{"cuStreamGetCtx"},
          Failing{"cuCtxGetDevice"},
          Failing{"cuLaunchKernel", 0, 719, HKT_ERROR_DEVICE, "cudaErrorLaunchFailure"},
          Failing{"cuLaunchKernel", 0, 2, HKT_ERROR_OUT_OF_MEMORY, "could not be enqueued"},
          Failing{"cuDeviceGet", 1}, Failing{"cuDevicePrimaryCtxRetain", 1}}) {
        INFO(how.function);
        CHECK(run_kernels([&](const Cuda& cuda) {
                  cuda.use_device(how.device);
                  TopkMemory memory(&cuda);
                  DeviceStream stream(cuda);
                  if (how.device == 0) must_call(hkt_kernels_set_stream(stream.handle()));
                  cuda.fail(how.function, 0, how.result);
                  const hkt_status status = memory.arguments().call();
                  cuda.fail("", 0, 0);
                  expect_refused(status, how.status, {how.named ? how.named : how.function});
                  must_call(memory.arguments().call());
              }) == "");
    }
}

TEST_CASE("without the kernels a call on a device says where they were looked for, and others work") {
    if (!Cuda::is_fake()) HOCKET_SKIP("the kernels may be installed here");
    struct Looked {
        std::string path;
        std::vector<std::string> words;
    };
    const std::vector<Looked> all = {
        {"/nowhere/libhocket_cuda.so", {"HOCKET_CUDA_KERNELS is /nowhere/libhocket_cuda.so"}},
        {"", {"beside Hocket: /", "/capi/libhocket_cuda.so: ", "by the loader's path: libhocket_cuda.so: "}},
        {HOCKET_FAKE_CUDA, {HOCKET_FAKE_CUDA, "has no hocket_cuda_interface_version"}},
        {HOCKET_OLD_CUDA_KERNELS, {HOCKET_OLD_CUDA_KERNELS, "has version", "of another version of Hocket"}},
    };
    for (const Looked& looked : all) {
        INFO(looked.path);
        CHECK(run_kernels(
                  [&](const Cuda& cuda) {
                      TopkMemory device(&cuda), host(nullptr);
                      must_call(host.arguments().call());
                      for (int i = 0; i < 2; ++i) {
                          std::vector<std::string> words = looked.words;
                          words.insert(words.end(), {"nvcc", "HOCKET_CUDA_KERNELS, if set"});
                          expect_refused(device.arguments().call(), HKT_ERROR_DEVICE, words);
                      }
                      std::size_t bytes = 0;
                      expect_refused(hkt_topk_workspace(10, HKT_FLOAT32, 1, nullptr, &bytes),
                                     HKT_ERROR_DEVICE, looked.words);
                      must_call(host.arguments().call());
                      // Hocket looks for the library again.
                      setenv("HOCKET_CUDA_KERNELS", kernels_path().c_str(), 1);
                      must_call(device.arguments().call());
                      setenv("HOCKET_CUDA_KERNELS", "/nowhere/else", 1);
                      must_call(device.arguments().call());
                  },
                  {{"HOCKET_CUDA_KERNELS", looked.path}}) == "");
    }
}

TEST_CASE("the kernels are taken from beside libhocket.so, or from where they are installed with it") {
    if (!Cuda::is_fake()) HOCKET_SKIP("the kernels may be installed here");
    for (const std::string place : {"lib", HOCKET_PLUGIN_FOLDER}) {
        CAPTURE(place);
        const TemporaryFolder prefix;
        const std::string copy = prefix.path() + "/lib/libhocket.so";
        std::filesystem::create_directories(prefix.path() + "/lib");
        std::filesystem::create_directories(prefix.path() + "/" + place);
        std::filesystem::copy_file(HOCKET_LIBRARY, copy);
        std::filesystem::create_symlink(kernels_path(), prefix.path() + "/" + place + "/libhocket_cuda.so");
        CHECK(run_kernels(
                  [&](const Cuda& cuda) {
                      void* const library = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
                      expect(library != nullptr, "the copy cannot be loaded");
                      const auto topk = reinterpret_cast<decltype(&hkt_topk)>(dlsym(library, "hkt_topk"));
                      expect(topk != &hkt_topk, "it is no copy");
                      TopkMemory memory(&cuda);
                      const Topk all = memory.arguments();
                      must_call(topk(all.x, topk_count, HKT_FLOAT32, k, &all.options, all.values, all.indices,
                                     all.selected, all.non_finite));
                      expect_refused(all.call(), HKT_ERROR_DEVICE, {"beside Hocket"});
                  },
                  {{"HOCKET_CUDA_KERNELS", ""}}) == "");
    }
}

TEST_CASE("a stream for kernels needs a driver") {
    const auto outcomes = run_ranks({1, {}, 60}, [](int) {
        int nothing = 0;
        expect_refused(hkt_kernels_set_stream(&nothing), HKT_ERROR_INVALID_ARGUMENT, {"libcuda.so.1"});
        must_call(hkt_kernels_set_stream(nullptr));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("threads that use a device for the first time at once load the kernels once") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              constexpr int threads = 4;
              std::vector<std::string> problems(threads);
              std::vector<std::thread> all;
              for (int i = 0; i < threads; ++i)
                  all.emplace_back([&, i] {
                      try {
                          cuda.use_device(0);
                          TopkMemory memory(&cuda);
                          must_call(memory.arguments().call());
                      } catch (const std::exception& error) {
                          problems[i] = error.what();
                      }
                  });
              for (std::thread& thread : all) thread.join();
              for (const std::string& problem : problems) expect(problem.empty(), problem);
          }) == "");
}
