#include "dsl/planning/needless.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/syntax/unused.hpp"

namespace hocket::dsl {
namespace {

Report warning(Place place, std::string message, std::string hint) {
    Report report{std::move(place), std::move(message), {}, std::move(hint)};
    report.is_warning = true;
    return report;
}

// Returns a report of what the statement's transfers bring; without a message if some of it is needed.
std::string needless_text(const Brought& brought, bool runs_algorithm) {
    if (brought.all == 0 || brought.there + brought.unneeded < brought.all) return "";
    const char* statement = runs_algorithm ? "statement" : "transfer";
    if (brought.unneeded == 0) return fmt::format("all that this {} brings is there already", statement);
    if (brought.there == 0)
        return fmt::format("nobody needs what this {} brings: no rank sends it on, and no result holds it",
                           statement);
    return fmt::format("what this {} brings is there already, or nobody needs it", statement);
}

}  // namespace

void Needless::look_at(const StepGraph& graph, const Deadline& deadline) {
    const std::vector<Brought> brought = brought_by(graph, deadline);
    for (std::size_t i = 0; i < brought.size(); ++i) {
        const StepOrigin& origin = graph.origins[i];
        const bool runs_algorithm = origin.call.file != nullptr;
        const Span span = runs_algorithm ? origin.call : origin.transfer;
        if (!span.file || span.file->path != path_) continue;
        Statement& statement = statements_[{span.begin, span.end}];
        if (statement.place.path.empty()) statement.place = place_of(span);
        statement.runs_algorithm = runs_algorithm;
        statement.brought.all += brought[i].all;
        statement.brought.there += brought[i].there;
        statement.brought.unneeded += brought[i].unneeded;
    }
}

std::vector<Report> Needless::warnings(const ast::File& file) const {
    std::vector<Report> reports;
    for (const auto& [span, statement] : statements_)
        if (std::string text = needless_text(statement.brought, statement.runs_algorithm); !text.empty())
            reports.push_back(
                warning(statement.place, std::move(text),
                        "leave it out: it was so on all groups and topologies that were tried"));
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
