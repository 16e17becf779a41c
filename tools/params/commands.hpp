// hocket-params' commands. Each returns the program's exit code, and throws std::exception if something goes
// wrong.
#pragma once

#include "capi/hocket.h"
#include "tools/params/options.hpp"

namespace hocket::params_tool {

int serve(const Options& options);
int status(const Options& options);

// Throws std::runtime_error with the calling thread's error text if status is an error.
void check(hkt_status status);

}  // namespace hocket::params_tool
