// Sums that one worker sends, for tests that look only at chunks and rounds.
#pragma once

#include "runtime/params/protocol/message.hpp"

namespace hocket::test {

inline params::Sum sum_of(params::Chunk chunk, params::Clock round = 0) {
    return {{}, chunk, round, {0}, nullptr};
}

}  // namespace hocket::test
