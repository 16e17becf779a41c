// Runs an algorithm of MSCCL on symbols.
#pragma once

#include "tools/schedc/imports/flow.hpp"
#include "tools/schedc/imports/msccl/program.hpp"

namespace hocket::tools::imports::msccl {

// As MSCCL would: sends do not wait for their receivers. Throws DiagnosticError for connections whose ends
// differ, for steps that wait for each other, for a race, and for a chunk that is read, or must be there at
// the end, and holds nothing.
Flow execute(const Program& program);

}  // namespace hocket::tools::imports::msccl
