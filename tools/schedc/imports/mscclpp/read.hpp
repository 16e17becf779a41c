// Reads MSCCL++'s JSON.
#pragma once

#include <string>

#include "tools/schedc/imports/mscclpp/plan.hpp"

namespace hocket::tools::imports::mscclpp {

// path: for errors. Loops go around `rounds` times, each time with such a part of their chunks; chunks are
// made small enough for them and for threadblocks that share an operation. Everything that stands by itself
// is checked: fields, ranges, sizes. Throws DiagnosticError, with the line if the text is no JSON that can be
// read, else with the GPU, the threadblock and the operation.
Plan read(const std::string& path, const std::string& text, int rounds);

}  // namespace hocket::tools::imports::mscclpp
