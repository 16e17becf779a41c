// How long the iterations of a workload's jobs take on a network.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/prediction/network.hpp"
#include "dsl/prediction/training_loop.hpp"
#include "dsl/prediction/workload.hpp"

namespace hocket::dsl {

struct JobTimes {
    std::vector<ExchangeTimes> exchanges;  // by iteration
    double end = 0;
    // How long the link with the most of the job's own bytes needs: no exchange can be faster.
    double push_load = 0, pull_load = 0;
    // For all data: iterations of the slowest worker, and the seconds if each is as long as the last one.
    double rounds = 0, all_data = 0;
};

struct WorkloadTimes {
    std::vector<JobTimes> jobs;
    std::vector<double> link_bytes;  // of one exchange of each job, by LinkId
    std::uint64_t flows = 0;
    std::size_t solutions = 0;  // of rates
};

// Hosts are the network's ranks. Processes of one host exchange bytes in no time. Throws DiagnosticError for
// a workload that makes no sense, and DeadlineError. certifies: each sharing of links is checked.
WorkloadTimes simulate(const Workload& workload, const Network& network, bool certifies = false,
                       const Deadline& deadline = no_deadline);

// The same without any simulation: of WorkloadTimes only link_bytes, and of each job only its loads.
WorkloadTimes loads_of(const Workload& workload, const Network& network,
                       const Deadline& deadline = no_deadline);

}  // namespace hocket::dsl
