// Headers of the sources that read command lines, compiled once. This only saves time: each source still includes what it
// needs.

#include <CLI/CLI.hpp>
#include <fmt/format.h>
