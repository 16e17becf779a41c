#include "capi/overlap/methods.hpp"

#include <fmt/format.h>

#include <array>

#include "capi/errors.hpp"
#include "capi/hocket.h"

namespace hocket::capi {

using overlap::Method;

namespace {

// Indexed by hkt_overlap_method.
constexpr std::array methods{Method::optimum,    Method::sequential, Method::layers,  Method::algorithm1,
                             Method::algorithm2, Method::ibatch,     Method::mg_wfbp, Method::buckets};
static_assert(methods.size() == std::size(overlap::all_methods));
static_assert(methods[HKT_OVERLAP_OPTIMUM] == Method::optimum &&
              methods[HKT_OVERLAP_SEQUENTIAL] == Method::sequential &&
              methods[HKT_OVERLAP_LAYERS] == Method::layers &&
              methods[HKT_OVERLAP_ALGORITHM1] == Method::algorithm1 &&
              methods[HKT_OVERLAP_ALGORITHM2] == Method::algorithm2 &&
              methods[HKT_OVERLAP_IBATCH] == Method::ibatch &&
              methods[HKT_OVERLAP_MG_WFBP] == Method::mg_wfbp &&
              methods[HKT_OVERLAP_BUCKETS] == Method::buckets);

}  // namespace

Method method_of(const char* options, std::int32_t method) {
    if (method < 0 || static_cast<std::size_t>(method) >= methods.size())
        refuse(fmt::format("{}.method is {}; it must be an hkt_overlap_method", options, method));
    return methods[static_cast<std::size_t>(method)];
}

overlap::Pulls pulls_of(std::int64_t pulls) {
    switch (pulls) {
        case HKT_OVERLAP_PULLS_FASTEST:
            return overlap::Pulls::fastest;
        case HKT_OVERLAP_PULLS_BACKWARD:
            return overlap::Pulls::backward;
        case HKT_OVERLAP_PULLS_FORWARD:
            return overlap::Pulls::forward;
        default:
            refuse(
                fmt::format("hkt_overlap_run_options.pulls is {}; it must be an hkt_overlap_pulls", pulls));
    }
}

}  // namespace hocket::capi
