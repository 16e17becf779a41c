// Known algorithms, written with random decoration.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/differential/program.hpp"
#include "tests/differential/random.hpp"

namespace hocket::differential {

class Writer;

// The statements of one that is right on the writer's group, on all of the buffer. Where the collective has a
// root, the writer knows its name. second: the second buffer, "" if there is none.
void write_family(Writer& writer, Random& random, std::set<std::string>& features,
                  const std::string& collective, const std::string& buffer, const std::string& second,
                  Statements& out);

}  // namespace hocket::differential
