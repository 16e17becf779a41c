// Plans when a model's layers communicate (iBatch, AAAI 2019, and other methods): docs/overlap.md. Pure: from
// a profile to batches, with no clock and no thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/overlap/pipeline.hpp"

namespace hocket::overlap {

enum class Method { sequential, layers, algorithm1, algorithm2, ibatch, mg_wfbp, buckets, optimum };

inline constexpr Method all_methods[] = {Method::sequential, Method::layers, Method::algorithm1,
                                         Method::algorithm2, Method::ibatch, Method::mg_wfbp,
                                         Method::buckets,    Method::optimum};

std::string_view name_of(Method method);  // "sequential"

struct PlanOptions {
    Direction direction = Direction::forward;
    // The largest size of a batch, and thus of the data in flight at once; 0: no limit. The batches of every
    // method are divided to respect it, if they have several layers.
    std::uint64_t limit_bytes = 0;
    std::uint64_t bucket_bytes = 25 << 20;  // of Method::buckets; 1 or more
};

struct Plan {
    Method method;
    Batches batches;
    double seconds;  // predicted, by seconds_of
};

// Explains why there is no such plan; nothing if there is one. mg_wfbp supports only the backward direction;
// buckets, and a limit, need the bytes of all layers.
std::optional<std::string> why_not(const Profile& profile, Method method, const PlanOptions& options);

// Throws Error(invalid_argument) with the text of why_not(). The profile must respect the bounds of
// profile.hpp.
Plan plan(const Profile& profile, Method method, const PlanOptions& options);

}  // namespace hocket::overlap
