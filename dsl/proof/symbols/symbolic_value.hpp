// A number in a formula, as the proof knows it.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/proof/symbols/traits.hpp"

namespace hocket::dsl {

struct SymbolicValue {
    SetId set = Contributions::of_none;
    std::uint64_t states = 0;
    std::uint64_t carried = 0;                  // see Trait
    bool is_uniform = true;                     // equal on all ranks
    bool is_linear = true;                      // in the values that it was made of
    SetId left_set = Contributions::undefined;  // see Trait
    std::uint32_t selected = 0, packed = 0;     // see Trait
    bool has_sent = false;
};

// The values that a value was made of, for its trait: in the form that Traits::history() and Traits::value()
// take.
struct MadeOf {
    std::vector<std::uint32_t> histories, values;
    void add(SetId set, const Trait& trait) {
        histories.push_back(trait.history);
        values.insert(values.end(), {set, trait.value});
    }
};

}  // namespace hocket::dsl
