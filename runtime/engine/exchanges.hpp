// Calls in which all ranks of a communicator take part, without a program's data: barriers, exchanges of
// texts and numbers, and the goodbye.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/engine/job/connections.hpp"
#include "runtime/engine/plans.hpp"
#include "runtime/engine/progress/progress.hpp"

namespace hocket::engine {

// Thread-safe; throws hocket::Error.
class Exchanges {
  public:
    Exchanges(const Connections& connections, Plans& plans, Progress& progress)
        : connections_(connections), plans_(plans), progress_(progress) {}

    void barrier();
    Execution& start_barrier();
    // Throws Error(timeout), which names all ranks that have not come. The communicator stays usable, and the
    // next call goes on with the same barrier.
    void barrier_monitored(std::chrono::milliseconds timeout);

    // Exchanges texts. Collective, in the same order on all ranks as all other collectives: every rank gives
    // a text (at most 1 MiB) and gets all texts, by rank. purpose: the name to report where ranks differ; ""
    // if it continues what another exchange has begun.
    std::vector<std::string> exchange(const std::string& text, const std::string& purpose);
    // Returns, for each place, the greatest of the values that the ranks give; all give the same number of
    // values. It is as cheap as a program's collective. purpose: its name where ranks differ, and in traces.
    std::vector<std::int64_t> greatest(const std::vector<std::int64_t>& own, const std::string& purpose);

    // Gives the others a while to take what this rank has sent them. Never throws.
    void say_goodbye();

  private:
    const std::shared_ptr<StartablePlan>& barrier_plan();

    const Connections& connections_;
    Plans& plans_;
    Progress& progress_;
    std::mutex exchanging_, monitored_;
    std::once_flag barrier_made_;
    std::shared_ptr<StartablePlan> barrier_;
    // Send and receive buffer of all barriers. The sum is not used.
    const std::int32_t here_ = 1;
    std::int32_t all_here_ = 0;
};

}  // namespace hocket::engine
