// The command line of hocket-bench topk, scatter_add and norms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "capi/hocket.h"

namespace hocket::bench {

enum class Kernel { topk, scatter_add, norms };

struct KernelOptions {
    Kernel kernel = Kernel::topk;
    std::size_t elements = 25'600'000;
    double density = 0.01;
    int threads = 1;
    hkt_type type = HKT_FLOAT32;
    int thresholds = 0;     // hkt_topk_options.rounds
    bool residual = false;  // with error feedback
    int iterations = 11;
    std::string json_file;
};

const char* name_of(Kernel kernel);

// Returns nothing if `name` is not a kernel's: then it is a collective's.
std::optional<Kernel> find_kernel(const std::string& name);

// Returns nothing and sets exit_code if the program should end (help, or an error that was printed).
std::optional<KernelOptions> parse_kernel_options(int argc, char** argv, int& exit_code);

}  // namespace hocket::bench
