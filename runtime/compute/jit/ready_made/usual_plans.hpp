// Lists the plans whose kernels for devices are compiled with Hocket: the schedules that Hocket chooses for
// 2, 4 and 8 ranks that share memory, with the usual types. Each code costs the build of Hocket some 40 ms,
// and its library folder 10 KB.
#pragma once

#include <string>
#include <vector>

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/jit/interface/device_plan.hpp"

namespace hocket::jit {

struct UsualPlan {
    dsl::Collective collective;
    const char* schedule;
    dsl::Rank ranks;
    dsl::Protocol protocol;
};
struct UsualPair {
    DataType type;
    ReduceOp op;  // without a meaning where nothing is combined
};

const std::vector<UsualPlan>& usual_plans();
const std::vector<UsualPair>& usual_pairs(dsl::Collective collective);

// Returns the programs of all ranks. root: if the collective has one. Throws like dsl::Planner.
std::vector<dsl::RankProgram> programs_of(const UsualPlan& plan, dsl::Rank root,
                                          const std::vector<std::string>& search_path);

// Returns the shapes of all usual plans, for all ranks, without numbers: each once.
std::vector<DeviceShape> usual_device_shapes(const std::vector<std::string>& search_path);

}  // namespace hocket::jit
