// The place where a test runs the device's kernels: the processor (tests/support/simt.hpp), or, with
// HOCKET_ON_DEVICE (tools/gpu-check), on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(HOCKET_ON_DEVICE)
#include <cuda_runtime_api.h>
#else
#include "tests/support/simt.hpp"
#endif

namespace hocket::test {

#if defined(HOCKET_ON_DEVICE)
inline void check(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
inline std::byte* allocate(std::size_t bytes) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes > 0 ? bytes : 1));
    return static_cast<std::byte*>(memory);
}
inline void release(std::byte* memory) {
    cudaFree(memory);
}
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}
inline void seed_order(std::uint64_t) {}  // the device has its own
inline void choose_multiprocessors(unsigned) {}
#else
inline std::byte* allocate(std::size_t bytes) {
    return new std::byte[bytes];
}
inline void release(std::byte* memory) {
    delete[] memory;
}
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
}
inline void seed_order(std::uint64_t seed) {
    simt::seed(seed);
}
// Of the calls that follow: kernels choose their grid by it.
inline void choose_multiprocessors(unsigned number) {
    simt::multiprocessors = number;
}
#endif

// An array in the memory that the kernels use, exactly as large as it has to be.
template <typename Type>
class OnDevice {
  public:
    explicit OnDevice(std::size_t count) : OnDevice(std::vector<Type>(count, filler())) {}
    explicit OnDevice(std::span<const Type> content)
        : count_(content.size()), memory_(allocate(count_ * sizeof(Type))) {
        copy_bytes(memory_, content.data(), count_ * sizeof(Type));
    }
    explicit OnDevice(const std::vector<Type>& content) : OnDevice(std::span<const Type>(content)) {}
    // The content begins `offset` elements behind where memory is allocated, after as many of ones.
    OnDevice(const std::vector<Type>& content, std::size_t offset)
        : count_(content.size()), offset_(offset), memory_(allocate((offset + count_) * sizeof(Type))) {
        const std::vector<unsigned char> before(offset * sizeof(Type), 0xff);
        copy_bytes(memory_, before.data(), before.size());
        copy_bytes(get(), content.data(), count_ * sizeof(Type));
    }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;
    ~OnDevice() { release(memory_); }

    Type* get() { return reinterpret_cast<Type*>(memory_) + offset_; }
    std::vector<Type> read() const {
        std::vector<Type> content(count_);
        copy_bytes(content.data(), memory_ + offset_ * sizeof(Type), count_ * sizeof(Type));
        return content;
    }

  private:
    static Type filler() {
        Type value;
        std::memset(static_cast<void*>(&value), 0xcd, sizeof value);
        return value;
    }

    std::size_t count_, offset_ = 0;
    std::byte* memory_;
};

}  // namespace hocket::test
