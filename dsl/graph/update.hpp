// An update: the statements by which a parameter server turns one round's gradients into new weights.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/source.hpp"
#include "dsl/graph/formula.hpp"

namespace hocket::dsl {

struct Update {
    // The update's buffers, which all have one shape: the weights, the sum of the gradients, then the states.
    static constexpr std::uint32_t weights = 0, gradients = 1, first_state = 2;
    // The parameters of its formulas: the number of workers that took part in the round, the round's number,
    // counted from 1, and then `numbers`.
    static constexpr std::uint32_t workers = 0, round = 1, first_number = 2;

    // A value that is the same for all elements: calculated once per round, in double precision. Its formulas
    // use no elements and no sums, and only the numbers before it.
    struct Number {
        Formula value;
        std::optional<Formula> exponent;  // if present, the number is a power
    };
    struct Step {
        enum class Kind : std::uint8_t {
            assign,  // each element of the buffer `target` becomes the formula's value
            total,   // the sum `target` becomes the formula's sum over the elements of each tensor
        };
        Kind kind = Kind::assign;
        std::uint32_t target = 0;
        Formula formula;                      // its sums are indices into `totals`
        std::vector<std::uint32_t> elements;  // the buffers of the formula's elements, by index
    };

    std::string name;  // with its arguments: "momentum(0.1, 0.9)"
    std::vector<std::string> states, totals;
    std::vector<Number> numbers;
    std::vector<Step> steps;                             // each step sees the results of those before it
    Span definition;                                     // the definition's header
    std::shared_ptr<const SourceFile> source = nullptr;  // the text that the span points into
};

// Returns the update as one line of text, with arguments in place of parameters. Two updates with the same
// text are equal, wherever they are defined.
std::string text_of(const Update& update);

}  // namespace hocket::dsl
