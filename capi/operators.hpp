// Operators that are made for a communicator, either with a factor or as a schedule file defines them, and
// the lookup of a call's hkt_op.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "capi/hocket.h"
#include "capi/vocabulary.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/program/reduction.hpp"

namespace hocket::capi {

// The operators of one communicator. Numbers are unique in the process, so a number that belongs to another
// communicator, or whose operator was destroyed, is refused. All functions are thread-safe.
class MadeOperators {
  public:
    struct Made {
        double factor = 1;                                       // for an operator that multiplies
        std::shared_ptr<const dsl::Operator> defined = nullptr;  // the file's; null if it multiplies
    };

    // op: an operator that multiplies. Both throw Error(out_of_memory).
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
// for the communicator. They also throw it for a factor that the type cannot hold, and for an operator from a
// schedule file if the type is not a floating-point one.
Operator multiplying_operator(ReduceOp op, const hkt_op& given, DataType type, const MadeOperators& made);
Operator defined_operator(const hkt_op& given, DataType type, const MadeOperators& made);
inline Operator operator_of(const hkt_op& given, DataType type, const MadeOperators& made) {
    if (is_defined(given)) return defined_operator(given, type, made);
    const ReduceOp op = op_of(given, type);
    return row_of(op).multiplies ? multiplying_operator(op, given, type, made) : Operator{op};
}

}  // namespace hocket::capi
