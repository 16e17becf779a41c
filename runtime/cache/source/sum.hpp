// The checksum of a sample in an index, of bytes that come in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "runtime/base/xxh3.hpp"

namespace hocket::cache {

// XXH3, 64 bits, unseeded.
class Sum {
  public:
    Sum() : state_(XXH3_createState()) {
        if (!state_) throw std::bad_alloc();
        reset();
    }
    void reset() { XXH3_64bits_reset(state_.get()); }
    void add(std::span<const std::byte> bytes) {
        XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
    }
    std::uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

  private:
    struct Free {
        void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
    };
    std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace hocket::cache
