// Lays a schedule out on the levels: the transfers and their order, without checking that they are right.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/differential/reference/buffers.hpp"
#include "tests/differential/reference/reference.hpp"
#include "tests/differential/reference/syntax.hpp"

namespace hocket::reference {

struct Transfer {
    std::int64_t phase = 0;  // all transfers of a phase happen at once
    std::int64_t from = 0;
    std::int64_t to = 0;
    bool combines = false;
    std::vector<Shift> shifts;
    Position at;
};

// Strand i of a `parallel` are the transfers from starts[i] to before starts[i + 1].
struct Strands {
    std::vector<std::size_t> starts;
    Position at;
};

struct Plan {
    std::vector<Transfer> transfers;  // in the order of their phases
    std::vector<Strands> parallels;
    std::int64_t generations = 1;  // of x: one more than exchanges that any of it has gone through
};

Plan lay_out(const Request& request, const Topology& topology);

}  // namespace hocket::reference
