// All ranks of a program in one process, over plain memory: run by the host's executor, and by the twins of
// the kernels that a device would run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/compute/jit/compiler.hpp"
#include "runtime/compute/jit/device_program.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "tests/runtime/compute/jit/race_watcher.hpp"

namespace hocket::test {

// How a start's threads are arranged, and how they are hindered.
struct DeviceLaunch {
    std::uint64_t stripes = 1;
    std::uint32_t blocks = 1, threads = 1;
    std::uint64_t seed = 1;   // of the delays
    bool by_packets = false;  // then there is one stripe and one block, and the programs allow it
};

// A thread of a kernel arrives at its n-th barrier, or leaves it. It arrives at its end as at a barrier.
struct AtBarrier {
    std::size_t rank;
    std::uint32_t block, thread;
    std::uint64_t number;
    bool leaves;
};

class DeviceRanks {
  public:
    using Bytes = std::vector<std::byte>;
    static constexpr std::uint64_t most_stripes = 16;

    // count: as the collective's function takes it. watcher: null, or told of the twins' accesses, and of
    // what streams do with buffers. shifts_outputs: the outputs of odd ranks begin an element behind an
    // address that the widest access needs.
    DeviceRanks(const std::vector<dsl::RankProgram>& programs, DataType type, const compute::Reduction& op,
                std::uint64_t count, bool in_place, RaceWatcher* watcher = nullptr,
                bool shifts_outputs = false);
    ~DeviceRanks();

    std::size_t ranks() const;
    const engine::Plan& plan(std::size_t rank) const;
    jit::DeviceArguments& arguments(std::size_t rank);
    const jit::DeviceControl& control(std::size_t rank) const;
    const jit::DeviceReport& report(std::size_t rank) const;
    std::uint32_t& host_abort(std::size_t rank);
    // Returns true if the programs of all ranks can go by packets.
    bool can_go_by_packets() const;
    bool has_clear_packets() const;  // of all ranks, of both epochs
    // Sets the number of starts that have ended, on all ranks.
    void set_epoch(std::uint64_t epoch);

    // Makes the buffers of a rank, or of all, as they are before a start: the input of this seed, and the
    // rest marked.
    void fill(std::size_t rank, std::uint64_t seed);
    void fill(std::uint64_t seed);
    // Returns the rank's buffers, with some memory before and behind each: send, and recv if it is another.
    Bytes buffers(std::size_t rank) const;

    // Runs the programs by the host's executor, one operation after another.
    void run_by_host();
    // Launches a rank's kernel once, and returns when it has ended.
    void launch(std::size_t rank, const DeviceLaunch& how);
    // Launches all ranks' kernels at once, but for those that are absent.
    void launch_all(const DeviceLaunch& how, const std::vector<bool>& absent = {});

    // Nanoseconds for the twins' deadlines: a real clock, or if this is set, one that advances by so much
    // whenever it is read.
    std::uint64_t tick = 0;

    // If set, called by all threads; it may wait.
    std::function<void(const AtBarrier&)> at_barrier;
    // If set, called by each thread that polls, with its rank; it may wait.
    std::function<void(std::size_t)> at_poll;
    // Returns true if threads of a block have passed different numbers of barriers: on a device, some would
    // have waited for ever.
    bool barriers_differ() const { return barriers_differ_; }

  private:
    struct Rank;
    struct Block;
    struct Thread;

    static std::uint64_t most_packets(const Rank& rank);
    void make_plans(const std::vector<dsl::RankProgram>& programs);
    void place(Rank& rank);
    void place_areas(Rank& rank);
    void copy_input(Rank& rank);

    const DataType type_;
    const compute::Reduction op_;
    const std::uint64_t count_;
    const bool in_place_, shifts_outputs_;
    RaceWatcher* const watcher_;
    std::vector<std::unique_ptr<Rank>> ranks_;
    std::atomic<std::uint64_t> time_ = 0;
    std::atomic<bool> barriers_differ_ = false;
};

}  // namespace hocket::test
