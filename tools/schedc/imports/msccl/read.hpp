// Reads MSCCL's XML.
#pragma once

#include <string>

#include "tools/schedc/imports/msccl/program.hpp"

namespace hocket::tools::imports::msccl {

// path: for errors. Everything that stands by itself is checked: attributes, ranges, sizes. Throws
// DiagnosticError, with the line where the text is no XML, else with the GPU, the threadblock and the step.
Program read(const std::string& path, const std::string& text);

}  // namespace hocket::tools::imports::msccl
