// Measures kernels without a communicator, beside alternatives.
#pragma once

#include "tools/bench/kernel_options.hpp"

namespace hocket::bench {

// Measures, prints, and writes the requested file. Returns the exit code: 1 if a result was wrong.
int run_kernel_bench(const KernelOptions& options);

}  // namespace hocket::bench
