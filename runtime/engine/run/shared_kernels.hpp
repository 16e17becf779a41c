// The kernels of a communicator's plans, and the order of their launches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/device/devices.hpp"
#include "runtime/engine/run/shared_kernel.hpp"

namespace hocket::engine {

// Not thread-safe. Throws hocket::Error (device, out_of_memory).
class SharedKernels {
  public:
    SharedKernels() = default;
    ~SharedKernels();
    SharedKernels(const SharedKernels&) = delete;

    // Returns true if starts of the plan run as one kernel on each rank, as far as that is the same on all
    // ranks.
    static bool suits(const Plan& plan);

    // Loads the kernel of a plan into the context of the queues, unless it is there. Also throws what
    // jit::device_image throws, and invalid_argument if the driver refuses the code. folder: as in
    // device::DeviceUse.
    static device::LoadedKernel& load(const Plan& plan, device::Queues& queues, const std::string& folder);

    // Returns the kernel on whose memory the ranks have agreed for the plan; null if there is none. Plans
    // that do the same share it, so ranks may make and destroy them at different times.
    std::shared_ptr<SharedKernel> find(const Plan& plan) const;
    // Replaces it, once all ranks have opened all memory. Starts, as long as they hold the former one, and
    // graphs, keep it.
    std::shared_ptr<SharedKernel> agree(const Plan& plan, std::unique_ptr<SharedKernel> kernel);

    // Kernels of a communicator run one after another, in the order of their launches: two at a time could
    // each keep the other rank's from running. order() makes the stream wait for the last launch on another
    // stream; behind the launch, mark() returns an event of its end. end() gives that back once it has
    // occurred, or a graph has it. capture: the number that CUDA gives the capture of the stream; 0: none.
    // What is in a graph runs when the program launches that, so it is ordered in the graph alone.
    void order(device::Queues& queues, device::Stream stream, std::uint64_t capture,
               const std::string& doing);
    device::Event mark(device::Queues& queues, device::Stream stream, std::uint64_t capture,
                       const std::string& doing);
    void end(device::Queues& queues, device::Event event);

    // The end of starts in graphs, which no start in flight of the same kernel tells.
    struct GivenUp {
        jit::DeviceReport report;
        std::string collective, schedule, location;
        dsl::Rank peer;  // -1: none
    };
    std::optional<GivenUp> given_up_in_graph() const;
    // Makes all kernels give up; for a communicator that has failed.
    void give_up() noexcept;

  private:
    using Key = std::tuple<std::uint64_t, dsl::Rank, DataType, std::uint64_t, dsl::Protocol, bool>;
    static Key key_of(const Plan& plan);

    struct Kernels {
        std::shared_ptr<SharedKernel> current;
        std::vector<std::shared_ptr<SharedKernel>> former;
        dsl::RankProgram program;  // for texts
    };
    struct Launch {
        device::Queues* queues = nullptr;
        device::Stream stream = nullptr;
        device::Event event = nullptr;
    };
    // More than anybody captures at a time.
    static constexpr std::size_t most_captures = 256;

    // Returns true if starts hold the kernel.
    static bool has_starts(const std::shared_ptr<SharedKernel>& kernel) { return kernel.use_count() > 1; }
    void forget_old_captures();

    std::map<Key, Kernels> kernels_;
    std::map<std::uint64_t, Launch>
        last_;  // by capture; 0: of those that are in no graph, until it has ended
};

}  // namespace hocket::engine
