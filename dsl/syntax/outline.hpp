// The definitions and statements of a file as passages of its text, for what works on texts.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// A definition, a statement, or a property of a level.
struct OutlineItem {
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    std::uint32_t begin = 0, end = 0;
    std::size_t parent = none;   // whose body it is in; none for a definition
    bool has_body = false;       // as definitions and loops have
    bool is_property = false;    // of a level
    std::uint32_t head_end = 0;  // of an `if`: where its condition ends
};

// Returns them in the order of the text: each stands behind its parent.
std::vector<OutlineItem> outline_of(const ast::File& file, const SourceFile& source);

}  // namespace hocket::dsl
