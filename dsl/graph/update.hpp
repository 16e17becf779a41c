// What a server of parameters does with the gradients of one round, statement by statement.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/source.hpp"
#include "dsl/graph/formula.hpp"

namespace hocket::dsl {

struct Update {
    // Its buffers, which are alike: the weights, the sum of the gradients, and then the states.
    static constexpr std::uint32_t weights = 0, gradients = 1, first_state = 2;
    // What formulas have as parameters: how many workers took part in the round, the round's number, counted
    // from 1, and then `numbers`.
    static constexpr std::uint32_t workers = 0, round = 1, first_number = 2;

    // Is the same for all elements: calculated once in a round, in double precision. Its formulas have no
    // elements and no sums, and of the numbers those before it.
    struct Number {
        Formula value;
        std::optional<Formula> exponent;  // if there is one, it is a power
    };
    struct Step {
        enum class Kind : std::uint8_t {
            assign,  // each element of the buffer `target` becomes what the formula says
            total,   // the sum `target` becomes the formula's, over the elements of each tensor
        };
        Kind kind = Kind::assign;
        std::uint32_t target = 0;
        Formula formula;                      // its sums are indices in `totals`
        std::vector<std::uint32_t> elements;  // the buffers of the formula's elements, by index
    };

    std::string name;  // with its arguments: "momentum(0.1, 0.9)"
    std::vector<std::string> states, totals;
    std::vector<Number> numbers;
    std::vector<Step> steps;                             // each sees what those before it have made
    Span definition;                                     // its header
    std::shared_ptr<const SourceFile> source = nullptr;  // what the span points into
};

// As it could be written in one line, with arguments for parameters. Two updates with the same text do the
// same, wherever they are defined.
std::string text_of(const Update& update);

}  // namespace hocket::dsl
