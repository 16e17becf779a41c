#include "dsl/elaboration/promises.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/bind.hpp"
#include "dsl/elaboration/chunks.hpp"
#include "dsl/elaboration/value.hpp"

namespace hocket::dsl {
namespace {

constexpr std::size_t most_promised_places = std::size_t{1} << 24;
constexpr std::size_t most_claims = std::size_t{1} << 25;
constexpr std::size_t claims_of_a_look = 1 << 8;  // between two reads of the clock

class Promiser {
  public:
    Promiser(const ast::CollectiveDefinition& definition, Rank ranks, Rank root, const Deadline& deadline)
        : definition_(definition), ranks_(ranks), deadline_(deadline), evaluator_(scope_, nullptr) {
        promise_.chunks = contract_of(definition.collective).is_by_rank() ? ranks : 1;
        const auto places = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(promise_.chunks);
        if (places > most_promised_places)
            throw DiagnosticError(definition.span,
                                  fmt::format("the contract of {} is too large to lay out: {} ranks with {} "
                                              "chunks each",
                                              definition.name.text, ranks, promise_.chunks),
                                  "take fewer ranks");
        promise_.held.resize(places);
        promise_.wanted.resize(places);
        promise_.gives.resize(static_cast<std::size_t>(ranks));
        promise_.gets.resize(static_cast<std::size_t>(ranks));
        scope_.add(definition.buffer.text, ViewRef{});
        scope_.add(definition.group.text, make_group(flat_topology(ranks), {0}));
        if (definition.root) scope_.add(definition.root->text, std::int64_t{root});
    }

    Promise run() {
        for (const ast::Let& binding : definition_.lets) let(binding);
        // What is wanted is compared with what is held, wherever the two stand.
        for (const bool is_after : {false, true})
            for (const ast::Clause& clause : definition_.clauses)
                if (clause.is_after == is_after) this->clause(clause);
        return std::move(promise_);
    }

  private:
    void clause(const ast::Clause& clause) {
        std::vector<std::vector<Value>> values;
        for (const ast::Binding& binding : clause.bindings)
            values.push_back(values_of(binding.range, evaluator_));
        std::vector<std::uint32_t> claims;
        for (const ast::Claim& claim : clause.claims) {
            claims.push_back(static_cast<std::uint32_t>(promise_.claims.size()));
            promise_.claims.push_back(claim.span);
        }
        iterate(clause, values, 0, claims);
    }

    void iterate(const ast::Clause& clause, const std::vector<std::vector<Value>>& values, std::size_t depth,
                 const std::vector<std::uint32_t>& claims) {
        if (depth == values.size()) return iteration(clause, claims);
        for (const Value& value : values[depth]) {
            const std::size_t mark = scope_.size();
            scope_.add(clause.bindings[depth].name.text, value);
            iterate(clause, values, depth + 1, claims);
            scope_.shrink(mark);
        }
    }

    void iteration(const ast::Clause& clause, const std::vector<std::uint32_t>& claims) {
        count_work(clause.claims.empty() ? definition_.span : clause.claims[0].span);
        const std::size_t mark = scope_.size();
        for (const ast::Let& binding : clause.lets) let(binding);
        if (!clause.where || evaluator_.truth(*clause.where))
            for (std::size_t i = 0; i < clause.claims.size(); ++i)
                clause.is_after ? want(clause.claims[i], claims[i]) : hold(clause.claims[i]);
        scope_.shrink(mark);
    }

    void let(const ast::Let& binding) {
        if (binding.parameters.empty())
            scope_.add(binding.name.text, evaluator_.evaluate(binding.value));
        else
            scope_.add(binding.name.text, function_of(binding, scope_));
    }

    void count_work(Span span) {
        if (++work_ > most_claims)
            throw DiagnosticError(span, fmt::format("this contract says more than {} things", most_claims),
                                  "it is a mistake, or needs fewer ranks");
        if (work_ % claims_of_a_look == 0) deadline_.check("laying out " + location_of(span));
    }

    // If the definition names no chunk, x is one.
    Chunks region(const ast::Expression& text) const { return chunks_of(text, evaluator_, promise_.chunks); }
    Rank wrapped(Rank chunk) const { return chunk % promise_.chunks; }
    Rank member(const ast::Expression& number) const {
        return static_cast<Rank>(wrap(evaluator_.integer(number), ranks_));
    }

    void hold(const ast::Claim& claim) {
        const Chunks here = region(claim.region);
        const Rank rank = member(claim.member);
        for (Rank chunk = here.first; chunk < here.last; ++chunk)
            promise_.held[promise_.place(rank, wrapped(chunk))] = true;
        promise_.gives[static_cast<std::size_t>(rank)] = true;
    }

    void want(const ast::Claim& claim, std::uint32_t number) {
        const Chunks here = region(claim.region), from = region(claim.wanted->region);
        if (here.last - here.first != from.last - from.first)
            throw DiagnosticError(claim.span,
                                  fmt::format("{} chunk{} cannot hold {}", here.last - here.first,
                                              here.last - here.first == 1 ? "" : "s", from.last - from.first),
                                  "name as many chunks on both sides");
        const Rank rank = member(claim.member);
        const std::uint32_t members = index_of(members_of(claim));
        for (Rank i = 0; i < here.last - here.first; ++i) {
            const Rank chunk = wrapped(from.first + i);
            check_held(claim, members, chunk);
            set(claim, {members, number, chunk}, rank, wrapped(here.first + i));
        }
        promise_.gets[static_cast<std::size_t>(rank)] = true;
    }

    // Returns the ranks whose values a place holds together, ascending.
    std::vector<Rank> members_of(const ast::Claim& claim) {
        const ast::Wanted& wanted = *claim.wanted;
        if (wanted.members.kind == ast::Range::Kind::items) {
            const Value one = evaluator_.evaluate(wanted.members.first);
            if (const auto* number = std::get_if<std::int64_t>(&one)) {
                if (wanted.where || wanted.member)
                    throw DiagnosticError(wanted.members.span,
                                          "a condition chooses among several ranks, and here is one",
                                          "put `where` behind `each`, or write a range or the group");
                return {static_cast<Rank>(wrap(*number, ranks_))};
            }
            if (!wanted.combines)
                throw DiagnosticError(claim.span, "a place holds what one rank had, or a combination",
                                      "write `= combined x : ...` for the values of several ranks");
        }
        std::vector<Rank> members;
        for (const Value& value : values_of(wanted.members, evaluator_)) {
            count_work(claim.span);
            const auto* number = std::get_if<std::int64_t>(&value);
            if (!number)
                throw DiagnosticError(wanted.members.span, "expected members of the group here",
                                      "write a range or the group: 0 ..< r + 1, or g");
            if (is_meant(wanted, *number)) members.push_back(checked(*number, wanted.members.span));
        }
        if (members.empty())
            throw DiagnosticError(claim.span, "this combines the values of no rank",
                                  "leave the place out, with where: it may then hold anything");
        std::ranges::sort(members);
        return members;
    }

    bool is_meant(const ast::Wanted& wanted, std::int64_t member) {
        if (!wanted.where) return true;
        const std::size_t mark = scope_.size();
        if (wanted.member) scope_.add(wanted.member->text, member);
        const bool holds = evaluator_.truth(*wanted.where);
        scope_.shrink(mark);
        return holds;
    }

    Rank checked(std::int64_t member, Span span) const {
        if (member < 0 || member >= ranks_)
            throw DiagnosticError(
                span, fmt::format("there is no rank {}: the group's members are 0 ..< {}", member, ranks_),
                "ranges do not wrap around; a single member's number does");
        return static_cast<Rank>(member);
    }

    std::uint32_t index_of(std::vector<Rank> members) {
        const auto [entry, is_new] =
            numbers_.try_emplace(members, static_cast<std::uint32_t>(promise_.members.size()));
        if (is_new) promise_.members.push_back(std::move(members));
        return entry->second;
    }

    std::string chunk_text(Rank chunk) const {
        return promise_.chunks == 1 ? definition_.buffer.text
                                    : fmt::format("{}[{}]", definition_.buffer.text, chunk);
    }

    void check_held(const ast::Claim& claim, std::uint32_t members, Rank chunk) const {
        for (const Rank rank : promise_.members[members])
            if (!promise_.held[promise_.place(rank, chunk)])
                throw DiagnosticError(
                    claim.span,
                    fmt::format(
                        "on {} ranks this needs {} of rank {}, which holds nothing there at the start",
                        ranks_, chunk_text(chunk), rank),
                    "say in a `before` that it holds it");
    }

    void set(const ast::Claim& claim, const Promise::Wanted& wanted, Rank rank, Rank chunk) {
        Promise::Wanted& here = promise_.wanted[promise_.place(rank, chunk)];
        if (here.members != nothing && (here.members != wanted.members || here.chunk != wanted.chunk))
            throw DiagnosticError(
                Diagnostic{claim.span,
                           fmt::format("on {} ranks, {} of rank {} must hold two different things", ranks_,
                                       chunk_text(chunk), rank),
                           {{promise_.claims[here.claim], "this is the other"}},
                           "a place holds one thing: exclude it from one of the two, with where"});
        if (here.members == nothing) here = wanted;
        promise_.moves |= chunk != wanted.chunk;
    }

    const ast::CollectiveDefinition& definition_;
    Rank ranks_;
    const Deadline& deadline_;
    Scope scope_;
    Evaluator evaluator_;
    Promise promise_;
    std::map<std::vector<Rank>, std::uint32_t> numbers_;  // of sets of members
    std::size_t work_ = 0;
};

}  // namespace

bool is_allowed(const ast::CollectiveDefinition& definition, Rank ranks) {
    if (!definition.where) return true;
    Scope scope;
    scope.add(definition.group.text, make_group(flat_topology(ranks), {0}));
    return Evaluator(scope, nullptr).truth(*definition.where);
}

Promise promise_of(const ast::CollectiveDefinition& definition, Rank ranks, Rank root,
                   const Deadline& deadline) {
    if (!is_allowed(definition, ranks))
        throw ConditionError(Diagnostic{
            definition.span,
            fmt::format("the collective {} does not exist on {} ranks", definition.name.text, ranks),
            {{definition.where->span, "because of this condition"}},
            "take another number of ranks"});
    return Promiser(definition, ranks, root, deadline).run();
}

}  // namespace hocket::dsl
