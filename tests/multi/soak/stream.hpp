// A communicator under random operations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "capi/hocket.h"
#include "tests/multi/soak/letters.hpp"
#include "tests/multi/soak/operation.hpp"

namespace hocket::soak {

// Counts for the summary.
struct Tally {
    std::map<std::string, std::uint64_t> counts;  // by the counted thing
    std::uint64_t operations = 0, bytes = 0;
    void add(const Tally& other);
};

// One kind of memory that a communicator can be given buffers of.
class Arena {
  public:
    enum class Kind { allocated, registered, plain };
    Arena(hkt_comm* comm, Kind kind, std::size_t bytes);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    unsigned char* data() const { return data_; }

  private:
    hkt_comm* comm_;
    Kind kind_;
    unsigned char* data_ = nullptr;
};

class Stream {
  public:
    struct Shape {
        std::uint64_t seed = 0, number = 0;  // of the run; of the communicator, which runs differ by
        std::string command;                 // that repeats the run, for the report of a failure
        std::size_t most_bytes = 0;          // of an operation
        // Lives for the whole run, so the memory that the communicator keeps must be bounded: no two
        // operations of one plan are in flight together, as each of them would keep memory for the largest
        // one.
        bool is_lasting = false;
    };

    // Joins the job: collective.
    Stream(const hkt_comm_options& options, const Shape& shape);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    int rank() const { return rank_; }
    int ranks() const { return ranks_; }
    const char* info(const char* key) const { return hkt_comm_info(comm_.get(), key); }
    const Tally& tally() const { return tally_; }

    // Makes the communicator keep everything that the collectives' own functions can make it keep.
    void warm_up();
    // Some operations, started together, ended in any order, and checked. If anything is wrong, reports it
    // and ends the process.
    void run(std::uint64_t episode, std::uint64_t step);
    // Rank 0's word, for all.
    bool agree(bool what);

  private:
    struct Closer {
        void operator()(hkt_comm* comm) const { hkt_comm_destroy(comm); }
        void operator()(hkt_plan* plan) const { hkt_plan_destroy(plan); }
    };
    using Plan = std::unique_ptr<hkt_plan, Closer>;
    struct Batch;

    void warm_up(const Operation& operation, Chance& own);
    void warm_up_divided(Operation operation, Chance& own);
    std::vector<Operation> choose(Chance& chance) const;
    Placed place(const Operation& operation, std::size_t index, std::size_t of, Chance& own) const;
    void start(Batch& batch, std::size_t index, bool waits);
    void start(Letters& letters, Chance& own);
    void finish(Letters& letters, Chance& own);
    void finish(Batch& batch, Chance& own);
    void finish_one(Batch& batch, std::size_t index);
    void poll(Batch& batch);
    hkt_plan* plan_for(Batch& batch, const Operation& operation);
    void count(const Operation& operation);
    void check(hkt_status status, const std::string& what) const;
    [[noreturn]] void fail(const std::string& what) const;

    const Shape shape_;
    std::unique_ptr<hkt_comm, Closer> comm_;
    int rank_ = 0, ranks_ = 1;
    std::array<std::unique_ptr<Arena>, 3> from_, to_;
    std::uint64_t episode_ = 1;
    std::string under_way_;
    Tally tally_;
};

}  // namespace hocket::soak
