#include "dsl/planning/check_calls.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/syntax/parse.hpp"

namespace hocket::dsl {
namespace {

constexpr std::size_t most_calls = 1000;  // of one definition

}  // namespace

CheckCalls::CheckCalls(const std::string& only, const std::vector<GivenValues>& with) : with_(with) {
    if (only.empty()) return;
    const ast::Expression call = parsed(only);
    name_ = call.text;
    if (call.args.empty()) return;
    const std::size_t open = only.find('(') + 1;
    arguments_ = only.substr(open, only.rfind(')') - open);
}

ast::Expression CheckCalls::parsed(const std::string& text) {
    return parse_reference(sources_.emplace_back(SourceFile{fmt::format("<{}>", text), text}));
}

std::vector<ast::Expression> CheckCalls::of(const std::string& name,
                                            const std::vector<ast::Parameter>& parameters) {
    if (!name_.empty() && name_ != name) return {};
    is_found_ = true;
    for (const ast::Parameter& parameter : parameters) known_.push_back(parameter.name.text);
    std::vector<std::string> all{arguments_};
    for (const auto& [parameter, values] : with_) {
        const auto is_meant = [&, &wanted = parameter](const auto& one) { return one.name.text == wanted; };
        if (std::none_of(parameters.begin(), parameters.end(), is_meant)) continue;
        used_.insert(parameter);
        std::vector<std::string> longer;
        for (const std::string& before : all)
            for (const std::string& value : values)
                longer.push_back(
                    fmt::format("{}{}{} = {}", before, before.empty() ? "" : ", ", parameter, value));
        all = std::move(longer);
        if (all.size() > most_calls)
            throw DiagnosticError(Span(),
                                  fmt::format("more than {} combinations of values for {}", most_calls, name),
                                  "give fewer values at once");
    }
    std::vector<ast::Expression> calls;
    for (const std::string& arguments : all)
        calls.push_back(parsed(arguments.empty() ? name : fmt::format("{}({})", name, arguments)));
    return calls;
}

void CheckCalls::require_all_used(const std::string& path) const {
    if (!is_found_ && !name_.empty()) throw NotFoundError(fmt::format("{} defines no '{}'", path, name_));
    for (const GivenValues& given : with_)
        if (!used_.contains(given.parameter))
            throw NotFoundError(fmt::format("nothing that is checked in {} has a parameter '{}'{}", path,
                                            given.parameter, did_you_mean(given.parameter, known_)));
}

}  // namespace hocket::dsl
