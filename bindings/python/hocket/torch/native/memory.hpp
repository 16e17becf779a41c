// Which tensors C++ takes. All others (not contiguous, sharing memory, complex, quantized) are Python's
// (memory.py).
#pragma once

#include "hocket.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace hocket::torch {

// The types whose sums are the same in torch and in C. bool is not: its sum is "any".
inline std::optional<hkt_type> type_of(at::ScalarType type) {
    switch (type) {
        case at::kFloat:
            return HKT_FLOAT32;
        case at::kDouble:
            return HKT_FLOAT64;
        case at::kHalf:
            return HKT_FLOAT16;
        case at::kBFloat16:
            return HKT_BFLOAT16;
        case at::kChar:
            return HKT_INT8;
        case at::kShort:
            return HKT_INT16;
        case at::kInt:
            return HKT_INT32;
        case at::kLong:
            return HKT_INT64;
        case at::kByte:
            return HKT_UINT8;
        default:
            return std::nullopt;
    }
}

inline std::optional<hkt_op> operator_of(const c10d::ReduceOp& op) {
    switch (op.op_) {
        case c10d::ReduceOp::SUM:
            return HKT_SUM;
        case c10d::ReduceOp::AVG:
            return HKT_AVERAGE;
        case c10d::ReduceOp::PRODUCT:
            return HKT_PRODUCT;
        case c10d::ReduceOp::MIN:
            return HKT_MIN;
        case c10d::ReduceOp::MAX:
            return HKT_MAX;
        case c10d::ReduceOp::BAND:
            return HKT_BAND;
        case c10d::ReduceOp::BOR:
            return HKT_BOR;
        case c10d::ReduceOp::BXOR:
            return HKT_BXOR;
        default:
            return std::nullopt;
    }
}

// Elements that lie one after another.
struct Memory {
    char* begin = nullptr;
    std::int64_t bytes = 0;
    std::size_t count = 0;
    hkt_type type = HKT_FLOAT32;

    char* end() const { return begin + bytes; }
};

inline std::optional<Memory> memory_of(const at::Tensor& tensor) {
    if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided || !tensor.is_contiguous() ||
        tensor.is_neg())
        return std::nullopt;
    const auto type = type_of(tensor.scalar_type());
    if (!type) return std::nullopt;
    const auto count = tensor.numel();
    return Memory{static_cast<char*>(tensor.data_ptr()),
                  count * static_cast<std::int64_t>(tensor.element_size()), static_cast<std::size_t>(count),
                  *type};
}

inline std::optional<Memory> memory_of(const std::vector<at::Tensor>& one) {
    return one.size() == 1 ? memory_of(one[0]) : std::nullopt;
}

// The memory of a list of equal tensors that lie one after another, or of one that has all pieces; none also
// if its pieces are not as large as the one that is given.
inline std::optional<Memory> memory_of_pieces(const std::vector<at::Tensor>& pieces, const Memory& piece,
                                              int ranks) {
    Memory all{nullptr, piece.bytes * ranks, piece.count * static_cast<std::size_t>(ranks), piece.type};
    if (pieces.size() != 1 && pieces.size() != static_cast<std::size_t>(ranks)) return std::nullopt;
    const auto bytes = all.bytes / static_cast<std::int64_t>(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const auto one = memory_of(pieces[i]);
        if (!one || one->type != piece.type || one->bytes != bytes) return std::nullopt;
        if (i == 0) all.begin = one->begin;
        if (one->begin != all.begin + static_cast<std::int64_t>(i) * bytes && bytes > 0) return std::nullopt;
    }
    return all;
}

// Whether an operation may read one and write the other: they share no memory, or the smaller one lies in the
// larger one where the collective puts it.
inline bool are_apart(const Memory& one, const Memory& other, const char* expected) {
    return one.end() <= other.begin || other.end() <= one.begin || one.begin == expected;
}

}  // namespace hocket::torch
