#include "dsl/planning/needless.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/proof/verify.hpp"
#include "dsl/syntax/unused.hpp"

namespace hocket::dsl {
namespace {

Report warning(Place place, std::string message, std::string hint) {
    Report report{std::move(place), std::move(message), {}, std::move(hint)};
    report.is_warning = true;
    return report;
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

std::vector<Report> Needless::warnings(const ast::File& file) const {
    std::vector<Report> reports;
    for (const auto& [key, statement] : statements_)
        if (!gave_up_ && !statement.is_needed && is_needless(statement.brought))
            reports.push_back(
                warning(statement.place, needless_text(statement.brought, statement.runs_algorithm),
                        "leave it out: it was so with all groups, topologies and arguments that were tried"));
    for (const UnusedName& unused : unused_names(file))
        reports.push_back(warning(place_of(unused.span),
                                  fmt::format("the {} '{}' is never used", unused.what, unused.name),
                                  "leave it out"));
    const auto place = [](const Report& report) {
        return std::pair(report.place.begin.line, report.place.begin.column);
    };
    std::ranges::stable_sort(reports, {}, place);
    return reports;
}

}  // namespace hocket::dsl
