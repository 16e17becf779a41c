// The elements that are selected from: plain ones, or their sums with a residual.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "runtime/base/half.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/kernels/cpu/feedback.hpp"
#include "runtime/compute/kernels/cuda/widen.cuh"
#include "runtime/compute/kernels/selection.hpp"

namespace hocket::kernels::cuda {

// Calls the action with a null pointer to an element of a type that can_select.
template <typename Action>
int with_selectable(DataType type, const Action& action) {
    if (type == DataType::float16) return action(static_cast<const Float16*>(nullptr));
    if (type == DataType::bfloat16) return action(static_cast<const BFloat16*>(nullptr));
    return action(static_cast<const float*>(nullptr));
}

template <typename Number>
struct PlainElements {
    using Word = Number;
    static constexpr bool calculates = false;

    static constexpr unsigned rows_in_flight = 8;  // of vectors, for each lane
    static constexpr bool has_vectors = true;      // from a 16-byte boundary of the words on

    const Word* words;

    __device__ Word load(std::uint64_t i) const { return words[i]; }
    __device__ Quad load_vector(std::uint64_t i) const { return load_quad(words + i); }
    __device__ void keep(std::uint64_t, Word) const {}
    __device__ void keep_vector(std::uint64_t, const Quad&) const {}
};

// decay * residual + scale * element; each product and the sum are rounded. `keep` overwrites the residual,
// from which the sum was calculated, so load(i) must not follow keep(i).
template <typename Stored>
struct Sums {
    using Word = std::uint32_t;
    static constexpr bool calculates = true;

    static constexpr unsigned rows_in_flight = 4;

    const Stored* elements;
    float* residual;
    float decay, scale;
    bool has_vectors;  // from a 16-byte boundary of the residual on

    Sums(const Stored* to_add, float* rest, float decay_of_rest, float scale_of_elements)
        : elements(to_add), residual(rest), decay(decay_of_rest), scale(scale_of_elements) {
        const auto lead = reinterpret_cast<std::uintptr_t>(residual) % 16 / sizeof(float) * sizeof(Stored);
        has_vectors = (reinterpret_cast<std::uintptr_t>(elements) - lead) % (4 * sizeof(Stored)) == 0;
    }

    __device__ Word sum_of(float rest, Stored element) const {
        return std::bit_cast<Word>(__fadd_rn(__fmul_rn(decay, rest), __fmul_rn(scale, widened(element))));
    }
    __device__ Word load(std::uint64_t i) const { return sum_of(residual[i], elements[i]); }
    __device__ Quad load_vector(std::uint64_t i) const {
        struct Four {
            Stored numbers[4];
        };
        std::conditional_t<sizeof(Stored) == 4, Quad, Pair> packed;
        if constexpr (sizeof(Stored) == 4)
            packed = load_quad(elements + i);
        else
            packed = load_pair(elements + i);
        const auto four = std::bit_cast<Four>(packed);
        Quad vector = load_quad(residual + i);
        for (unsigned e = 0; e < 4; ++e)
            vector.parts[e] = sum_of(std::bit_cast<float>(vector.parts[e]), four.numbers[e]);
        return vector;
    }
    __device__ void keep(std::uint64_t i, Word sum) const { residual[i] = std::bit_cast<float>(sum); }
    __device__ void keep_vector(std::uint64_t i, const Quad& sums) const { store_quad(residual + i, sums); }
};

__device__ inline bool is_finite(float value) {
    return magnitude(std::bit_cast<std::uint32_t>(value)) < 0x7f800000;
}
__device__ inline float with_sign_of(float value, float sign) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(sign) & 0x80000000;
    return std::bit_cast<float>(magnitude(std::bit_cast<std::uint32_t>(value)) | bits);
}

// Returns the type's number nearest to the value, or its largest one if the value is out of range.
template <typename Stored>
__device__ float nearest(float value) {
    const float narrow = widened(static_cast<Stored>(value));
    if (is_finite(narrow)) return narrow;
    using Limits = std::numeric_limits<Stored>;
    constexpr unsigned exponent = 127 + Limits::max_exponent - 1, digits = Limits::digits - 1;
    constexpr std::uint32_t largest = exponent << 23 | ((1u << digits) - 1) << (23 - digits);
    return with_sign_of(std::bit_cast<float>(largest), value);
}

// The device's version of split() in kernels/cpu/feedback.hpp.
__device__ inline Split split_on_device(float value, DataType sent_as) {
    if (!is_finite(value)) return {value, 0};
    const float sent = sent_as == DataType::float16    ? nearest<Float16>(value)
                       : sent_as == DataType::bfloat16 ? nearest<BFloat16>(value)
                                                       : value;
    const float left = __fsub_rn(value, sent);
    if (double{value} - double{sent} != double{left}) return {with_sign_of(0, value), value};
    return {sent, left == 0 ? with_sign_of(0, value) : left};
}

__device__ inline void write_as(DataType type, float value, void* values, std::uint64_t i) {
    if (type == DataType::float16)
        static_cast<Float16*>(values)[i] = static_cast<Float16>(value);
    else if (type == DataType::bfloat16)
        static_cast<BFloat16*>(values)[i] = static_cast<BFloat16>(value);
    else
        static_cast<float*>(values)[i] = value;
}

}  // namespace hocket::kernels::cuda
