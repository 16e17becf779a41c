// Which definitions a check tries, and with which arguments.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "dsl/base/source.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Values to try for a parameter, as texts: numbers, or names of algorithms.
struct GivenValues {
    std::string parameter;
    std::vector<std::string> values;
};

class CheckCalls {
  public:
    // only: "knomial" or "knomial(3)"; "" for all definitions. Throws DiagnosticError if it is no call.
    CheckCalls(const std::string& only, const std::vector<GivenValues>& with);

    // Returns the calls of a definition: one for each combination of the values that are given for its
    // parameters, none if another one is asked for. They point into this object. Throws DiagnosticError for
    // values that are none, or too many.
    std::vector<ast::Expression> of(const std::string& name, const std::vector<ast::Parameter>& parameters);

    // Throws NotFoundError if no definition had the name, or a parameter that is given values.
    void require_all_used(const std::string& path) const;

  private:
    ast::Expression parsed(const std::string& text);

    std::deque<SourceFile> sources_;
    std::string name_, arguments_;  // of `only`
    const std::vector<GivenValues>& with_;
    bool is_found_ = false;
    std::set<std::string> used_;      // parameters of `with`
    std::vector<std::string> known_;  // parameters of what is checked
};

}  // namespace hocket::dsl
