// Element types and operators that plans are compiled for. The schedule language knows neither: a
// schedule is valid for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hocket {

enum class DataType : std::uint8_t { float32, float64, int32, int64 };
enum class ReduceOp : std::uint8_t { sum, max, min };

constexpr std::size_t element_size(DataType type) {
    return type == DataType::float32 || type == DataType::int32 ? 4 : 8;
}

constexpr std::string_view name_of(DataType type) {
    constexpr std::string_view names[] = {"float32", "float64", "int32", "int64"};
    return names[static_cast<int>(type)];
}

constexpr std::string_view name_of(ReduceOp op) {
    constexpr std::string_view names[] = {"sum", "max", "min"};
    return names[static_cast<int>(op)];
}

}  // namespace hocket
