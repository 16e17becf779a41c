// Proves that a start ends with what the collective promises.
#pragma once

#include "dsl/proof/symbols/contents.hpp"
#include "dsl/proof/symbols/selections.hpp"

namespace hocket::dsl {

// contents: at the end of a start.
void check_result(const Subject& subject, Contents& contents);

// Proves that everything selected is in all results; otherwise it would be lost.
void check_all_selected_arrive(const Subject& subject, Contents& contents, const Selections& selections);

}  // namespace hocket::dsl
