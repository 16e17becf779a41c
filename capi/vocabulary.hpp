// Types, operators and collectives as hocket.h names them: its constants are those of the rows.
#pragma once

#include <cstring>
#include <optional>
#include <string>

#include "capi/hocket.h"
#include "dsl/collective.hpp"
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

// The row of a constant; none where it has none.
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
    switch (number_of(given)) {
#define HOCKET_CASE(name, text, constant, ...) \
    case constant:                             \
        return ReduceOp::name;
        HOCKET_REDUCE_OPS(HOCKET_CASE)
#undef HOCKET_CASE
    }
    return std::nullopt;
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

// What a call was given. They throw Error(invalid_argument): of what is no row, or of an operator that does
// not exist for the type, with the names.
DataType type_of(const hkt_type& given);
ReduceOp op_of(const hkt_op& given, DataType type);
dsl::Collective collective_of(const hkt_collective& given);

// What is said of a buffer whose address is no multiple of its elements' size.
std::string not_aligned(const char* buffer, DataType type);

}  // namespace hocket::capi
