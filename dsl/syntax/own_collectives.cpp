#include "dsl/syntax/own_collectives.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

using Kind = ast::Expression::Kind;

bool names_chunks(const ast::Expression& region) {
    return region.kind == Kind::index || region.kind == Kind::slice;
}

// Returns true for `x[r] : r`, where the text shows that each member has its own chunk.
bool is_own_chunk(const ast::Claim& claim) {
    return claim.region.kind == Kind::index &&
           ast::canonical_text(claim.region.args[1]) == ast::canonical_text(claim.member);
}

// Returns the buffers for one side of the contract. They follow from the text and not from the topology, so
// that a count means the same number of elements on any number of ranks.
Share share_of(const ast::CollectiveDefinition& definition, bool is_after) {
    for (const ast::Clause& clause : definition.clauses)
        if (clause.is_after == is_after && !std::ranges::all_of(clause.claims, is_own_chunk))
            return Share::whole;
    return Share::own;
}

template <typename Holds>
bool any_claim(const ast::CollectiveDefinition& definition, Holds holds) {
    return std::ranges::any_of(definition.clauses, [&](const ast::Clause& clause) {
        return std::ranges::any_of(clause.claims,
                                   [&](const ast::Claim& claim) { return holds(clause, claim); });
    });
}

void check_complete(const ast::CollectiveDefinition& definition) {
    for (const Collective built_in : all_collectives)
        if (name_of(built_in) == definition.name.text)
            throw DiagnosticError(definition.name.span,
                                  fmt::format("{} is a collective that Hocket has", definition.name.text),
                                  "choose another name");
    for (const bool is_after : {false, true})
        if (!any_claim(definition, [&](const ast::Clause& clause, const ast::Claim&) {
                return clause.is_after == is_after;
            }))
            throw DiagnosticError(definition.span,
                                  fmt::format("the contract of {} does not say what ranks hold {}",
                                              definition.name.text, is_after ? "at the end" : "at the start"),
                                  is_after ? "write, for example: after each r in g  x : r = combined x : g"
                                           : "write, for example: before each r in g  x : r");
}

void check_combined(const ast::CollectiveDefinition& definition) {
    for (const ast::Clause& clause : definition.clauses)
        for (const ast::Claim& claim : clause.claims)
            if (claim.wanted && !claim.wanted->combines &&
                (claim.wanted->member || claim.wanted->where ||
                 claim.wanted->members.kind != ast::Range::Kind::items))
                throw DiagnosticError(claim.span, "a place holds what one rank had, or a combination",
                                      "write `= combined x : ...` for the values of several ranks");
}

OwnContract contract_for(const ast::CollectiveDefinition& definition) {
    OwnContract contract;
    contract.name = definition.name.text;
    contract.text = ast::canonical_text(definition);
    contract.has_root = definition.root.has_value();
    contract.is_by_rank = any_claim(definition, [](const ast::Clause&, const ast::Claim& claim) {
        return names_chunks(claim.region) || (claim.wanted && names_chunks(claim.wanted->region));
    });
    contract.combines = any_claim(definition, [](const ast::Clause&, const ast::Claim& claim) {
        return claim.wanted && claim.wanted->combines;
    });
    contract.input = share_of(definition, false);
    contract.output = share_of(definition, true);
    return contract;
}

// Calls call(node) for everything in the file that names a collective of a file: algorithms, schedules and
// compositions.
template <typename Call>
void for_own(std::vector<ast::Statement>& statements, const Call& call);

template <typename Call>
void for_own(ast::Statement& statement, const Call& call) {
    std::visit(
        [&](auto& node) {
            if constexpr (requires { node.own; })
                if (node.own) call(node);
            if constexpr (requires { node.body; }) for_own(node.body, call);
            if constexpr (requires { node.otherwise; }) for_own(node.otherwise, call);
        },
        statement.node);
}

template <typename Call>
void for_own(std::vector<ast::Statement>& statements, const Call& call) {
    for (ast::Statement& statement : statements) for_own(statement, call);
}

template <typename Call>
void for_own(ast::File& file, const Call& call) {
    for (ast::Algorithm& algorithm : file.algorithms) {
        if (algorithm.own) call(algorithm);
        for_own(algorithm.body, call);
    }
    for (ast::Schedule& schedule : file.schedules) {
        if (schedule.own) call(schedule);
        for_own(schedule.body, call);
    }
}

// The second name in an algorithm's header is the root, or else the buffer that receives the result.
void place_second(ast::Algorithm& algorithm) {
    if (!algorithm.second) return;
    const Contract& contract = contract_of(algorithm.collective);
    const bool is_target = !contract.has_root() && contract.is_by_rank();
    (is_target ? algorithm.target : algorithm.root) = std::move(algorithm.second);
    algorithm.second.reset();
}

}  // namespace

void define_collectives(ast::File& file) {
    for (ast::CollectiveDefinition& definition : file.collectives) {
        check_complete(definition);
        check_combined(definition);
        try {
            definition.collective = define(contract_for(definition));
        } catch (const std::length_error& error) {
            throw DiagnosticError(definition.span, error.what(), "start the program anew");
        }
    }
    resolve_collectives(file, [&](const ast::Name& name) -> const ast::CollectiveDefinition* {
        const auto found =
            std::ranges::find(file.collectives, name.text, [](const auto& c) { return c.name.text; });
        return found == file.collectives.end() ? nullptr : &*found;
    });
}

void resolve_collectives(ast::File& file, const FindCollective& find) {
    for_own(file, [&](auto& node) {
        if (node.collective != undefined_collective) return;
        const ast::CollectiveDefinition* definition = find(*node.own);
        if (!definition) return;
        node.collective = definition->collective;
        if constexpr (requires {
                          node.target;
                          node.second;
                      })
            place_second(node);
    });
}

void require_collectives(ast::File& file, std::vector<std::string> known) {
    for_own(file, [&](auto& node) {
        if (node.collective != undefined_collective) return;
        for (const Collective built_in : all_collectives) known.emplace_back(name_of(built_in));
        std::ranges::sort(known);
        if constexpr (requires { node.name; })
            if (std::ranges::binary_search(known, node.name.text))
                throw DiagnosticError(node.own->span,
                                      fmt::format("there is no collective '{}'", node.own->text),
                                      fmt::format("the name comes first, and then the collective: {} {}",
                                                  node.own->text, node.name.text));
        throw DiagnosticError(
            node.own->span,
            fmt::format("there is no collective '{}'{}", node.own->text, did_you_mean(node.own->text, known)),
            fmt::format("there are: {}; a file may define others: collective {}(x) over g "
                        "{{ ... }}",
                        fmt::join(known, ", "), node.own->text));
    });
}

}  // namespace hocket::dsl
