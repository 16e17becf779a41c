// A fuzzer's input, taken in numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace hocket::test {

// Aborts unless the condition holds: libFuzzer looks for aborts.
inline void require(bool holds) {
    if (!holds) std::abort();
}

// Zeros behind its end.
class FuzzInput {
  public:
    FuzzInput(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
    bool any() const { return size_ > 0; }
    std::uint8_t byte() {
        if (size_ == 0) return 0;
        --size_;
        return *data_++;
    }
    // Takes a byte, or three where that is too little. limit: at most 2^24.
    std::size_t below(std::size_t limit) {
        std::size_t number = byte();
        if (limit > 256) {
            number |= static_cast<std::size_t>(byte()) << 8;
            number |= static_cast<std::size_t>(byte()) << 16;
        }
        return number % limit;
    }

  private:
    const std::uint8_t* data_;
    std::size_t size_;
};

}  // namespace hocket::test
