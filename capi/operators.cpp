#include "capi/operators.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>

#include "capi/errors.hpp"
#include "capi/vocabulary.hpp"
#include "runtime/base/error.hpp"
#include "runtime/compute/kernels/cpu/multiply.hpp"

namespace hocket::capi {
namespace {

constexpr std::uint32_t serials = (HKT_OP_LAST - first_made) / first_made;  // numbers of one constant

int draw_number(int constant) {
    static std::atomic<std::uint32_t> next{0};
    const auto serial = static_cast<int>(next.fetch_add(1, std::memory_order_relaxed) % serials);
    return first_made * (serial + 1) + constant;
}

[[noreturn]] void refuse_unknown(int number) {
    if (number < first_made)
        refuse(fmt::format(
            "the operator is {}, a constant: only operators that hkt_premul_sum_create or hkt_op_create made "
            "can be destroyed",
            number));
    refuse(fmt::format(
        "there is no operator {} of this communicator: it was made for another one, or destroyed; "
        "make one with hkt_premul_sum_create or hkt_op_create, and pass it until hkt_op_destroy",
        number));
}

}  // namespace

hkt_op MadeOperators::make(ReduceOp op, double factor) {
    return keep(constant_of(op), {factor});
}

hkt_op MadeOperators::make(std::shared_ptr<const dsl::Operator> defined) {
    return keep(defined_constant, {1, std::move(defined)});
}

hkt_op MadeOperators::keep(int constant, Made made) {
    const std::lock_guard lock(mutex_);
    if (made_.size() == serials)
        throw Error(Status::out_of_memory,
                    fmt::format("the communicator has {} operators, and no number for another: destroy those "
                                "that are not needed (hkt_op_destroy)",
                                serials));
    // Numbers start again after 8 million. Those still in use are skipped.
    for (;;) {
        const int number = draw_number(constant);
        if (made_.emplace(number, made).second) return static_cast<hkt_op>(number);
    }
}

MadeOperators::Made MadeOperators::find(const hkt_op& made) const {
    const std::lock_guard lock(mutex_);
    const auto found = made_.find(number_of(made));
    if (found == made_.end()) refuse_unknown(number_of(made));
    return found->second;
}

void MadeOperators::destroy(const hkt_op& made) {
    const std::lock_guard lock(mutex_);
    if (made_.erase(number_of(made)) == 0) refuse_unknown(number_of(made));
}

Operator multiplying_operator(ReduceOp op, const hkt_op& given, DataType type, const MadeOperators& made) {
    if (number_of(given) < first_made)
        refuse(
            fmt::format("the operator {} needs this rank's factor: make it for the communicator with "
                        "hkt_{}_create, and pass the result instead of the constant",
                        name_of(op), name_of(op)));
    const double factor = made.find(given).factor;
    if (const auto why = kernels::why_no_factor(type, factor))
        refuse(fmt::format("the factor {} {}", factor, *why));
    return {op, factor};
}

Operator defined_operator(const hkt_op& given, DataType type, const MadeOperators& made) {
    compute::Reduction op(made.find(given).defined);
    if (!op.supports(type))
        refuse(
            fmt::format("the operator {} ({}) does not exist for {}: operators of schedule files are of "
                        "floating-point numbers",
                        op.name(), dsl::location_of(op.defined()->definition), name_of(type)));
    return {std::move(op)};
}

}  // namespace hocket::capi
