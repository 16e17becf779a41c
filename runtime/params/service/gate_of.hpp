// Makes the gate that a job's connections are read through.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "runtime/params/job/job.hpp"
#include "runtime/params/priority/priority_gate.hpp"

namespace hocket::params {

// Throws Error(invalid_argument).
inline std::unique_ptr<PriorityGate> gate_of(const Job& job) {
    using std::chrono::milliseconds;
    const auto longest =
        job.longest_wait_ms == 0 ? std::nullopt : std::optional<milliseconds>(job.longest_wait_ms);
    return std::make_unique<PriorityGate>(static_cast<int>(job.priority), longest);
}

}  // namespace hocket::params
