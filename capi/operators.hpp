// Operators that are made for a communicator: with a factor, or as a schedule file defines them; and what a
// call's hkt_op stands for.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "capi/hocket.h"
#include "capi/vocabulary.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/program/reduction.hpp"

namespace hocket::capi {

// The operators of one communicator. Their numbers are drawn for the whole process. So a number that belongs
// to another communicator, or whose operator was destroyed, is noticed. All functions are thread-safe.
class MadeOperators {
  public:
    struct Made {
        double factor = 1;                                       // of one that multiplies
        std::shared_ptr<const dsl::Operator> defined = nullptr;  // else what the file says
    };

    // op: one that multiplies. Both throw Error(out_of_memory).
    hkt_op make(ReduceOp op, double factor);
    hkt_op make(std::shared_ptr<const dsl::Operator> defined);

    // Both throw Error(invalid_argument) if there is no operator with that number.
    Made find(const hkt_op& made) const;
    void destroy(const hkt_op& made);

  private:
    hkt_op keep(int constant, Made made);

    mutable std::mutex mutex_;
    std::map<int, Made> made_;  // by number
};

struct Operator {
    compute::Reduction op;
    double factor = 1;  // for an operator that multiplies
};

// Both throw Error(invalid_argument) where op_of (vocabulary.hpp) does, and for an operator that was not made
// for the communicator. Also for a factor that the type cannot hold, and for one that a schedule file defines
// if the type is no floating-point one.
Operator multiplying_operator(ReduceOp op, const hkt_op& given, DataType type, const MadeOperators& made);
Operator defined_operator(const hkt_op& given, DataType type, const MadeOperators& made);
inline Operator operator_of(const hkt_op& given, DataType type, const MadeOperators& made) {
    if (is_defined(given)) return defined_operator(given, type, made);
    const ReduceOp op = op_of(given, type);
    return row_of(op).multiplies ? multiplying_operator(op, given, type, made) : Operator{op};
}

}  // namespace hocket::capi
