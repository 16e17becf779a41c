// Runs the operations that are measured.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "capi/hocket.h"
#include "tools/bench/comm.hpp"
#include "tools/bench/data.hpp"
#include "tools/bench/options.hpp"

namespace hocket::bench {

// Calls the collective's function, or the one with counts by rank if the layout has them. op: as the function
// takes it (Operator::given). Not for messages, which are two calls.
hkt_status call_function(const Layout& layout, hkt_op op, const void* send, void* recv, hkt_comm* comm,
                         hkt_request** request);

// Runs one type, operator and root, with any count: with a plan for one executor, or by calling the function
// if there are no plans. Must be destroyed before comm.
class Runner {
  public:
    Runner(hkt_comm* comm, const Options& options, hkt_type type, hkt_op op, int root, hkt_executor executor);

    // Collective. Throws std::runtime_error.
    void run(const Layout& layout, const void* send, void* recv) const;

    // Makes the further buffers as large as the layout's data, and forgets what the plan keeps of earlier
    // starts, which were of another count. Collective.
    void prepare(const Layout& layout);

    // Both describe the plan; "" without a plan. steps: this rank's steps; schedule: the schedule for a size
    // and, from the second line on, the reason for it.
    std::string steps() const;
    std::string schedule(const Layout& layout) const;
    // Returns the schedule's name for a medium size.
    std::string usual_schedule() const;

  private:
    void exchange_messages(const Layout& layout, const void* send, void* recv) const;

    hkt_comm* comm_;
    Subject subject_;
    std::string asked_schedule_;
    Operator op_;
    Plan plan_;
    std::vector<double> parameters_;               // of each start
    std::vector<std::vector<std::byte>> buffers_;  // likewise: beside x
};

}  // namespace hocket::bench
