// Kernels by themselves: what callers pass is checked here, whole, before anything is written.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "capi/errors.hpp"
#include "capi/growth.hpp"
#include "capi/vocabulary.hpp"
#include "runtime/environment.hpp"
#include "runtime/kernels/cpu/norms.hpp"
#include "runtime/kernels/cpu/scatter_add.hpp"
#include "runtime/kernels/cpu/topk.hpp"

using namespace hocket;

namespace {

constexpr std::int64_t most_threads = 256, most_rounds = 1000;

// Memory that a caller passes: `count` elements of `size` bytes.
struct Range {
    std::string name;
    const void* begin;
    std::size_t count, size;

    std::uintptr_t first() const { return reinterpret_cast<std::uintptr_t>(begin); }
    std::uintptr_t end() const { return first() + count * size; }
    bool overlaps(const Range& other) const {
        return count > 0 && other.count > 0 && first() < other.end() && other.first() < end();
    }
};

void check_range_of(const char* function, const Range& range) {
    if (range.count == 0) return;
    if (range.begin == nullptr)
        capi::refuse(fmt::format("{}: {} is null; it has {} element{}", function, range.name, range.count,
                                 range.count == 1 ? "" : "s"));
    if (range.count > (SIZE_MAX - range.first()) / range.size)
        capi::refuse(fmt::format("{}: {} has {} elements of {} B, which is more than memory has", function,
                                 range.name, range.count, range.size));
    if (range.first() % range.size != 0)
        capi::refuse(fmt::format("{}: {} is {}, which is not a multiple of {}, the bytes of an element",
                                 function, range.name, range.begin, range.size));
}

// Checks each, and that nothing that is written overlaps anything else.
void check_ranges(const char* function, const std::vector<Range>& written, const std::vector<Range>& read) {
    for (const auto* ranges : {&written, &read})
        for (const Range& range : *ranges) check_range_of(function, range);
    for (std::size_t w = 0; w < written.size(); ++w) {
        const auto check = [&](const Range& other) {
            if (written[w].overlaps(other))
                capi::refuse(fmt::format("{}: {} ({} B from {}) and {} ({} B from {}) overlap", function,
                                         written[w].name, written[w].count * written[w].size,
                                         written[w].begin, other.name, other.count * other.size,
                                         other.begin));
        };
        std::for_each(written.begin() + static_cast<std::ptrdiff_t>(w) + 1, written.end(), check);
        std::for_each(read.begin(), read.end(), check);
    }
}

template <typename Exists>
DataType check_type(const char* function, const char* name, const hkt_type& given, Exists exists) {
    const auto type = capi::find_type(given);
    if (type && exists(*type)) return *type;
    std::vector<std::string_view> names;
    for (const DataType each : hocket::all_types)
        if (exists(each)) names.push_back(name_of(each));
    capi::refuse(fmt::format("{}: {} is {}; it must be one of {}", function, name,
                             type ? std::string(name_of(*type)) : fmt::format("{}", capi::number_of(given)),
                             fmt::join(names, ", ")));
}

unsigned check_threads(const char* function, std::int32_t threads) {
    const std::string name = fmt::format("{}: threads", function);
    if (threads != 0) return static_cast<unsigned>(check_range(name, threads, 1, most_threads));
    const Environment environment = process_environment();
    return static_cast<unsigned>(
        EnvironmentReader(environment).number("HOCKET_KERNEL_THREADS", 1, most_threads).value_or(1));
}

void check_factor(const char* name, float factor) {
    if (!std::isfinite(factor))
        capi::refuse(fmt::format("hkt_topk: {} is {}; it must be finite", name, factor));
}

void topk(const void* x, std::size_t count, DataType type, std::size_t k, const hkt_topk_options& options,
          void* values, std::uint32_t* indices, kernels::Selected& selected) {
    const char* const function = "hkt_topk";
    const kernels::TopkOptions how{
        static_cast<std::uint32_t>(check_range("hkt_topk: rounds", options.rounds, 0, most_rounds)),
        {options.seed, options.step, options.shard},
        check_threads(function, options.threads)};
    const bool with_residual = options.residual != nullptr;
    const DataType value_type =
        with_residual ? check_type(function, "value_type", options.value_type, kernels::can_select) : type;
    if (count > kernels::most_selectable)
        capi::refuse(
            fmt::format("{}: x has {} elements; it can be selected from up to 2^32 at once: divide them",
                        function, count));
    const std::size_t most = std::min(k, count);
    std::vector<Range> written = {{"values", values, most, element_size(value_type)},
                                  {"indices", indices, most, sizeof *indices}};
    if (with_residual) written.push_back({"the residual", options.residual, count, sizeof(float)});
    check_ranges(function, written, {{"x", x, count, element_size(type)}});
    check_factor("decay", options.decay);
    check_factor("scale", options.scale);
    const auto* elements = static_cast<const std::byte*>(x);
    auto* to = static_cast<std::byte*>(values);
    selected = with_residual ? kernels::topk_with_feedback(type, elements, count, k, how,
                                                           {options.residual, options.decay, options.scale,
                                                            value_type, options.select_non_finite == 0},
                                                           to, indices)
                             : kernels::topk(type, elements, count, k, how, to, indices);
}

}  // namespace

extern "C" {

hkt_status hkt_topk_count(size_t count, double density, size_t* k) {
    return capi::guarded([&] {
        if (k == nullptr) capi::refuse("hkt_topk_count: k is null; pass the address of a size_t");
        if (!(density >= 0 && density <= 1))
            capi::refuse(fmt::format("hkt_topk_count: the density is {}; it must be from 0 to 1", density));
        *k = density == 1 ? count : static_cast<std::size_t>(density * static_cast<double>(count));
        if (density > 0 && count > 0) *k = std::clamp<std::size_t>(*k, 1, count);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_topk(const void* x, size_t count, hkt_type type, size_t k, const hkt_topk_options* options,
                    void* values, uint32_t* indices, size_t* selected, int32_t* non_finite) {
    return capi::guarded([&] {
        if (selected == nullptr) capi::refuse("hkt_topk: selected is null; pass the address of a size_t");
        const auto checked = check_type("hkt_topk", "type", type, kernels::can_select);
        kernels::Selected result;
        topk(x, count, checked, k, capi::read_options(options), values, indices, result);
        *selected = result.count;
        if (non_finite != nullptr) *non_finite = result.non_finite ? 1 : 0;
        return HKT_SUCCESS;
    });
}

hkt_status hkt_scatter_add(void* dense, size_t count, hkt_type type, const void* values,
                           const uint32_t* indices, size_t k, int32_t threads) {
    return capi::guarded([&] {
        const char* const function = "hkt_scatter_add";
        const DataType checked =
            check_type(function, "type", type, [](DataType each) { return supports(ReduceOp::sum, each); });
        const unsigned parts = check_threads(function, threads);
        check_ranges(
            function, {{"dense", dense, count, element_size(checked)}},
            {{"values", values, k, element_size(checked)}, {"indices", indices, k, sizeof *indices}});
        const kernels::IndexCheck check = kernels::check_indices(indices, k, count);
        if (check.wrong)
            capi::refuse(fmt::format("{}: indices[{}] is {}; dense has {} elements", function, *check.wrong,
                                     indices[*check.wrong], count));
        kernels::scatter_add(checked, static_cast<std::byte*>(dense), static_cast<const std::byte*>(values),
                             indices, k, check.ascending ? parts : 1);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_norms(const void* const* tensors, const size_t* counts, size_t tensor_count, hkt_type type,
                     float* norms, int32_t threads) {
    return capi::guarded([&] {
        const char* const function = "hkt_norms";
        const DataType checked = check_type(function, "type", type, kernels::has_norm);
        const unsigned parts = check_threads(function, threads);
        check_ranges(function, {{"norms", norms, tensor_count, sizeof *norms}},
                     {{"tensors", tensors, tensor_count, sizeof *tensors},
                      {"counts", counts, tensor_count, sizeof *counts}});
        std::vector<Range> read;
        std::vector<kernels::Tensor> list;
        for (std::size_t t = 0; t < tensor_count; ++t) {
            read.push_back({fmt::format("tensor {}", t), tensors[t], counts[t], element_size(checked)});
            list.push_back({static_cast<const std::byte*>(tensors[t]), counts[t]});
        }
        check_ranges(function, {{"norms", norms, tensor_count, sizeof *norms}}, read);
        kernels::norms(checked, list, parts, norms);
        return HKT_SUCCESS;
    });
}

}  // extern "C"
