// Kernels by themselves: what callers pass is checked here, whole, before anything is written.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "capi/errors.hpp"
#include "capi/growth.hpp"
#include "capi/ranges.hpp"
#include "capi/vocabulary.hpp"
#include "runtime/environment.hpp"
#include "runtime/kernels/cpu/norms.hpp"
#include "runtime/kernels/cpu/optimizers/step.hpp"
#include "runtime/kernels/cpu/scatter_add.hpp"
#include "runtime/kernels/cpu/topk.hpp"

using namespace hocket;
using capi::check_ranges;
using capi::Range;

namespace {

constexpr std::int64_t most_threads = 256, most_thresholds = 1000;

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
    if (threads != 0) return static_cast<unsigned>(check_range(name, threads, 0, most_threads));
    const Environment environment = process_environment();
    return static_cast<unsigned>(
        EnvironmentReader(environment).number("HOCKET_KERNEL_THREADS", 1, most_threads).value_or(1));
}

void check_factors(const hkt_topk_options& options) {
    if (!std::isfinite(options.decay))
        capi::refuse(fmt::format("hkt_topk: decay is {}; it must be finite", options.decay));
    if (!std::isfinite(options.scale) || options.scale == 0)
        capi::refuse(
            fmt::format("hkt_topk: scale is {}; it must be finite, and not 0, or nothing of x would "
                        "count: start from HKT_TOPK_OPTIONS_INIT",
                        options.scale));
}

DataType value_type_of(DataType type, const hkt_topk_options& options) {
    if (options.value_type == -1) return type;
    hkt_type given;
    std::memcpy(&given, &options.value_type, sizeof given);
    const DataType value_type = check_type("hkt_topk", "value_type", given, kernels::can_select);
    if (options.residual == nullptr && value_type != type)
        capi::refuse(
            fmt::format("hkt_topk: value_type is {}, and there is no residual: then values have the type "
                        "of x, {}. Give a residual, or leave value_type at -1",
                        name_of(value_type), name_of(type)));
    return value_type;
}

void topk(const void* x, std::size_t count, DataType type, std::size_t k, const hkt_topk_options& options,
          void* values, std::uint32_t* indices, kernels::Selected& selected) {
    const char* const function = "hkt_topk";
    const kernels::TopkOptions how{static_cast<std::uint32_t>(check_range(
                                       "hkt_topk: thresholds", options.thresholds, 0, most_thresholds)),
                                   {options.seed, options.step, options.shard},
                                   check_threads(function, options.threads)};
    const bool with_residual = options.residual != nullptr;
    const DataType value_type = value_type_of(type, options);
    if (count > kernels::most_selectable)
        capi::refuse(
            fmt::format("{}: x has {} elements; it can be selected from up to 2^32 at once: divide them",
                        function, count));
    const std::size_t most = std::min(k, count);
    std::vector<Range> written = {{"values", values, most, element_size(value_type)},
                                  {"indices", indices, most, sizeof *indices}};
    if (with_residual) written.push_back({"the residual", options.residual, count, sizeof(float)});
    check_ranges(function, written, {{"x", x, count, element_size(type)}});
    if (with_residual) check_factors(options);
    const auto* elements = static_cast<const std::byte*>(x);
    auto* to = static_cast<std::byte*>(values);
    selected = with_residual ? kernels::topk_with_feedback(type, elements, count, k, how,
                                                           {options.residual, options.decay, options.scale,
                                                            value_type, options.select_non_finite == 0},
                                                           to, indices)
                             : kernels::topk(type, elements, count, k, how, to, indices);
}

// What a step multiplies with or adds, as float32.
void check_number(const char* function, const char* name, double value) {
    constexpr double most = std::numeric_limits<float>::max();
    if (!(value >= 0 && value <= most))
        capi::refuse(fmt::format("{}: {} is {}; it must be from 0 to {:.8g}", function, name, value, most));
}
// How much of an average stays.
void check_share(const char* function, const char* name, double value) {
    if (!(value >= 0 && value < 1))
        capi::refuse(fmt::format("{}: {} is {}; it must be at least 0, and below 1", function, name, value));
}

// What a step of an optimizer is for, as the caller lists it.
template <unsigned n>
struct TensorLists {
    float* const* weights;
    const void* const* gradients;
    struct States {
        const char* name;
        float* const* pointers;
    } states[n];
    const std::size_t* counts;
    std::size_t tensor_count;
};

template <unsigned n>
std::vector<kernels::OptimizedTensor<n>> check_tensors(const char* function, const TensorLists<n>& lists,
                                                       DataType gradients, std::int32_t* skipped) {
    if (skipped == nullptr)
        capi::refuse(fmt::format("{}: skipped is null; pass the address of an int32_t", function));
    std::vector<Range> written, read;
    written.reserve(1 + (1 + n) * lists.tensor_count);
    read.reserve(3 + n + lists.tensor_count);
    written = {{"skipped", skipped, 1, sizeof *skipped}};
    read = {{"weights", lists.weights, lists.tensor_count, sizeof *lists.weights},
            {"gradients", lists.gradients, lists.tensor_count, sizeof *lists.gradients},
            {"counts", lists.counts, lists.tensor_count, sizeof *lists.counts}};
    for (const auto& [name, pointers] : lists.states)
        read.push_back({name, pointers, lists.tensor_count, sizeof *pointers});
    check_ranges(function, written, read);

    std::vector<kernels::OptimizedTensor<n>> tensors;
    tensors.reserve(lists.tensor_count);
    for (std::size_t t = 0; t < lists.tensor_count; ++t) {
        const std::size_t count = lists.counts[t];
        kernels::OptimizedTensor<n> tensor{
            lists.weights[t], static_cast<const std::byte*>(lists.gradients[t]), {}, count};
        written.push_back({"weights", tensor.weights, count, sizeof(float), t});
        read.push_back({"gradients", tensor.gradient, count, element_size(gradients), t});
        for (unsigned s = 0; s < n; ++s) {
            tensor.states[s] = lists.states[s].pointers[t];
            written.push_back({lists.states[s].name, tensor.states[s], count, sizeof(float), t});
        }
        tensors.push_back(tensor);
    }
    check_ranges(function, written, read);
    return tensors;
}

template <typename Step>
void take_step(const char* function, const Step& step, const TensorLists<Step::states>& lists, hkt_type type,
               std::int32_t threads, std::int32_t* skipped) {
    const DataType gradients = check_type(function, "gradient_type", type, kernels::has_norm);
    const unsigned parts = check_threads(function, threads);
    const auto tensors = check_tensors(function, lists, gradients, skipped);
    *skipped = kernels::take_step<Step>(step, gradients, tensors, parts) ? 0 : 1;
}

}  // namespace

extern "C" {

hkt_status hkt_topk_count(size_t count, double density, size_t* k) {
    return capi::guarded([&] {
        if (k == nullptr) capi::refuse("hkt_topk_count: k is null; pass the address of a size_t");
        if (!(density >= 0 && density <= 1))
            capi::refuse(fmt::format("hkt_topk_count: the density is {}; it must be from 0 to 1", density));
        *k = kernels::selected_of(count, density);
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

hkt_status hkt_scatter_add(void* dense, size_t count, hkt_type type, const void* values, hkt_type value_type,
                           const uint32_t* indices, size_t k, int32_t threads) {
    return capi::guarded([&] {
        const char* const function = "hkt_scatter_add";
        const DataType checked =
            check_type(function, "type", type, [](DataType each) { return supports(ReduceOp::sum, each); });
        const DataType added = check_type(function, "value_type", value_type,
                                          [&](DataType each) { return kernels::can_add(checked, each); });
        const unsigned parts = check_threads(function, threads);
        check_ranges(function, {{"dense", dense, count, element_size(checked)}},
                     {{"values", values, k, element_size(added)}, {"indices", indices, k, sizeof *indices}});
        const kernels::IndexCheck check = kernels::check_indices(indices, k, count);
        if (check.wrong)
            capi::refuse(fmt::format("{}: indices[{}] is {}; dense has {} elements. Nothing was added",
                                     function, *check.wrong, indices[*check.wrong], count));
        kernels::scatter_add(checked, static_cast<std::byte*>(dense), added,
                             static_cast<const std::byte*>(values), indices, k, check.ascending ? parts : 1);
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
            read.push_back({"tensors", tensors[t], counts[t], element_size(checked), t});
            list.push_back({static_cast<const std::byte*>(tensors[t]), counts[t]});
        }
        check_ranges(function, {{"norms", norms, tensor_count, sizeof *norms}}, read);
        kernels::norms(checked, list, parts, norms);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_lars(float* const* weights, const void* const* gradients, float* const* momenta,
                    const size_t* counts, size_t tensor_count, hkt_type gradient_type, double rate,
                    const hkt_lars_options* options, int32_t* skipped) {
    return capi::guarded([&] {
        const char* const function = "hkt_lars";
        const hkt_lars_options how = capi::read_options(options);
        check_number(function, "rate", rate);
        check_share(function, "momentum", how.momentum);
        check_number(function, "weight_decay", how.weight_decay);
        check_number(function, "trust", how.trust);
        check_number(function, "epsilon", how.epsilon);
        const kernels::LarsStep step(
            {rate, how.momentum, how.weight_decay, how.trust, how.epsilon, how.adaptive != 0});
        take_step(function, step, {weights, gradients, {{"momenta", momenta}}, counts, tensor_count},
                  gradient_type, how.threads, skipped);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_lamb(float* const* weights, const void* const* gradients, float* const* first_moments,
                    float* const* second_moments, const size_t* counts, size_t tensor_count,
                    hkt_type gradient_type, double rate, uint64_t step, const hkt_lamb_options* options,
                    int32_t* skipped) {
    return capi::guarded([&] {
        const char* const function = "hkt_lamb";
        const hkt_lamb_options how = capi::read_options(options);
        check_number(function, "rate", rate);
        check_share(function, "beta1", how.beta1);
        check_share(function, "beta2", how.beta2);
        check_number(function, "epsilon", how.epsilon);
        check_number(function, "weight_decay", how.weight_decay);
        if (step == 0) capi::refuse("hkt_lamb: step is 0; the first one is 1, and each adds 1");
        const kernels::LambStep now(
            {rate, how.beta1, how.beta2, how.epsilon, how.weight_decay, step, how.adaptive != 0});
        take_step(function, now,
                  {weights,
                   gradients,
                   {{"first_moments", first_moments}, {"second_moments", second_moments}},
                   counts,
                   tensor_count},
                  gradient_type, how.threads, skipped);
        return HKT_SUCCESS;
    });
}

}  // extern "C"
