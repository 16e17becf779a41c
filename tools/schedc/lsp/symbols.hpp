// The names that a text makes, and what a name at a place means. Works on tokens, so that a text that does
// not parse, because somebody is writing it, still has most of its names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/source.hpp"
#include "dsl/syntax/tokens.hpp"

namespace hocket::tools::lsp {

struct Symbol {
    enum class Kind : std::uint8_t {
        algorithm,
        schedule,
        topology,
        combination,  // operator
        update,
        buffer,
        root,
        group,
        parameter,
        variable,  // of a loop
        value,     // let
        function,
        state,
        level,
    };
    Kind kind = Kind::value;
    std::string name;
    std::string collective;          // of an algorithm or a schedule
    std::uint32_t begin = 0;         // of the name
    std::uint32_t from = 0, to = 0;  // where it is known; of a definition: all of it
    std::string text;                // the line, or lines, that make it, folded
};

bool is_definition(Symbol::Kind kind);
std::string_view name_of(Symbol::Kind kind);

class Symbols {
  public:
    explicit Symbols(const dsl::SourceFile& file);

    const std::vector<Symbol>& all() const { return all_; }

    // The word at the offset, or that ends there.
    std::optional<dsl::Token> word_at(std::size_t offset) const;
    // The token before it, or an empty one.
    dsl::Token before(const dsl::Token& token) const;
    // The collective that the statement of a `using` before the offset is about; "" if there is none.
    std::string_view collective_used_at(std::size_t offset) const;

    // What a name means at an offset: the innermost name that is known there, or all definitions that have
    // it.
    std::vector<const Symbol*> meant_at(std::string_view name, std::size_t offset) const;
    // The names that are known at an offset, without definitions.
    std::vector<const Symbol*> known_at(std::size_t offset) const;

  private:
    std::vector<dsl::Token> tokens_;  // without comments
    std::vector<Symbol> all_;
};

}  // namespace hocket::tools::lsp
