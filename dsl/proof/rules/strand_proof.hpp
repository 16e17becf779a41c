// Proves that parallel strands don't touch each other's places.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/proof/symbols/subject.hpp"

namespace hocket::dsl {

class StrandProof {
  public:
    explicit StrandProof(const Subject& subject) : subject_(subject) {}

    void begin();  // a start
    void read(const Step& step, std::size_t place) {
        if (!read_.empty()) check(step, place, false);
    }
    void write(const Step& step, std::size_t place) {
        if (!written_.empty()) check(step, place, true);
    }

  private:
    bool concurrent(std::uint32_t a, std::uint32_t b) const;
    void check(const Step& step, std::size_t place, bool writes);

    const Subject& subject_;
    // By place: the last strand that wrote, and the last that read. Filled only if there are strands.
    std::vector<std::uint32_t> written_, read_;
};

}  // namespace hocket::dsl
