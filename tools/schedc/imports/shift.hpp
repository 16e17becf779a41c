// A sending and receiving of all GPUs: formats have a name for it, and do not say who gets whose input.
#pragma once

#include "tools/schedc/imports/flow.hpp"

namespace hocket::tools::imports {

// Finds the algorithm's `shift`: each GPU's result is the input of the GPU so many numbers before it. Throws
// DiagnosticError if that is not so.
void find_shift(Algorithm& algorithm, const Flow& flow);

}  // namespace hocket::tools::imports
