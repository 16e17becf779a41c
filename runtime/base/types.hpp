// Element types and reduction operators: a table of each. A row has everything that is specific to one.
// Kernels, the JIT, the C ABI, the tools and the tests read these rows; there is no second list. The schedule
// language knows neither types nor operators: a schedule is valid for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "runtime/base/half.hpp"

namespace hocket {

// The kinds of types, and the kinds that an operator exists for.
namespace kind {
inline constexpr unsigned floating = 1, integer = 2, truth = 4;
inline constexpr unsigned numbers = floating | integer, bits = integer | truth, all = numbers | truth;
}  // namespace kind
namespace at_start {
inline constexpr bool keep = false, multiply = true;
}
namespace at_end {
inline constexpr bool keep = false, divide = true;
}

// How an operator combines two values: see kernels/cpu/apply.hpp.
enum class Combination : std::uint8_t { sum, product, max, min, band, bor, bxor };

// One line for each row, so that a change to one does not reformat the others.
// clang-format off

// Name, text, constant of hocket.h, C++ type in memory, C++ type that is calculated with, kind. Operands are
// widened from the one to the other, and a result is narrowed back, once.
#define HOCKET_DATA_TYPES(ROW)                                                                      \
    ROW(float32,  "float32",  HKT_FLOAT32,  float,         float,         kind::floating)           \
    ROW(float64,  "float64",  HKT_FLOAT64,  double,        double,        kind::floating)           \
    ROW(float16,  "float16",  HKT_FLOAT16,  Float16,       float,         kind::floating)           \
    ROW(bfloat16, "bfloat16", HKT_BFLOAT16, BFloat16,      float,         kind::floating)           \
    ROW(int8,     "int8",     HKT_INT8,     std::int8_t,   std::int8_t,   kind::integer)            \
    ROW(int16,    "int16",    HKT_INT16,    std::int16_t,  std::int16_t,  kind::integer)            \
    ROW(int32,    "int32",    HKT_INT32,    std::int32_t,  std::int32_t,  kind::integer)            \
    ROW(int64,    "int64",    HKT_INT64,    std::int64_t,  std::int64_t,  kind::integer)            \
    ROW(uint8,    "uint8",    HKT_UINT8,    std::uint8_t,  std::uint8_t,  kind::integer)            \
    ROW(uint16,   "uint16",   HKT_UINT16,   std::uint16_t, std::uint16_t, kind::integer)            \
    ROW(uint32,   "uint32",   HKT_UINT32,   std::uint32_t, std::uint32_t, kind::integer)            \
    ROW(uint64,   "uint64",   HKT_UINT64,   std::uint64_t, std::uint64_t, kind::integer)            \
    ROW(boolean,  "bool",     HKT_BOOL,     std::uint8_t,  std::uint8_t,  kind::truth)              \

// Name, text, constant of hocket.h, how it combines two values, and the kinds of types that it exists for.
// Then the operation at the start: a rank's input is kept, or multiplied by the rank's factor
// (kernels/cpu/multiply.hpp). And at the end: a value that holds all ranks' operands is kept, or divided by
// their number.
#define HOCKET_REDUCE_OPS(ROW)                                                                                 \
    ROW(sum,        "sum",        HKT_SUM,        sum,     kind::numbers, at_start::keep,     at_end::keep)    \
    ROW(product,    "product",    HKT_PRODUCT,    product, kind::numbers, at_start::keep,     at_end::keep)    \
    ROW(max,        "max",        HKT_MAX,        max,     kind::all,     at_start::keep,     at_end::keep)    \
    ROW(min,        "min",        HKT_MIN,        min,     kind::all,     at_start::keep,     at_end::keep)    \
    ROW(band,       "band",       HKT_BAND,       band,    kind::bits,    at_start::keep,     at_end::keep)    \
    ROW(bor,        "bor",        HKT_BOR,        bor,     kind::bits,    at_start::keep,     at_end::keep)    \
    ROW(bxor,       "bxor",       HKT_BXOR,       bxor,    kind::bits,    at_start::keep,     at_end::keep)    \
    ROW(average,    "average",    HKT_AVERAGE,    sum,     kind::numbers, at_start::keep,     at_end::divide)  \
    ROW(premul_sum, "premul_sum", HKT_PREMUL_SUM, sum,     kind::numbers, at_start::multiply, at_end::keep)    \

// The rows end here.
// clang-format on

#define HOCKET_NAME(name, ...) name,
#define HOCKET_TYPE(name, ...) DataType::name,
#define HOCKET_OP(name, ...) ReduceOp::name,
enum class DataType : std::uint8_t { HOCKET_DATA_TYPES(HOCKET_NAME) };
enum class ReduceOp : std::uint8_t { HOCKET_REDUCE_OPS(HOCKET_NAME) };
inline constexpr DataType all_types[] = {HOCKET_DATA_TYPES(HOCKET_TYPE)};
inline constexpr ReduceOp all_ops[] = {HOCKET_REDUCE_OPS(HOCKET_OP)};
#undef HOCKET_NAME
#undef HOCKET_TYPE
#undef HOCKET_OP

// Stored is the type in memory, Worked the type for calculations.
template <DataType type>
struct ElementOf;
#define HOCKET_ELEMENT(name, text, constant, stored, worked, kind) \
    template <>                                                    \
    struct ElementOf<DataType::name> {                             \
        using Stored = stored;                                     \
        using Worked = worked;                                     \
    };
HOCKET_DATA_TYPES(HOCKET_ELEMENT)
#undef HOCKET_ELEMENT

struct TypeRow {
    std::string_view name;  // ends in a 0
    std::size_t size;
    unsigned kind;
};
struct OpRow {
    std::string_view name;  // ends in a 0
    Combination combination;
    unsigned kinds;
    bool multiplies, divides;
};
#define HOCKET_TYPE(name, text, constant, stored, worked, kind) {text, sizeof(stored), kind},
#define HOCKET_OP(name, text, constant, combination, kinds, start, end) \
    {text, Combination::combination, kinds, start, end},
inline constexpr TypeRow type_rows[] = {HOCKET_DATA_TYPES(HOCKET_TYPE)};
inline constexpr OpRow op_rows[] = {HOCKET_REDUCE_OPS(HOCKET_OP)};
#undef HOCKET_TYPE
#undef HOCKET_OP

// Called for a number without a row, which only a defect in Hocket can cause.
[[noreturn]] inline void no_such_row(const char* table, int number) {
    throw std::logic_error(std::string("there is no ") + table + " of number " + std::to_string(number));
}
[[noreturn]] inline void no_such_row(DataType type) {
    no_such_row("element type", static_cast<int>(type));
}
[[noreturn]] inline void no_such_row(ReduceOp op) {
    no_such_row("operator", static_cast<int>(op));
}

constexpr const TypeRow& row_of(DataType type) {
    const auto number = static_cast<std::size_t>(type);
    if (number >= std::size(type_rows)) no_such_row(type);
    return type_rows[number];
}
constexpr const OpRow& row_of(ReduceOp op) {
    const auto number = static_cast<std::size_t>(op);
    if (number >= std::size(op_rows)) no_such_row(op);
    return op_rows[number];
}

constexpr std::size_t element_size(DataType type) {
    return row_of(type).size;
}
constexpr std::string_view name_of(DataType type) {
    return row_of(type).name;
}
constexpr std::string_view name_of(ReduceOp op) {
    return row_of(op).name;
}
// Returns the number by which complete results are divided.
constexpr std::uint32_t divisor_of(ReduceOp op, std::uint32_t ranks) {
    return row_of(op).divides ? ranks : 1;
}
constexpr bool supports(ReduceOp op, DataType type) {
    return (row_of(op).kinds & row_of(type).kind) != 0;
}

// Calls the action with the row's number as a type, so that the action is compiled for that row.
template <DataType type>
using TypeConstant = std::integral_constant<DataType, type>;
template <ReduceOp op>
using OpConstant = std::integral_constant<ReduceOp, op>;

template <typename Action>
decltype(auto) with_type(DataType type, Action action) {
    switch (type) {
#define HOCKET_CASE(name, ...) \
    case DataType::name:       \
        return action(TypeConstant<DataType::name>());
        HOCKET_DATA_TYPES(HOCKET_CASE)
#undef HOCKET_CASE
    }
    no_such_row(type);
}

template <typename Action>
decltype(auto) with_op(ReduceOp op, Action action) {
    switch (op) {
#define HOCKET_CASE(name, ...) \
    case ReduceOp::name:       \
        return action(OpConstant<ReduceOp::name>());
        HOCKET_REDUCE_OPS(HOCKET_CASE)
#undef HOCKET_CASE
    }
    no_such_row(op);
}

// The same for an operator and a type that it exists for. The C ABI has refused all other pairs.
template <typename Action>
auto with_pair(ReduceOp op, DataType type, Action action) {
    return with_type(type, [&]<DataType t>(TypeConstant<t> of_type) {
        return with_op(op, [&]<ReduceOp o>(OpConstant<o> of_op) {
            if constexpr (supports(o, t)) return action(of_op, of_type);
            throw std::logic_error(std::string(name_of(o)) + " does not exist for " +
                                   std::string(name_of(t)));
        });
    });
}

}  // namespace hocket
