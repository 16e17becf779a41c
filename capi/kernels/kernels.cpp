// Kernels as functions of their own. All arguments are checked before anything is written. The memory's place
// decides which processor calculates.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "capi/errors.hpp"
#include "capi/growth.hpp"
#include "capi/kernels/device_kernels.hpp"
#include "capi/ranges.hpp"
#include "capi/vocabulary.hpp"
#include "runtime/base/environment.hpp"
#include "runtime/compute/kernels/cpu/norms.hpp"
#include "runtime/compute/kernels/cpu/optimizers/step.hpp"
#include "runtime/compute/kernels/cpu/scatter_add.hpp"
#include "runtime/compute/kernels/cpu/topk.hpp"
#include "runtime/device/kernels/call.hpp"

using namespace hocket;
using capi::check_ranges;
using capi::GivenWorkspace;
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
            fmt::format("hkt_topk: value_type is {}, but without a residual the values must have the type of "
                        "x, {}. Pass a residual, or leave value_type at -1",
                        name_of(value_type), name_of(type)));
    return value_type;
}

void append(std::vector<Range>& to, const std::vector<Range>& more) {
    to.insert(to.end(), more.begin(), more.end());
}

// Returns the device if the call's memory is on one.
std::optional<capi::OnDevice> find_device(const char* function, const std::vector<Range>& written,
                                          const std::vector<Range>& read) {
    std::vector<Range> all = written;
    append(all, read);
    return capi::find_device(function, all);
}
// As above, with memory that the call writes only on a device (`beside`): if it returns a device, it adds
// `beside` to `written`.
std::optional<capi::OnDevice> find_device(const char* function, std::vector<Range>& written,
                                          const std::vector<Range>& read, const std::vector<Range>& beside) {
    std::vector<Range> all = written;
    append(all, beside);
    auto device = find_device(function, all, read);
    if (device) written = all;
    return device;
}

// Checks arrays of pointers and counts. The call reads them on the host, wherever the tensors are.
void check_lists(const char* function, const std::vector<Range>& lists) {
    check_ranges(function, {}, lists);
    for (const Range& list : lists)
        if (list.count > 0) capi::refuse_device(function, list.words(), list.begin);
}

// The arguments of hkt_topk.
struct TopkCall {
    const std::byte* x;
    std::size_t count;
    DataType type;
    std::size_t k;
    const hkt_topk_options& options;
    void* values;
    std::uint32_t* indices;
    std::size_t* selected;
    std::int32_t* non_finite;  // may be null
};

kernels::TopkOptions check_choice(const hkt_topk_options& options) {
    return {static_cast<std::uint32_t>(
                check_range("hkt_topk: thresholds", options.thresholds, 0, most_thresholds)),
            {options.seed, options.step, options.shard},
            1};
}

void check_topk_count(const char* function, std::size_t count) {
    if (count > kernels::most_selectable)
        capi::refuse(
            fmt::format("{}: x has {} elements; it can be selected from up to 2^32 at once: divide them",
                        function, count));
}

// Returns the device if the call's memory is on one.
std::optional<capi::OnDevice> check_topk_memory(const TopkCall& call, DataType value_type,
                                                const GivenWorkspace& workspace) {
    const char* const function = "hkt_topk";
    const std::size_t most = std::min(call.k, call.count);
    const std::vector<Range> read = {{"x", call.x, call.count, element_size(call.type)}};
    std::vector<Range> written = {{"values", call.values, most, element_size(value_type)},
                                  {"indices", call.indices, most, sizeof *call.indices}};
    if (call.options.residual != nullptr)
        written.push_back({"the residual", call.options.residual, call.count, sizeof(float)});
    const std::vector<Range> beside = {
        {"selected", call.selected, 1, sizeof *call.selected},
        {"non_finite", call.non_finite, call.non_finite != nullptr, sizeof *call.non_finite},
        workspace.range()};
    auto device = find_device(function, written, read, beside);
    check_ranges(function, written, read);
    return device;
}

void topk_on_host(const TopkCall& call, kernels::TopkOptions how, const kernels::Feedback& feedback) {
    how.threads = check_threads("hkt_topk", call.options.threads);
    auto* const to = static_cast<std::byte*>(call.values);
    const kernels::Selected found =
        feedback.residual != nullptr
            ? kernels::topk_with_feedback(call.type, call.x, call.count, call.k, how, feedback, to,
                                          call.indices)
            : kernels::topk(call.type, call.x, call.count, call.k, how, to, call.indices);
    *call.selected = found.count;
    if (call.non_finite != nullptr) *call.non_finite = found.non_finite ? 1 : 0;
}

void topk(const TopkCall& call) {
    const hkt_topk_options& options = call.options;
    const kernels::TopkOptions how = check_choice(options);
    const DataType value_type = value_type_of(call.type, options);
    check_topk_count("hkt_topk", call.count);
    const GivenWorkspace workspace{options.workspace, options.workspace_bytes};
    const auto device = check_topk_memory(call, value_type, workspace);
    if (options.residual != nullptr) check_factors(options);
    const kernels::Feedback feedback{options.residual, options.decay, options.scale, value_type,
                                     options.select_non_finite == 0};
    if (!device) return topk_on_host(call, how, feedback);
    const kernels::cuda::Selection selection{call.type,
                                             call.x,
                                             call.count,
                                             call.k,
                                             how.thresholds,
                                             how.draw,
                                             call.values,
                                             call.indices,
                                             reinterpret_cast<std::uint64_t*>(call.selected),
                                             reinterpret_cast<std::uint32_t*>(call.non_finite)};
    capi::topk_on_device(*device, selection, options.residual != nullptr ? &feedback : nullptr, workspace);
}

void take_norms(const void* const* tensors, const std::size_t* counts, std::size_t tensor_count,
                hkt_type type, float* norms, std::int32_t threads, const GivenWorkspace& workspace) {
    const char* const function = "hkt_norms";
    const DataType checked = check_type(function, "type", type, kernels::has_norm);
    const std::vector<Range> lists = {{"tensors", tensors, tensor_count, sizeof *tensors},
                                      {"counts", counts, tensor_count, sizeof *counts}};
    check_lists(function, lists);
    std::vector<Range> written = {{"norms", norms, tensor_count, sizeof *norms}}, read;
    std::vector<kernels::Tensor> list;
    for (std::size_t t = 0; t < tensor_count; ++t) {
        read.push_back({"tensors", tensors[t], counts[t], element_size(checked), t});
        list.push_back({static_cast<const std::byte*>(tensors[t]), counts[t]});
    }
    const auto device = find_device(function, written, read, {workspace.range()});
    append(read, lists);
    check_ranges(function, written, read);
    if (device) return capi::norms_on_device(*device, checked, list, workspace, norms);
    kernels::norms(checked, list, check_threads(function, threads), norms);
}

// Checks a factor or summand of a step, which must fit a float32.
void check_number(const char* function, const char* name, double value) {
    constexpr double most = std::numeric_limits<float>::max();
    if (!(value >= 0 && value <= most))
        capi::refuse(fmt::format("{}: {} is {}; it must be from 0 to {:.8g}", function, name, value, most));
}
// Checks the share of a running average that a step keeps.
void check_share(const char* function, const char* name, double value) {
    if (!(value >= 0 && value < 1))
        capi::refuse(fmt::format("{}: {} is {}; it must be at least 0, and below 1", function, name, value));
}

// The tensors of an optimizer's step, as the caller lists them.
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
std::vector<Range> ranges_of(const TensorLists<n>& lists) {
    std::vector<Range> ranges = {{"weights", lists.weights, lists.tensor_count, sizeof *lists.weights},
                                 {"gradients", lists.gradients, lists.tensor_count, sizeof *lists.gradients},
                                 {"counts", lists.counts, lists.tensor_count, sizeof *lists.counts}};
    for (const auto& [name, pointers] : lists.states)
        ranges.push_back({name, pointers, lists.tensor_count, sizeof *pointers});
    return ranges;
}

// Tensors that were checked, and the device that they are on, if any.
template <unsigned n>
struct CheckedTensors {
    std::vector<kernels::OptimizedTensor<n>> list;
    std::optional<capi::OnDevice> device;
};

template <unsigned n>
CheckedTensors<n> check_tensors(const char* function, const TensorLists<n>& lists, DataType gradients,
                                std::int32_t* skipped, const GivenWorkspace& workspace) {
    if (skipped == nullptr)
        capi::refuse(fmt::format("{}: skipped is null; pass the address of an int32_t", function));
    const std::vector<Range> in_lists = ranges_of(lists);
    check_lists(function, in_lists);
    std::vector<Range> written = {{"skipped", skipped, 1, sizeof *skipped}}, read;
    written.reserve(2 + (1 + n) * lists.tensor_count);
    read.reserve(in_lists.size() + lists.tensor_count);
    CheckedTensors<n> checked;
    checked.list.reserve(lists.tensor_count);
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
        checked.list.push_back(tensor);
    }
    checked.device = find_device(function, written, read, {workspace.range()});
    append(read, in_lists);
    check_ranges(function, written, read);
    return checked;
}

template <typename Step, typename Options>
void take_step(const char* function, const Step& step, const TensorLists<Step::states>& lists, hkt_type type,
               const Options& options, std::int32_t* skipped) {
    const DataType gradients = check_type(function, "gradient_type", type, kernels::has_norm);
    const GivenWorkspace workspace{options.workspace, options.workspace_bytes};
    const auto [tensors, device] = check_tensors(function, lists, gradients, skipped, workspace);
    if (device) return capi::step_on_device(function, *device, step, gradients, tensors, workspace, skipped);
    const unsigned parts = check_threads(function, options.threads);
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
        topk({static_cast<const std::byte*>(x), count, checked, k, capi::read_options(options), values,
              indices, selected, non_finite});
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
        const std::vector<Range> written = {{"dense", dense, count, element_size(checked)}},
                                 read = {{"values", values, k, element_size(added)},
                                         {"indices", indices, k, sizeof *indices}};
        const auto device = find_device(function, written, read);
        check_ranges(function, written, read);
        if (device) {
            check_type(function, "type on a device", type, kernels::can_select);
            check_type(function, "value_type on a device", value_type, kernels::can_select);
            capi::scatter_add_on_device(*device, checked, dense, count, added, values, indices, k);
            return HKT_SUCCESS;
        }
        const unsigned parts = check_threads(function, threads);
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
    return hkt_norms_with(tensors, counts, tensor_count, type, norms, threads, nullptr, 0);
}

hkt_status hkt_norms_with(const void* const* tensors, const size_t* counts, size_t tensor_count,
                          hkt_type type, float* norms, int32_t threads, void* workspace,
                          size_t workspace_bytes) {
    return capi::guarded([&] {
        take_norms(tensors, counts, tensor_count, type, norms, threads, {workspace, workspace_bytes});
        return HKT_SUCCESS;
    });
}

hkt_status hkt_kernels_set_stream(void* stream) {
    return capi::guarded([&] {
        device::set_kernel_stream(static_cast<device::Stream>(stream));
        return HKT_SUCCESS;
    });
}

hkt_status hkt_topk_workspace(size_t count, hkt_type type, size_t k, const hkt_topk_options* options,
                              size_t* bytes) {
    return capi::guarded([&] {
        const char* const function = "hkt_topk_workspace";
        if (bytes == nullptr) capi::refuse("hkt_topk_workspace: bytes is null; pass the address of a size_t");
        const auto checked = check_type(function, "type", type, kernels::can_select);
        check_topk_count(function, count);
        *bytes = capi::topk_workspace(checked, count, k, capi::read_options(options).residual != nullptr);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_tensors_workspace(const size_t* counts, size_t tensor_count, size_t* bytes) {
    return capi::guarded([&] {
        const char* const function = "hkt_tensors_workspace";
        if (bytes == nullptr)
            capi::refuse("hkt_tensors_workspace: bytes is null; pass the address of a size_t");
        check_lists(function, {{"counts", counts, tensor_count, sizeof *counts}});
        std::size_t elements = 0, chunks = 0;
        for (std::size_t t = 0; t < tensor_count; ++t) {
            if (counts[t] > SIZE_MAX / 2 - elements)
                capi::refuse(
                    fmt::format("{}: counts[{}] is {}, and with those before it more than memory has",
                                function, t, counts[t]));
            elements += counts[t];
            chunks += kernels::chunks_of(counts[t]);
        }
        *bytes = capi::tensors_workspace(chunks, tensor_count);
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
                  gradient_type, how, skipped);
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
                  gradient_type, how, skipped);
        return HKT_SUCCESS;
    });
}

}  // extern "C"
