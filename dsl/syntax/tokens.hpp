// A text as words, marks and comments, for what works on a text as it is written: the formatter, hints in
// errors, editors. Unlike the grammar it takes any text, right or wrong.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "dsl/base/source.hpp"

namespace hocket::dsl {

struct Token {
    enum class Kind : std::uint8_t {
        word,     // a name or a word of the language
        number,   // 3, 0.5, 1e-6
        value,    // what follows latency, bandwidth and nic in a level: 3us, 25Gb/s, 10.0.1.0/24; what
                  // follows import, with its quotes
        mark,     // ..< -> ( and any byte that means nothing
        comment,  // from '#' on, without white space at its end
    };
    Kind kind = Kind::mark;
    std::uint32_t begin = 0, end = 0;
    std::string_view text;  // of the file

    bool is(std::string_view other) const { return text == other && kind != Kind::comment; }
};

// The file's text must outlive the tokens.
std::vector<Token> tokens_of(const SourceFile& file);

}  // namespace hocket::dsl
