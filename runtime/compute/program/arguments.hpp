// The arguments of a start, besides x, of a schedule that computes.
#pragma once

#include <cstddef>
#include <vector>

namespace hocket::compute {

struct Arguments {
    std::vector<double> parameters;       // in the order of the schedule's header
    std::vector<const std::byte*> given;  // its further buffers, as large as x, of the working type
};

}  // namespace hocket::compute
