// An operator that a schedule file defines: what it makes of two values, and what may be done with it.
#pragma once

#include <memory>
#include <string>
#include <tuple>

#include "dsl/base/source.hpp"
#include "dsl/graph/formula.hpp"

namespace hocket::dsl {

struct Operator {
    std::string name;
    Formula formula;           // of the elements 0 and 1: what was combined so far, and what comes next
    bool commutative = false;  // the two may change places
    bool associative = false;  // of three, the last two may be combined first
    Span definition = {};      // its header
    std::shared_ptr<const SourceFile> source = nullptr;  // what the span points into

    auto key() const { return std::tie(name, formula.items, commutative, associative); }
    // Two operators with the same name, formula and words do the same, wherever they are defined.
    friend auto operator<=>(const Operator& a, const Operator& b) { return a.key() <=> b.key(); }
    friend bool operator==(const Operator& a, const Operator& b) { return a.key() == b.key(); }
};

}  // namespace hocket::dsl
