#include "runtime/overlap/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/base/error.hpp"
#include "runtime/overlap/greedy.hpp"
#include "runtime/overlap/optimum.hpp"

namespace hocket::overlap {
namespace {

constexpr std::array<std::string_view, std::size(all_methods)> names{
    "sequential", "layers", "algorithm1", "algorithm2", "ibatch", "mg_wfbp", "buckets", "optimum"};

// Divides batches above the limit, beginning with their first layers.
Batches within(const Sums& sums, const Batches& batches, std::uint64_t limit) {
    Batches divided;
    std::size_t begin = 0;
    for (const std::size_t end : batches) {
        for (std::size_t j = begin + 1; j < end; ++j)
            if (!sums.may_be_batch(begin, j + 1, limit)) divided.push_back(begin = j);
        divided.push_back(begin = end);
    }
    return divided;
}

Batches every_layer(const Sums& sums) {
    Batches batches(sums.layers());
    std::iota(batches.begin(), batches.end(), std::size_t{1});
    return batches;
}

Batches planned(const Sums& sums, Method method, const PlanOptions& options) {
    const auto limited = [&](const Batches& batches) { return within(sums, batches, options.limit_bytes); };
    switch (method) {
        case Method::sequential:
            return limited({sums.layers()});
        case Method::layers:
            return every_layer(sums);
        case Method::algorithm1:
            return limited(algorithm1(sums));
        case Method::algorithm2:
            return limited(algorithm2(sums));
        case Method::ibatch: {
            const Batches one = limited(algorithm1(sums)), other = limited(algorithm2(sums));
            return seconds_of(sums, other) < seconds_of(sums, one) ? other : one;
        }
        case Method::mg_wfbp:
            return limited(mg_wfbp(sums));
        case Method::buckets:
            return limited(buckets(sums, options.direction, options.bucket_bytes));
        case Method::optimum:
            return optimum(sums, options.limit_bytes);
    }
    throw Error(Status::internal, "a method of planning has no case");
}

}  // namespace

std::string_view name_of(Method method) {
    return names[static_cast<std::size_t>(method)];
}

std::optional<std::string> why_not(const Profile& profile, Method method, const PlanOptions& options) {
    if (method == Method::mg_wfbp && options.direction == Direction::forward)
        return "mg_wfbp is a rule for the backward direction";
    if (method != Method::buckets && options.limit_bytes == 0) return std::nullopt;
    const auto unknown = std::find_if(profile.layers.begin(), profile.layers.end(),
                                      [](const Layer& layer) { return !layer.bytes; });
    if (unknown == profile.layers.end()) return std::nullopt;
    return fmt::format("{} needs the bytes of all layers, and layer {} has none",
                       method == Method::buckets ? "the method buckets" : "a limit in bytes",
                       unknown - profile.layers.begin() + 1);
}

Plan plan(const Profile& profile, Method method, const PlanOptions& options) {
    if (const auto why = why_not(profile, method, options)) throw Error(Status::invalid_argument, *why);
    const Sums sums(profile);
    Batches batches = planned(sums, method, options);
    const double seconds = seconds_of(sums, batches);
    return {method, std::move(batches), seconds};
}

}  // namespace hocket::overlap
