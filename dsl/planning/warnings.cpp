#include "dsl/planning/warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "dsl/proof/verify.hpp"
#include "dsl/syntax/allowed_warnings.hpp"
#include "dsl/syntax/definitions.hpp"
#include "dsl/syntax/unused.hpp"

namespace hocket::dsl {
namespace {

constexpr std::size_t most_trials_said = 4;

// Returns where the headers of all definitions begin: text between two belongs to the first.
std::set<std::uint32_t> headers_of(const ast::File& file) {
    std::set<std::uint32_t> begins;
    for_each_definition(file, [&](const auto& definition) { begins.insert(definition.span.begin); });
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
    return fmt::format(
        "it was so with all that was tried: {}. Before you leave it out, check {}; or allow it, by a comment "
        "behind it: # schedc: allow needless",
        tried, others);
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

// Returns true if a state keeps what the selection has not: a statement takes the selection out of it.
bool is_taken_out_of_state(const StepGraph& graph, const ExtraBuffer& selection) {
    return std::ranges::any_of(graph.computations, [&](const Computation& computation) {
        const ExtraBuffer* const target = graph.extra_at(computation.target);
        return target && target->kind == ExtraBuffer::Kind::state &&
               std::ranges::any_of(computation.sparse, [&](const Computation::Sparse& term) {
                   return term.buffer == selection.begin && term.use != Computation::Sparse::Use::add;
               });
    });
}

}  // namespace

void Warnings::look_at(const StepGraph& graph, const Deadline& deadline) {
    look_for_losses(graph);
    if (gave_up_) return;
    try {
        add(graph, brought_by(graph, deadline), deadline);
    } catch (const DeadlineError&) {
        gave_up_ = true;
    } catch (const DiagnosticError&) {
        gave_up_ = true;
    }
}

void Warnings::look_for_losses(const StepGraph& graph) {
    if (graph.lossy) return;
    for (const ExtraBuffer& extra : graph.extras) {
        const bool is_named = extra.kind == ExtraBuffer::Kind::selection;
        const bool takes_all = extra.parameter < 0 && extra.density >= 1;
        if (takes_all || !(extra.leaves_out() || (is_named && !is_taken_out_of_state(graph, extra))))
            continue;
        if (!extra.span.file || extra.span.file->path != path_) continue;
        lossy_.try_emplace(
            {extra.span.begin, extra.span.end},
            warning_of(
                {extra.span,
                 "the elements that are not selected are lost",
                 {},
                 is_named
                     ? "select from a state (`e = e + x`) and take the selection out of it (`e = e - "
                       "dense(s)`), as `naive_ag` does; or add `lossy` to the header"
                     : "keep them for the next start, for each statement by itself: `state e like x` right "
                       "before it, and `keeping e` behind it; or add `lossy` to the header"},
                "lossy"));
    }
}

void Warnings::add(const StepGraph& graph, const std::vector<Brought>& brought, const Deadline& deadline) {
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

void Warnings::was_tried(Span header, const std::string& what, const std::string& where,
                         const std::string& others) {
    Trials& trials = trials_[header.begin];
    trials.right.emplace_back(what, where);
    trials.others = others;
}

std::vector<Report> Warnings::needless(const ast::File& file) const {
    const std::set<std::uint32_t> headers = headers_of(file);
    std::vector<Report> reports;
    for (const auto& [key, statement] : statements_) {
        if (gave_up_ || statement.is_needed || !is_needless(statement.brought)) continue;
        const auto behind = headers.upper_bound(key.first);
        const auto trials = behind == headers.begin() ? trials_.end() : trials_.find(*std::prev(behind));
        if (trials == trials_.end()) continue;
        Report report = warning_of({{},
                                    needless_text(statement.brought, statement.runs_algorithm),
                                    {},
                                    hint_of(trials->second.right, trials->second.others)},
                                   "needless");
        report.place = statement.place;
        reports.push_back(report);
    }
    return reports;
}

std::vector<Report> Warnings::of(const ast::File& file,
                                 const std::vector<ast::Import>& unused_imports) const {
    std::vector<Report> reports = needless(file);
    for (const auto& [key, report] : lossy_) reports.push_back(report);
    const std::set<std::uint32_t> headers = headers_of(file);
    for (const UnusedName& unused : unused_names(file)) {
        const auto behind = headers.upper_bound(unused.span.begin);
        if (behind != headers.begin() && trials_.contains(*std::prev(behind)))
            reports.push_back(warning_of({unused.span,
                                          fmt::format("the {} '{}' is never used", unused.what, unused.name),
                                          {},
                                          "leave it out"},
                                         "unused"));
    }
    for (const ast::Import& import : unused_imports)
        reports.push_back(warning_of({import.span,
                                      "nothing here uses what this file defines",
                                      {},
                                      "leave the import out; algorithms and collectives are imported"},
                                     "unused"));
    const AllowedWarnings allowed(file);
    std::erase_if(reports, [&](const Report& report) { return allowed.has(report); });
    for (const Diagnostic& wrong : allowed.wrong()) reports.push_back(warning_of(wrong, "comment"));
    std::ranges::stable_sort(reports, {}, [](const Report& report) {
        return std::pair(report.place.begin.line, report.place.begin.column);
    });
    return reports;
}

}  // namespace hocket::dsl
