#include "runtime/kernels/cpu/scatter_add.hpp"

#include <algorithm>

#include "runtime/kernels/cpu/apply.hpp"
#include "runtime/kernels/cpu/parallel.hpp"

namespace hocket::kernels {
namespace {

constexpr std::size_t least_for_a_thread = 32 * 1024;  // values; with fewer, starting it takes longer

template <typename Stored, typename Worked>
void add_each(Stored* dense, const Stored* values, const std::uint32_t* indices, std::size_t k) {
    for (std::size_t i = 0; i < k; ++i)
        dense[indices[i]] =
            static_cast<Stored>(sum(static_cast<Worked>(dense[indices[i]]), static_cast<Worked>(values[i])));
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

void scatter_add(DataType type, std::byte* dense, const std::byte* values, const std::uint32_t* indices,
                 std::size_t k, unsigned threads) {
    const auto parts = static_cast<unsigned>(std::clamp<std::size_t>(k / least_for_a_thread, 1, threads));
    with_pair(ReduceOp::sum, type, [&]<ReduceOp o, DataType t>(OpConstant<o>, TypeConstant<t>) {
        using Stored = typename ElementOf<t>::Stored;
        using Worked = typename ElementOf<t>::Worked;
        in_parallel(parts, [&](unsigned part) {
            const std::size_t begin = part_begin(k, 1, part, parts), end = part_begin(k, 1, part + 1, parts);
            add_each<Stored, Worked>(reinterpret_cast<Stored*>(dense),
                                     reinterpret_cast<const Stored*>(values) + begin, indices + begin,
                                     end - begin);
        });
    });
}

}  // namespace hocket::kernels
