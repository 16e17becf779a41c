// A digest of facts, which are added one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/base/xxh3.hpp"
#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache {

// XXH3, 128 bits, unseeded. Every fact is hashed with its length, so that ("ab", "c") differs from ("a",
// "bc").
class Fingerprint {
  public:
    // kind: separates fingerprints of different things. Throws std::bad_alloc.
    explicit Fingerprint(std::string_view kind);
    void add(std::string_view text);
    void add(std::uint64_t number);
    Digest digest() const;

  private:
    struct Free {
        void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
    };
    std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace hocket::cache
