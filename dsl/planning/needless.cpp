#include "dsl/planning/needless.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "dsl/proof/verify.hpp"
#include "dsl/syntax/unused.hpp"

namespace hocket::dsl {
namespace {

constexpr std::size_t most_trials_said = 4;

Report warning(Place place, std::string message, std::string hint, std::string_view rule) {
    Report report{std::move(place), std::move(message), {}, std::move(hint)};
    report.is_warning = true;
    report.rule = rule;
    return report;
}

// Returns where the headers of all definitions begin: text between two belongs to the first.
std::set<std::uint32_t> headers_of(const ast::File& file) {
    std::set<std::uint32_t> begins;
    const auto add = [&](const auto& definitions) {
        for (const auto& definition : definitions) begins.insert(definition.span.begin);
    };
    add(file.collectives);
    add(file.operators);
    add(file.updates);
    add(file.algorithms);
    add(file.schedules);
    add(file.topologies);
    return begins;
}

// A statement may be needed with groups, topologies or arguments that were not tried. right: what, and where.
std::string hint_of(const std::vector<std::pair<std::string, std::string>>& right,
                    const std::string& others) {
    std::string tried;
    for (std::size_t i = 0; i < std::min(right.size(), most_trials_said); ++i) {
        const auto& [what, where] = right[i];
        const bool is_said = i + 1 < right.size() && i + 1 < most_trials_said && right[i + 1].second == where;
        tried += fmt::format("{}{}", i > 0 ? ", " : "", what);
        if (!is_said) tried += (where.starts_with("on ") ? " " : " on ") + where;
    }
    if (right.size() > most_trials_said) tried += fmt::format(", ... ({} in all)", right.size());
    return fmt::format("it was so with all that was tried: {}. Before you leave it out, check {}", tried,
                       others);
}

bool is_needless(const Brought& brought) {
    return brought.all > 0 && brought.there + brought.unneeded == brought.all;
}

std::string needless_text(const Brought& brought, bool runs_algorithm) {
    const char* statement = runs_algorithm ? "statement" : "transfer";
    if (brought.unneeded == 0) return fmt::format("all that this {} brings is there already", statement);
    if (brought.there == 0) return fmt::format("no result needs what this {} brings", statement);
    return fmt::format("what this {} brings is there already, or no result needs it", statement);
}

// Needless data may still be read, by a transfer of which other data are needed.
bool is_right_without(const StepGraph& graph, const std::vector<std::uint32_t>& origins,
                      const Deadline& deadline) {
    StepGraph rest = graph;
    std::erase_if(rest.steps, [&](const Step& step) { return std::ranges::count(origins, step.origin) > 0; });
    try {
        verify(rest, "the graph without a statement", deadline);
        return true;
    } catch (const DiagnosticError&) {
        return false;
    }
}

}  // namespace

void Needless::look_at(const StepGraph& graph, const Deadline& deadline) {
    if (gave_up_) return;
    try {
        add(graph, brought_by(graph, deadline), deadline);
    } catch (const DeadlineError&) {
        gave_up_ = true;
    } catch (const DiagnosticError&) {
        gave_up_ = true;
    }
}

void Needless::add(const StepGraph& graph, const std::vector<Brought>& brought, const Deadline& deadline) {
    std::map<Key, InGraph> here;
    for (std::uint32_t i = 0; i < brought.size(); ++i)
        for (const Span span : {graph.origins[i].call, graph.origins[i].transfer}) {
            if (!span.file || span.file->path != path_) continue;
            const Key key{span.begin, span.end};
            here[key].brought += brought[i];
            here[key].origins.push_back(i);
            Statement& statement = statements_[key];
            if (!statement.place.path.empty()) continue;
            statement.place = place_of(span);
            statement.runs_algorithm = span.begin == graph.origins[i].call.begin;
        }
    for (const auto& [key, one] : here) {
        Statement& statement = statements_[key];
        statement.brought += one.brought;
        if (is_needless(one.brought) && !statement.is_needed)
            statement.is_needed = !is_right_without(graph, one.origins, deadline);
    }
}

void Needless::was_tried(Span header, const std::string& what, const std::string& where,
                         const std::string& others) {
    Trials& trials = trials_[header.begin];
    trials.right.emplace_back(what, where);
    trials.others = others;
}

std::vector<Report> Needless::warnings(const ast::File& file) const {
    const std::set<std::uint32_t> headers = headers_of(file);
    const auto trials_at = [&](std::uint32_t offset) {
        const auto behind = headers.upper_bound(offset);
        return behind == headers.begin() ? trials_.end() : trials_.find(*std::prev(behind));
    };
    std::vector<Report> reports;
    for (const auto& [key, statement] : statements_) {
        if (gave_up_ || statement.is_needed || !is_needless(statement.brought)) continue;
        const auto trials = trials_at(key.first);
        if (trials == trials_.end()) continue;
        reports.push_back(warning(statement.place, needless_text(statement.brought, statement.runs_algorithm),
                                  hint_of(trials->second.right, trials->second.others), "needless"));
    }
    for (const UnusedName& unused : unused_names(file))
        if (trials_at(unused.span.begin) != trials_.end())
            reports.push_back(warning(place_of(unused.span),
                                      fmt::format("the {} '{}' is never used", unused.what, unused.name),
                                      "leave it out", "unused"));
    const auto place = [](const Report& report) {
        return std::pair(report.place.begin.line, report.place.begin.column);
    };
    std::ranges::stable_sort(reports, {}, place);
    return reports;
}

}  // namespace hocket::dsl
