#include "runtime/compute/kernels/cpu/scatter_add.hpp"

#include <algorithm>
#include <stdexcept>

#include "runtime/compute/kernels/cpu/apply.hpp"
#include "runtime/compute/kernels/cpu/parallel.hpp"

namespace hocket::kernels {
namespace {

constexpr std::size_t least_values_for_a_thread = 32 * 1024;  // for fewer, a thread does not pay

template <DataType type, DataType value_type>
void add_each_value(std::byte* dense, const std::byte* values, const std::uint32_t* indices,
                    std::size_t begin, std::size_t end) {
    using Stored = typename ElementOf<type>::Stored;
    using Worked = typename ElementOf<type>::Worked;
    using Value = ElementOf<value_type>;
    auto* to = reinterpret_cast<Stored*>(dense);
    const auto* from = reinterpret_cast<const typename Value::Stored*>(values);
    for (std::size_t i = begin; i < end; ++i) {
        const auto value = static_cast<Worked>(static_cast<typename Value::Worked>(from[i]));
        to[indices[i]] = static_cast<Stored>(sum(static_cast<Worked>(to[indices[i]]), value));
    }
}

}  // namespace

IndexCheck check_indices(const std::uint32_t* indices, std::size_t k, std::size_t count) {
    IndexCheck check;
    for (std::size_t i = 0; i < k; ++i) {
        if (indices[i] >= count) return {i, false};
        if (i > 0 && indices[i] <= indices[i - 1]) check.ascending = false;
    }
    return check;
}

void scatter_add(DataType type, std::byte* dense, DataType value_type, const std::byte* values,
                 const std::uint32_t* indices, std::size_t k, unsigned threads) {
    const auto parts =
        static_cast<unsigned>(std::clamp<std::size_t>(k / least_values_for_a_thread, 1, threads));
    with_type(type, [&]<DataType t>(TypeConstant<t>) {
        with_type(value_type, [&]<DataType v>(TypeConstant<v>) {
            if constexpr (can_add(t, v))
                in_parallel(parts, [&](unsigned part) {
                    add_each_value<t, v>(dense, values, indices, part_begin(k, 1, part, parts),
                                         part_begin(k, 1, part + 1, parts));
                });
            else
                throw std::logic_error("these types cannot be added");
        });
    });
}

}  // namespace hocket::kernels
