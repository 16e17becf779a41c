// hkt_overlap_plan: checks and translates the arguments, nothing more.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "capi/errors.hpp"
#include "capi/growth.hpp"
#include "capi/overlap/methods.hpp"
#include "runtime/overlap/planner.hpp"

using namespace hocket;

namespace {

void check_time(double seconds, const std::string& name) {
    if (!overlap::is_time(seconds))
        capi::refuse(
            fmt::format("hkt_overlap_plan: {} is {}; it must be {}", name, seconds, overlap::time_words()));
}

void check_given(const void* pointer, const char* name) {
    if (pointer == nullptr) capi::refuse(fmt::format("hkt_overlap_plan: {} is null", name));
}

overlap::Profile profile_of(double startup, const double* transfer, const double* compute,
                            const std::uint64_t* bytes, std::size_t layers) {
    check_time(startup, "startup");
    if (layers < 1 || layers > overlap::most_layers)
        capi::refuse(fmt::format("hkt_overlap_plan: layers is {}; it must be from 1 to {}", layers,
                                 overlap::most_layers));
    check_given(transfer, "transfer");
    check_given(compute, "compute");
    overlap::Profile profile;
    profile.startup = startup;
    for (std::size_t i = 0; i < layers; ++i) {
        check_time(transfer[i], fmt::format("transfer[{}]", i));
        check_time(compute[i], fmt::format("compute[{}]", i));
        if (bytes != nullptr && bytes[i] > overlap::most_bytes)
            capi::refuse(fmt::format("hkt_overlap_plan: bytes[{}] is {}; it must be up to {}", i, bytes[i],
                                     overlap::most_bytes));
        profile.layers.push_back(
            {"", transfer[i], compute[i], bytes != nullptr ? std::optional(bytes[i]) : std::nullopt});
    }
    return profile;
}

overlap::PlanOptions planning_of(const hkt_overlap_options& options) {
    if (options.backward != 0 && options.backward != 1)
        capi::refuse(fmt::format("hkt_overlap_options.backward is {}; it must be 0 or 1", options.backward));
    overlap::PlanOptions planning;
    if (options.backward != 0) planning.direction = overlap::Direction::backward;
    planning.limit_bytes = options.limit_bytes;
    if (options.bucket_bytes != 0) planning.bucket_bytes = options.bucket_bytes;
    return planning;
}

}  // namespace

hkt_status hkt_overlap_plan(double startup, const double* transfer, const double* compute,
                            const uint64_t* bytes, size_t layers, const hkt_overlap_options* given,
                            size_t* ends, size_t* batches, hkt_overlap_prediction* prediction,
                            size_t prediction_size) {
    return capi::guarded([&] {
        const hkt_overlap_options options = capi::read_options(given);
        std::optional<capi::Place<hkt_overlap_prediction>> place;
        if (prediction != nullptr) place.emplace(prediction, prediction_size);
        check_given(ends, "ends");
        check_given(batches, "batches");
        const overlap::Method method = capi::method_of("hkt_overlap_options", options.method);
        const overlap::PlanOptions planning = planning_of(options);
        const overlap::Profile profile = profile_of(startup, transfer, compute, bytes, layers);
        const overlap::Plan plan = overlap::plan(profile, method, planning);
        const overlap::Timeline timeline =
            overlap::simulate(overlap::Sums(profile), plan.batches, planning.direction);
        std::copy(plan.batches.begin(), plan.batches.end(), ends);
        *batches = plan.batches.size();
        if (place)
            place->write({plan.seconds, timeline.communication, timeline.computation, timeline.overlap});
        return HKT_SUCCESS;
    });
}
