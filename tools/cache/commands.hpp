// hocket-cache's commands. Each returns the program's exit code, and throws std::exception if something goes
// wrong.
#pragma once

#include "tools/cache/options.hpp"
#include "tools/cache/signals.hpp"

namespace hocket::cache_tool {

int warm(const Options& options, Signals& signals);
int stat(const Options& options);
int verify(const Options& options, Signals& signals);
int serve(const Options& options, Signals& signals);

}  // namespace hocket::cache_tool
