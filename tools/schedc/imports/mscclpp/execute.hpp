// Runs a plan of MSCCL++ on symbols.
#pragma once

#include "tools/schedc/imports/flow.hpp"
#include "tools/schedc/imports/mscclpp/plan.hpp"

namespace hocket::tools::imports::mscclpp {

// As MSCCL++'s executor would. Throws DiagnosticError for signals without waits and the reverse, for
// operations that wait for each other, for a race, and for a chunk that is read, or must be there at the end,
// and holds nothing. Notes in the plan's algorithm if nothing tells a GPU that its results are complete.
Flow execute(Plan& plan);

}  // namespace hocket::tools::imports::mscclpp
