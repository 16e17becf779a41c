// The C ABI as hocket-bench uses it: handles that free themselves, and errors as exceptions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capi/hocket.h"
#include "tools/bench/data.hpp"
#include "tools/bench/options.hpp"

namespace hocket::bench {

struct Closer {
    void operator()(hkt_comm* comm) const { hkt_comm_destroy(comm); }
    void operator()(hkt_plan* plan) const { hkt_plan_destroy(plan); }
};
using Comm = std::unique_ptr<hkt_comm, Closer>;
using Plan = std::unique_ptr<hkt_plan, Closer>;

// Throws std::runtime_error with the communicator's text if status is an error.
void check(hkt_status status, hkt_comm* comm, const char* what);

// The operator argument of functions: the operator's constant or, if it multiplies, an operator made with
// this rank's factor (factor_of). Must be destroyed before comm.
class Operator {
  public:
    Operator(hkt_comm* comm, hkt_op op);
    ~Operator();
    Operator(const Operator&) = delete;
    Operator& operator=(const Operator&) = delete;
    hkt_op given() const { return given_; }

  private:
    hkt_comm* comm_;
    hkt_op given_;
    bool is_made_;
};

Comm join(const Options& options);
Plan make_plan(hkt_comm* comm, const Options& options, hkt_type type, hkt_op op, int root,
               hkt_executor executor);

// All-reduces the bench's own numbers in place, by the schedule that Hocket chooses: HOCKET_SCHEDULE is for
// what is measured. Throws std::runtime_error that begins with `what`. Collective.
void combine(hkt_comm* comm, void* numbers, std::size_t count, hkt_type type, hkt_op op, const char* what);

// Returns true if `holds` is true on every rank. Collective.
bool all_agree(hkt_comm* comm, bool holds);

// Runs the call on rank 0 alone; if it throws a std::exception, all ranks throw std::runtime_error.
// Collective.
void on_rank_0(hkt_comm* comm, const std::function<void()>& call);

// Returns a fact about the communicator, "?" if there is none.
std::string info(hkt_comm* comm, const char* key);

// Returns the folders in which the communicator finds schedules.
std::vector<std::string> schedule_folders(hkt_comm* comm);

// Returns the schedule that the plan runs, no matter who chose it.
std::string schedule_of(hkt_plan* plan);

}  // namespace hocket::bench
