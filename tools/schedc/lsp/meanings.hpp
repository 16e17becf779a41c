// What the language's own words mean, in a line or two, for editors.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hocket::tools::lsp {

struct Meaning {
    std::string_view word;
    std::string_view form;  // how it is written
    std::string_view text;
};

// Words of statements and headers, functions, and what stands for groups and ranks.
std::span<const Meaning> meanings();
// Members of groups, lists and buffers, which stand behind a point.
std::span<const Meaning> members();

const Meaning* find_meaning(std::span<const Meaning> among, std::string_view word);

// Returns what a collective promises, "" for another name.
std::string contract_text(std::string_view collective);

}  // namespace hocket::tools::lsp
