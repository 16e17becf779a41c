// An operator that a schedule file defines: its formula, and whether operands may be reordered or regrouped.
#pragma once

#include <memory>
#include <string>
#include <tuple>

#include "dsl/base/source.hpp"
#include "dsl/graph/formula.hpp"

namespace hocket::dsl {

struct Operator {
    std::string name;
    Formula formula;           // of elements 0 and 1: the value combined so far, and the next operand
    bool commutative = false;  // the operands may change places
    bool associative = false;  // the last two of three may be combined first
    Span definition = {};      // the definition's header
    std::shared_ptr<const SourceFile> source = nullptr;  // the text that the span points into

    auto key() const { return std::tie(name, formula.items, commutative, associative); }
    // Two operators with the same name, formula and words are equal, wherever they are defined.
    friend auto operator<=>(const Operator& a, const Operator& b) { return a.key() <=> b.key(); }
    friend bool operator==(const Operator& a, const Operator& b) { return a.key() == b.key(); }
};

}  // namespace hocket::dsl
