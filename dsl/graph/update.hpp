// An update: the statements by which a parameter server turns one round's gradients into new weights.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/source.hpp"
#include "dsl/graph/computation.hpp"

namespace hocket::dsl {

struct Update {
    // The positions of the weights, and of the sum of the gradients. Behind them are, as in a schedule, the
    // states, which have the same shape, and the sums.
    static constexpr std::int64_t weights = 0, gradients = 1;
    // The parameters of its formulas: the number of workers that took part in the round, the round's number,
    // counted from 1, and then `numbers`.
    static constexpr std::uint32_t workers = 0, round = 1, first_number = 2;

    // A value that is the same for all elements: calculated once per round, in double precision. Its formulas
    // use no elements and no sums, and only the numbers before it.
    struct Number {
        Formula value;
        std::optional<Formula> exponent;  // if present, the number is a power
    };

    std::string name;                 // with its arguments: "momentum(0.1, 0.9)"
    std::vector<ExtraBuffer> extras;  // states and sums, without regions; extras[i] is at extra_begin(i)
    std::vector<Number> numbers;
    // Assignments and totals, without sparse terms. Each sees the results of those before it.
    std::vector<Computation> computations;
    Span definition;                                     // the definition's header
    std::shared_ptr<const SourceFile> source = nullptr;  // the text that the spans point into

    std::size_t count(ExtraBuffer::Kind kind) const;  // returns the number of extra buffers of this kind
};

// Returns the update as one line of text, with arguments in place of parameters. Two updates with the same
// text are equal, wherever they are defined.
std::string text_of(const Update& update);

}  // namespace hocket::dsl
