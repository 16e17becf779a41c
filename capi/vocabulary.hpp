// Types, operators and collectives as hocket.h names them: its constants are those of the rows.
#pragma once

#include <cstring>
#include <optional>
#include <string>

#include "capi/hocket.h"
#include "dsl/base/collective.hpp"
#include "runtime/types.hpp"

namespace hocket::capi {

#define HOCKET_CONSTANT(name, text, constant, ...) constant,
inline constexpr hkt_type all_types[] = {HOCKET_DATA_TYPES(HOCKET_CONSTANT)};
inline constexpr hkt_op all_ops[] = {HOCKET_REDUCE_OPS(HOCKET_CONSTANT)};
#undef HOCKET_CONSTANT
#define HOCKET_CONSTANT(name, constant, ...) constant,
inline constexpr hkt_collective all_collectives[] = {HOCKET_COLLECTIVES(HOCKET_CONSTANT)};
#undef HOCKET_CONSTANT

// C callers may pass any number as an enum; C++ must not even look at such a value.
template <typename Enum>
int number_of(const Enum& value) {
    static_assert(sizeof(Enum) == sizeof(int));
    int number;
    std::memcpy(&number, &value, sizeof number);
    return number;
}

// Operators that are made for a communicator (operators.hpp) have numbers from here on: of each, what is left
// of it in a division by this is the constant of its row.
inline constexpr int first_made = 256;

// The row of a constant, or of an operator that may have been made; none where there is none.
inline std::optional<DataType> find_type(const hkt_type& given) {
    switch (number_of(given)) {
#define HOCKET_CASE(name, text, constant, ...) \
    case constant:                             \
        return DataType::name;
        HOCKET_DATA_TYPES(HOCKET_CASE)
#undef HOCKET_CASE
    }
    return std::nullopt;
}

inline std::optional<ReduceOp> find_op(const hkt_op& given) {
    const int number = number_of(given);
    const bool is_made = number >= first_made;
    switch (is_made ? number % first_made : number) {
#define HOCKET_CASE(name, text, constant, combination, kinds, start, end) \
    case constant:                                                        \
        static_assert(constant < first_made);                             \
        if (is_made && start != at_start::multiply) return std::nullopt;  \
        return ReduceOp::name;
        HOCKET_REDUCE_OPS(HOCKET_CASE)
#undef HOCKET_CASE
    }
    return std::nullopt;
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
    }
    return std::nullopt;
}

// What a call was given (an operator: see operators.hpp). They throw Error(invalid_argument): of what is no
// row, or of an operator that does not exist for the type, with the names.
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

// What is said of a buffer whose address is no multiple of its elements' size.
std::string not_aligned(const char* buffer, DataType type);

}  // namespace hocket::capi
