// The computations of a parameter service: the job's update, and sums of gradients.
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

    // Computes to[i] = parts[0][i] + parts[1][i] + ..., added in this order. `to` overlaps no part.
    virtual void sum(DataType type, std::span<const std::byte* const> parts, std::uint64_t count,
                     std::byte* to) const = 0;

    // Returns how many numbers, 0 at first, the update keeps for each element beside the weight.
    virtual std::size_t states() const = 0;
    virtual std::uint64_t state_bytes(DataType type) const = 0;  // the size of one number

    struct Round {
        std::uint32_t workers;  // how many have gradients in the sum
        std::uint64_t number;   // of the round, from 1
    };
    // Applies one round to one chunk. before, after: the weights, then the states. tensors: for each tensor
    // in the chunk, how many of its elements the chunk has. `after` overlaps nothing.
    virtual void update(DataType type, std::span<const std::byte* const> before, const std::byte* gradient,
                        std::uint64_t count, std::span<const std::uint64_t> tensors, Round round,
                        std::span<std::byte* const> after) const = 0;
};

// Throws Error(invalid_argument | schedule) if there is no such update, or none for these types.
using MakeCalculator = std::function<std::shared_ptr<const Calculator>(const Job& job)>;

// How a process finds updates and runs them.
struct UpdateOptions {
    std::vector<std::string> schedule_path;  // folders of .sched files
    bool compiled = true;                    // uses generated code if there is a compiler
};

// Replaces the name of the job's update by its statements, so that all processes compute the same, whatever
// schedule files they have; and sets whether tensors may be cut for it. Throws what UpdateRule::find throws.
void settle_update(Job& job, const UpdateOptions& options);

// Makes calculators that apply the job's update with this runtime's kernels. Results have the same bits with
// and without generated code. When called, throws as UpdateRule::find does.
MakeCalculator calculate_updates(UpdateOptions options);

}  // namespace hocket::params
