// hocket-cache's commands. Each returns the program's exit code, and throws std::exception if something goes
// wrong.
#pragma once

#include "tools/cache/options.hpp"
#include "tools/signals.hpp"

namespace hocket::cache_tool {

int warm(const Options& options, tools::Signals& signals);
int stat(const Options& options);
int verify(const Options& options, tools::Signals& signals);
int serve(const Options& options, tools::Signals& signals);
int index(const Options& options, tools::Signals& signals);

}  // namespace hocket::cache_tool
