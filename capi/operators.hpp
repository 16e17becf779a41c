// Operators that are made for a communicator, each with its factor; and what a call's hkt_op stands for.
#pragma once

#include <map>
#include <mutex>

#include "capi/hocket.h"
#include "capi/vocabulary.hpp"
#include "runtime/types.hpp"

namespace hocket::capi {

// The operators of one communicator. Their numbers are drawn for the whole process. So a number that belongs
// to another communicator, or whose operator was destroyed, is noticed. All functions are thread-safe.
class MadeOperators {
  public:
    // op: one that multiplies. Throws Error(out_of_memory).
    hkt_op make(ReduceOp op, double factor);

    // Both throw Error(invalid_argument) if there is no operator with that number.
    double factor_of(const hkt_op& made) const;
    void destroy(const hkt_op& made);

  private:
    mutable std::mutex mutex_;
    std::map<int, double> factors_;  // by number
};

struct Operator {
    ReduceOp op;
    double factor;  // for an operator that multiplies
};

// Throws Error(invalid_argument) where op_of (vocabulary.hpp) does; also for an operator that multiplies but
// was not made for the communicator, and for a factor that the type cannot hold.
Operator multiplying_operator(ReduceOp op, const hkt_op& given, DataType type, const MadeOperators& made);
inline Operator operator_of(const hkt_op& given, DataType type, const MadeOperators& made) {
    const ReduceOp op = op_of(given, type);
    return row_of(op).multiplies ? multiplying_operator(op, given, type, made) : Operator{op, 1};
}

}  // namespace hocket::capi
