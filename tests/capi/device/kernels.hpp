// Kernels on memory of a device, and the same calls on the host's.
#pragma once

#include <hocket.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/runtime/compute/kernels/cuda/inputs.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/device.hpp"
#include "tests/support/expect.hpp"
#include "tests/support/test.hpp"

namespace hocket::test {

// Returns the path of the kernel library: HOCKET_TEST_CUDA_KERNELS if set; otherwise the tests' own with the
// fake driver, and "" with a real one.
inline std::string kernels_path() {
    const char* real = std::getenv("HOCKET_TEST_CUDA_KERNELS");
    return real != nullptr ? real : Cuda::is_fake() ? HOCKET_FAKE_CUDA_KERNELS : "";
}

// Runs the body in a process of its own, and returns its error. There is no communicator.
inline std::string run_kernels(const std::function<void(const Cuda&)>& body,
                               std::map<std::string, std::string> environment = {}) {
    environment.emplace("FAKE_CUDA_DELAY_US", "60");
    environment.emplace("HOCKET_CUDA_KERNELS", kernels_path());
    return problems(run_ranks({1, environment, 300}, [&](int) { body(Cuda::load()); }));
}

// Skips the test case if the driver has no kernels.
#define HOCKET_NEEDS_KERNELS                    \
    if (::hocket::test::kernels_path().empty()) \
    HOCKET_SKIP("HOCKET_TEST_CUDA_KERNELS names no kernels for this driver")

inline void must_call(hkt_status status) {
    expect(status == HKT_SUCCESS, std::string(hkt_error_string(status)) + ": " + hkt_last_error());
}

inline void expect_refused(hkt_status status, hkt_status expected, const std::vector<std::string>& words) {
    const std::string text = hkt_last_error();
    expect(status == expected, std::string(hkt_error_string(status)) + ": " + text);
    for (const std::string& word : words)
        expect(text.find(word) != std::string::npos, "\"" + word + "\" is not in: " + text);
}

template <typename Type>
std::vector<std::byte> bytes_of(const std::vector<Type>& numbers) {
    std::vector<std::byte> bytes(numbers.size() * sizeof(Type));
    if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
}

// Memory of the host or of a device, with some content.
class Somewhere {
  public:
    // cuda: null for the host.
    Somewhere(const Cuda* cuda, std::vector<std::byte> content) : cuda_(cuda), bytes_(std::move(content)) {
        if (cuda == nullptr) return;
        device_ = std::make_unique<DeviceMemory>(*cuda, bytes_.size());
        device_->write(bytes_);
    }
    Somewhere(const Cuda* cuda, std::size_t bytes)
        : Somewhere(cuda, std::vector<std::byte>(bytes, std::byte{0xcd})) {}

    // Kernels on the default stream may still use it.
    ~Somewhere() {
        if (device_) cuda_->stream_synchronize(nullptr);
    }
    Somewhere(Somewhere&&) = default;

    template <typename Type>
    Type* as() {
        return reinterpret_cast<Type*>(device_ ? device_->data() : bytes_.data());
    }
    // A null pointer for no bytes.
    void* data() { return bytes_.empty() ? nullptr : as<void>(); }
    std::size_t bytes() const { return bytes_.size(); }
    // Once the stream's work has ended.
    std::vector<std::byte> read(void* stream = nullptr) const {
        return device_ ? device_->read(stream) : bytes_;
    }
    void write(const std::vector<std::byte>& content) {
        if (device_)
            device_->write(content);
        else
            bytes_ = content;
    }

  private:
    const Cuda* cuda_;
    std::vector<std::byte> bytes_;
    std::unique_ptr<DeviceMemory> device_;
};

inline hkt_type constant_of(DataType type) {
    return type == DataType::float16 ? HKT_FLOAT16 : type == DataType::bfloat16 ? HKT_BFLOAT16 : HKT_FLOAT32;
}

// A selection, and all that it writes.
struct Select {
    DataType type = DataType::float32;
    std::vector<float> numbers;
    std::size_t k = 0;
    std::optional<std::vector<float>> residual = std::nullopt;
    DataType sent_as = DataType::float32;
    hkt_topk_options options = HKT_TOPK_OPTIONS_INIT;
    bool asks_for_non_finite = true;
};

class Selected {
  public:
    Selected(const Cuda* cuda, const Select& what)
        : what_(what),
          x_(cuda, as_type(what.type, what.numbers)),
          values_(cuda, most() * element_size(what.residual ? what.sent_as : what.type)),
          indices_(cuda, most() * sizeof(std::uint32_t)),
          residual_(cuda, bytes_of(what.residual.value_or(std::vector<float>()))),
          selected_(cuda, sizeof(std::size_t)),
          non_finite_(cuda, sizeof(std::int32_t)),
          workspace_(cuda, cuda == nullptr ? 0 : workspace_bytes()) {}

    hkt_status call() {
        hkt_topk_options options = own_options();
        options.workspace = workspace_.data();
        options.workspace_bytes = workspace_.bytes();
        return hkt_topk(x_.data(), what_.numbers.size(), constant_of(what_.type), what_.k, &options,
                        values_.data(), static_cast<std::uint32_t*>(indices_.data()),
                        selected_.as<std::size_t>(),
                        what_.asks_for_non_finite ? non_finite_.as<std::int32_t>() : nullptr);
    }

    // All results afterwards.
    std::vector<std::vector<std::byte>> results(void* stream = nullptr) const {
        return {selected_.read(stream), non_finite_.read(stream), values_.read(stream),
                indices_.read(stream),  residual_.read(stream),   x_.read(stream)};
    }
    Somewhere& x() { return x_; }
    Somewhere& values() { return values_; }

  private:
    std::size_t most() const { return std::min(what_.k, what_.numbers.size()); }
    hkt_topk_options own_options() {
        hkt_topk_options options = what_.options;
        if (!what_.residual) return options;
        options.residual = residual_.as<float>();
        options.value_type = constant_of(what_.sent_as);
        return options;
    }
    std::size_t workspace_bytes() {
        std::size_t bytes = 0;
        const hkt_topk_options options = own_options();
        must_call(
            hkt_topk_workspace(what_.numbers.size(), constant_of(what_.type), what_.k, &options, &bytes));
        return bytes;
    }

    const Select what_;
    Somewhere x_, values_, indices_, residual_, selected_, non_finite_, workspace_;
};

// A list of tensors with gradients, and two states of each.
class Model {
  public:
    Model(const Cuda* cuda, DataType type, const std::vector<std::size_t>& counts, std::uint64_t seed)
        : type_(type), counts_(counts), norms_(cuda, 4 * counts.size()), skipped_(cuda, 4) {
        Random random(seed);
        for (const std::size_t count : counts) {
            const auto drawn = [&] { return numbers_of(distribution("normal"), count, random()); };
            arrays_[0].emplace_back(cuda, bytes_of(drawn()));
            arrays_[1].emplace_back(cuda, as_type(type, drawn()));
            arrays_[2].emplace_back(cuda, bytes_of(std::vector<float>(count)));
            arrays_[3].emplace_back(cuda, bytes_of(std::vector<float>(count)));
        }
        must_call(hkt_tensors_workspace(counts.data(), counts.size(), &workspace_bytes_));
        workspace_.emplace(cuda, cuda == nullptr ? 0 : workspace_bytes_);
    }

    hkt_status norms() {
        return hkt_norms_with(list<const void>(1).data(), counts_.data(), counts_.size(), constant_of(type_),
                              norms_.as<float>(), 0, workspace_->data(), workspace_->bytes());
    }
    hkt_status lars(double rate) {
        hkt_lars_options options = HKT_LARS_OPTIONS_INIT;
        options.workspace = workspace_->data();
        options.workspace_bytes = workspace_->bytes();
        return hkt_lars(list<float>(0).data(), list<const void>(1).data(), list<float>(2).data(),
                        counts_.data(), counts_.size(), constant_of(type_), rate, &options,
                        skipped_.as<std::int32_t>());
    }
    hkt_status lamb(double rate, std::uint64_t step) {
        hkt_lamb_options options = HKT_LAMB_OPTIONS_INIT;
        options.workspace = workspace_->data();
        options.workspace_bytes = workspace_->bytes();
        return hkt_lamb(list<float>(0).data(), list<const void>(1).data(), list<float>(2).data(),
                        list<float>(3).data(), counts_.data(), counts_.size(), constant_of(type_), rate, step,
                        &options, skipped_.as<std::int32_t>());
    }

    std::vector<std::vector<std::byte>> results(void* stream = nullptr) const {
        std::vector<std::vector<std::byte>> all = {norms_.read(stream), skipped_.read(stream)};
        for (const auto& arrays : arrays_)
            for (const Somewhere& one : arrays) all.push_back(one.read(stream));
        return all;
    }
    Somewhere& gradient(std::size_t tensor) { return arrays_[1][tensor]; }

  private:
    template <typename Type>
    std::vector<Type*> list(std::size_t which) {
        std::vector<Type*> pointers;
        for (Somewhere& one : arrays_[which]) pointers.push_back(static_cast<Type*>(one.data()));
        return pointers;
    }

    const DataType type_;
    const std::vector<std::size_t> counts_;
    std::vector<Somewhere> arrays_[4];  // weights, gradients, states
    Somewhere norms_, skipped_;
    std::size_t workspace_bytes_ = 0;
    std::optional<Somewhere> workspace_;
};

}  // namespace hocket::test
