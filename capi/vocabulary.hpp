// Types, operators and collectives under the names of hocket.h. The rows' constants are those of hocket.h.
#pragma once

#include <cstring>
#include <optional>
#include <string>

#include "capi/hocket.h"
#include "dsl/base/collective.hpp"
#include "runtime/base/types.hpp"

namespace hocket::capi {

#define HOCKET_CONSTANT(name, text, constant, ...) constant,
inline constexpr hkt_type all_types[] = {HOCKET_DATA_TYPES(HOCKET_CONSTANT)};
inline constexpr hkt_op all_ops[] = {HOCKET_REDUCE_OPS(HOCKET_CONSTANT)};
#undef HOCKET_CONSTANT
#define HOCKET_CONSTANT(name, constant, ...) constant,
inline constexpr hkt_collective all_collectives[] = {HOCKET_COLLECTIVES(HOCKET_CONSTANT)};
#undef HOCKET_CONSTANT

// C callers may pass any number as an enum; in C++, reading such a value as the enum is undefined behaviour.
template <typename Enum>
int number_of(const Enum& value) {
    static_assert(sizeof(Enum) == sizeof(int));
    int number;
    std::memcpy(&number, &value, sizeof number);
    return number;
}

// Operators that are made for a communicator (operators.hpp) have numbers from first_made on. Such a number
// modulo first_made is the constant of the operator's row, or defined_constant for operators from schedule
// files.
inline constexpr int first_made = 256, defined_constant = 255;

inline bool is_defined(const hkt_op& given) {
    const int number = number_of(given);
    return number >= first_made && number % first_made == defined_constant && number != HKT_OP_LAST;
}

// Returns the row of a constant, or of an operator that may have been made; nullopt if there is no such row.
inline std::optional<DataType> find_type(const hkt_type& given) {
    switch (number_of(given)) {
#define HOCKET_CASE(name, text, constant, ...) \
    case constant:                             \
        return DataType::name;
        HOCKET_DATA_TYPES(HOCKET_CASE)
#undef HOCKET_CASE
        default:
            return std::nullopt;
    }
}

inline std::optional<ReduceOp> find_op(const hkt_op& given) {
    const int number = number_of(given);
    const bool is_made = number >= first_made;
    switch (is_made ? number % first_made : number) {
#define HOCKET_CASE(name, text, constant, combination, kinds, start, end) \
    case constant:                                                        \
        static_assert(constant < defined_constant);                       \
        if (is_made && start != at_start::multiply) return std::nullopt;  \
        return ReduceOp::name;
        HOCKET_REDUCE_OPS(HOCKET_CASE)
#undef HOCKET_CASE
        default:
            return std::nullopt;
    }
}

constexpr int constant_of(ReduceOp op) {
    return all_ops[static_cast<std::size_t>(op)];
}

inline std::optional<dsl::Collective> find_collective(const hkt_collective& given) {
    switch (number_of(given)) {
#define HOCKET_CASE(name, constant, ...) \
    case constant:                       \
        return dsl::Collective::name;
        HOCKET_COLLECTIVES(HOCKET_CASE)
#undef HOCKET_CASE
        default:
            return std::nullopt;
    }
}

// Return the row of a value that a call was given (for operators see operators.hpp). They throw
// Error(invalid_argument), which lists the known names, if there is no such row or if the operator does not
// exist for the type.
[[noreturn]] void refuse_type(const hkt_type& given);
[[noreturn]] void refuse_op(const hkt_op& given, DataType type);
inline DataType type_of(const hkt_type& given) {
    if (const auto type = find_type(given)) return *type;
    refuse_type(given);
}
inline ReduceOp op_of(const hkt_op& given, DataType type) {
    const auto op = find_op(given);
    if (op && supports(*op, type)) return *op;
    refuse_op(given, type);
}
dsl::Collective collective_of(const hkt_collective& given);

// Returns the message about a buffer whose address is not a multiple of its element size.
std::string not_aligned(const char* buffer, DataType type);

}  // namespace hocket::capi
