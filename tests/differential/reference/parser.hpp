// Reads a .sched file.
#pragma once

#include <string>
#include <vector>

#include "tests/differential/reference/syntax.hpp"

namespace hocket::reference {

// The algorithms and schedules of a file; its topologies are skipped.
std::vector<Definition> parse_file(const std::string& text);

// The schedule that a request names: "ring", "flat(ring, doubling)".
Call parse_call(const std::string& text);

}  // namespace hocket::reference
