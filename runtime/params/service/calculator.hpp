// What a parameter service calculates: the job's update, and sums of gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/params/job/job.hpp"

namespace hocket::params {

// Thread-safe.
class Calculator {
  public:
    virtual ~Calculator() = default;

    // to[i] = parts[0][i] + parts[1][i] + ..., added in this order. `to` overlaps no part.
    virtual void sum(DataType type, std::span<const std::byte* const> parts, std::uint64_t count,
                     std::byte* to) const = 0;

    // What the update keeps for each element beside the weight: how many numbers, 0 at first.
    virtual std::size_t states() const = 0;
    virtual std::uint64_t state_bytes(DataType type) const = 0;  // of one number

    struct Round {
        std::uint32_t workers;  // whose gradients are in the sum
        std::uint64_t number;   // of the round, from 1
    };
    // One round of one chunk. before, after: the weights, then the states. tensors: how many elements the
    // chunk has of each tensor in it. `after` overlaps nothing.
    virtual void update(DataType type, std::span<const std::byte* const> before, const std::byte* gradient,
                        std::uint64_t count, std::span<const std::uint64_t> tensors, Round round,
                        std::span<std::byte* const> after) const = 0;
};

// Throws Error(invalid_argument | schedule) if there is no such update, or not for these types.
using MakeCalculator = std::function<std::shared_ptr<const Calculator>(const Job& job)>;

// How a process finds updates and runs them.
struct UpdateOptions {
    std::vector<std::string> schedule_path;  // folders of .sched files
    bool compiled = true;                    // by generated code, if there is a compiler
};

// Puts the statements of the update into the job, in place of its name: all processes calculate the same
// then, whatever schedule files they have. And says whether tensors may be cut for it. Throws what
// UpdateRule::find does.
void settle_update(Job& job, const UpdateOptions& options);

// Calculates by the job's update, with this runtime's kernels. Its results have the same bits with and
// without generated code. Throws as UpdateRule::find does when it is called.
MakeCalculator calculate_updates(UpdateOptions options);

}  // namespace hocket::params
