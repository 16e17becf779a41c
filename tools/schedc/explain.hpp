// schedc explain: shows a schedule at each stage on its way to machine code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/types.hpp"
#include "tools/schedc/waiting.hpp"

namespace hocket::tools {

struct ExplainOptions {
    std::string schedule;  // empty: the one chosen for the topology
    std::string topology, emit = "steps";
    dsl::Rank ranks = 0, root = 0;
    // The size to choose for. 0: 1 MiB, or a table of choices if no schedule is named.
    std::uint64_t bytes = 0;
    std::optional<dsl::Rank> rank;
    std::string collective;  // a name; empty: the first one that the schedule exists for
    std::vector<std::string> search_path;
    DataType type = DataType::float32;
    ReduceOp op = ReduceOp::sum;
    double timeout = 60;         // seconds
    Waiting* waiting = nullptr;  // told how far it is
};

// Throws like dsl::check_schedule. Returns 0.
int run_explain(const ExplainOptions& options);

}  // namespace hocket::tools
