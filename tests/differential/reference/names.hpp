// The rules for making names, which need no topology. (Names that are used are looked for where they are
// used.)
#pragma once

#include "tests/differential/reference/syntax.hpp"

namespace hocket::reference {

// Refuses a definition that makes a name which is known already, or ranges of an each that depend on each
// other.
void check_names(const Definition& definition);

}  // namespace hocket::reference
