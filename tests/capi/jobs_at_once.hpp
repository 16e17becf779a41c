// Jobs that run at the same time, each in a few processes of one call of run_ranks: tests that wait for a
// deadline in several ways wait for all of them together.
#pragma once

#include <hocket.h>

#include <cstddef>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/tally.hpp"

namespace hocket::test {

class JobsAtOnce {
  public:
    JobsAtOnce(std::size_t jobs, int size)
        : size_(size),
          ids_(static_cast<hkt_unique_id*>(shared_memory(jobs * sizeof(hkt_unique_id)))),
          are_made_(jobs) {}

    // Creates the caller's communicator: every rank of the job does.
    Comm join(std::size_t job, int rank) const {
        if (rank == 0) {
            expect(hkt_unique_id_create(&ids_[job]) == HKT_SUCCESS, hkt_last_error());
            are_made_[job].add();
        }
        are_made_[job].await(1);
        hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
        options.rank = rank;
        options.world_size = size_;
        options.unique_id = &ids_[job];
        return test::join(&options);
    }

  private:
    const int size_;
    hkt_unique_id* const ids_;
    const std::vector<Tally> are_made_;
};

}  // namespace hocket::test
