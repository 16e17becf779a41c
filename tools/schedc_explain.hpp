// schedc explain: a schedule at each stage on its way to machine code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsl/rank_program.hpp"
#include "runtime/types.hpp"

namespace hocket::tools {

struct ExplainOptions {
    std::string schedule, topology, emit = "steps";
    dsl::Rank ranks = 0, root = 0;
    std::optional<dsl::Rank> rank;
    std::optional<dsl::Collective> collective;  // none: the first that the schedule has
    std::vector<std::string> search_path;
    DataType type = DataType::float32;
    ReduceOp op = ReduceOp::sum;
};

// Throws like dsl::check_schedule. Returns 0.
int run_explain(const ExplainOptions& options);

}  // namespace hocket::tools
