// Changes of a program's meaning: most make it wrong, some leave it right.
#pragma once

#include "tests/differential/program.hpp"
#include "tests/differential/random.hpp"

namespace hocket::differential {

// One to three of them.
void mutate(Program& program, Random& random);

}  // namespace hocket::differential
