// Which signals, barriers and semaphores of a plan belong together.
#pragma once

#include "tools/schedc/imports/mscclpp/plan.hpp"

namespace hocket::tools::imports::mscclpp {

// Throws DiagnosticError if a channel has not as many waits as signals, a semaphore not as many acquisitions
// as releases, or a barrier not as many threadblocks as it says, in each pipeline's rounds, too; or if
// several threadblocks, or several of their threads between two nops, use one end of a channel or of a
// semaphore, so that nothing says whose turn it is.
void check_matching(const Plan& plan);

}  // namespace hocket::tools::imports::mscclpp
