#include "runtime/compute/program/sparse_terms.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/compute/kernels/selection.hpp"
#include "runtime/compute/program/extra_layout.hpp"

namespace hocket::compute {

SelectedPiece piece_at(std::byte* memory, std::uint64_t k, DataType type) {
    return {k, memory, reinterpret_cast<std::uint32_t*>(memory + bytes_of_values(k, type))};
}

void subtract(DataType type, std::byte* to, DataType value_type, const SelectedPiece& piece) {
    with_type(type, [&]<DataType t>(TypeConstant<t>) {
        with_type(value_type, [&]<DataType v>(TypeConstant<v>) {
            if constexpr (row_of(t).kind == kind::floating && row_of(v).kind == kind::floating) {
                using Stored = typename ElementOf<t>::Stored;
                using Worked = typename ElementOf<t>::Worked;
                auto* const dense = reinterpret_cast<Stored*>(to);
                const auto* const values =
                    reinterpret_cast<const typename ElementOf<v>::Stored*>(piece.values);
                for (std::uint64_t i = 0; i < piece.k; ++i) {
                    const Worked left =
                        static_cast<Worked>(dense[piece.indices[i]]) -
                        static_cast<Worked>(static_cast<typename ElementOf<v>::Worked>(values[i]));
                    dense[piece.indices[i]] = static_cast<Stored>(std::isfinite(left) ? left : Worked{0});
                }
            } else {
                no_such_row(t);
            }
        });
    });
}

void clear(std::byte* to, std::size_t element, const SelectedPiece& piece) {
    for (std::uint64_t i = 0; i < piece.k; ++i) std::memset(to + piece.indices[i] * element, 0, element);
}

void fill_non_finite(DataType type, const SelectedPiece& piece) {
    std::memset(piece.values, 0, piece.k * element_size(type));
    for (std::uint64_t i = 0; i < piece.k; ++i) piece.indices[i] = static_cast<std::uint32_t>(i);
    with_type(type, [&]<DataType t>(TypeConstant<t>) {
        using Stored = typename ElementOf<t>::Stored;
        using Worked = typename ElementOf<t>::Worked;
        if constexpr (row_of(t).kind == kind::floating)
            reinterpret_cast<Stored*>(piece.values)[0] =
                static_cast<Stored>(std::numeric_limits<Worked>::quiet_NaN());
    });
}

void add_to_strip(DataType type, SparseTerm& term, float* strip, std::uint64_t begin, std::uint64_t n) {
    const auto apply = [&](float element, float value) {
        if (term.use == SparseTerm::Use::add) return element + value;
        if (term.use == SparseTerm::Use::clear) return 0.0f;
        const float left = element - value;
        return std::isfinite(left) ? left : 0.0f;
    };
    with_type(type, [&]<DataType t>(TypeConstant<t>) {
        if constexpr (kernels::can_select(t)) {
            const auto* const values =
                reinterpret_cast<const typename ElementOf<t>::Stored*>(term.piece.values);
            for (; term.done < term.piece.k; ++term.done) {
                const std::uint64_t at = term.begin + term.piece.indices[term.done];
                if (at >= begin + n) return;
                strip[at - begin] = apply(strip[at - begin], static_cast<float>(values[term.done]));
            }
        } else {
            no_such_row(t);
        }
    });
}

}  // namespace hocket::compute
