// Operators that are made for a communicator, each with its factor; and what a call's hkt_op comes down to.
#pragma once

#include <map>
#include <mutex>

#include "capi/hocket.h"
#include "capi/vocabulary.hpp"
#include "runtime/types.hpp"

namespace hocket::capi {

// Those of one communicator. Their numbers are drawn for the whole process, so that another communicator's is
// noticed, and one that was destroyed. All functions are thread-safe.
class MadeOperators {
  public:
    // op: one that multiplies. Throws Error(out_of_memory).
    hkt_op make(ReduceOp op, double factor);

    // They throw Error(invalid_argument) if there is none of that number.
    double factor_of(const hkt_op& made) const;
    void destroy(const hkt_op& made);

  private:
    mutable std::mutex mutex_;
    std::map<int, double> factors_;  // by number
};

struct Operator {
    ReduceOp op;
    double factor;  // of an operator that multiplies
};

// Throws Error(invalid_argument): as op_of (vocabulary.hpp), of an operator that multiplies and was not made
// for the communicator, or whose factor is not one for the type.
Operator multiplying_operator(ReduceOp op, const hkt_op& given, DataType type, const MadeOperators& made);
inline Operator operator_of(const hkt_op& given, DataType type, const MadeOperators& made) {
    const ReduceOp op = op_of(given, type);
    return row_of(op).multiplies ? multiplying_operator(op, given, type, made) : Operator{op, 1};
}

}  // namespace hocket::capi
