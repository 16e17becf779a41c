// Headers of the sources that read command lines, compiled once. This only saves time: each source still
// includes what it needs.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
