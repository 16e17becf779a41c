// One collective of the soak: its kind, the places of its buffers, and a check of its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "capi/hocket.h"
#include "tests/multi/soak/chance.hpp"
#include "tools/bench/data.hpp"

namespace hocket::soak {

// The operators that exist for the type; any one where there is none to choose.
std::vector<hkt_op> ops_for(const bench::Subject& subject, hkt_type type);

// All collectives, with counts by rank, too. Messages between two ranks are letters (letters.hpp).
std::vector<bench::Subject> all_collectives();

// Pieces that make up `count`, one for each rank, any of them empty.
std::vector<std::size_t> any_pieces(Chance& chance, std::size_t count, int ranks);

// An operation, the same on all ranks.
struct Operation {
    bench::Layout layout{};
    const char* schedule = nullptr;  // of a plan made for it; null: the collective's own function is called
    hkt_executor executor = HKT_EXECUTOR_DEFAULT;  // of that plan
    std::uint64_t values = 0;                      // which inputs: bench's round

    // An operation of any kind, with at most `most_bytes` in the larger of its buffers; some run by a plan of
    // their own, with any schedule.
    static Operation random(Chance& chance, int rank, int ranks, std::size_t most_bytes,
                            std::uint64_t planned_one_in);
    std::string text() const;
};

// Calls the collective's own function, with an operator made for it where it has factors.
hkt_status call_function(const bench::Layout& layout, const void* send, void* recv, hkt_comm* comm,
                         hkt_request** request);

// An operation between two stretches of memory, which are this rank's own choice.
class Placed {
  public:
    // Room for an operation of this many bytes, wherever place() puts it.
    static std::size_t room(std::size_t bytes) {
        return (bytes + 2 * guard_bytes + 2 * alignment) / alignment * alignment;
    }

    // The buffers begin anywhere in the first `alignment` bytes behind a guard. In place, both lie in `to`.
    // Fills them with inputs, and with values that no result has.
    Placed(const Operation& operation, void* from, void* to, bool in_place, Chance& chance);

    const Operation& operation() const { return operation_; }
    const void* send() const { return send_; }
    void* recv() const { return recv_; }
    bool is_in_place() const { return in_place_; }

    // Returns "" if every element of the result, the guards and the sent data are right.
    std::string fault() const;

  private:
    static constexpr std::size_t guard_bytes = 256, alignment = 64;
    struct Block {
        unsigned char* data = nullptr;
        std::size_t bytes = 0;
        void guard() const;
        std::string fault(const char* name) const;
        bool is_overwritten_outside(bench::Range used) const;
    };
    Block block(void* memory, std::size_t elements, Chance& chance) const;

    Operation operation_;
    bool in_place_;
    Block from_{}, to_{};  // in place: from_ is empty
    unsigned char *send_ = nullptr, *recv_ = nullptr;
};

}  // namespace hocket::soak
