#include "dsl/elaboration/find.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/bind.hpp"
#include "dsl/elaboration/build_topology.hpp"
#include "dsl/elaboration/operators.hpp"
#include "dsl/elaboration/updates.hpp"
#include "dsl/syntax/parse.hpp"

namespace hocket::dsl {
namespace {

template <typename Definition>
const Definition* only_one(const std::vector<Definition>& definitions, Collective collective) {
    const Definition* found = nullptr;
    for (const Definition& definition : definitions)
        if (definition.collective == collective) {
            if (found) return nullptr;
            found = &definition;
        }
    return found;
}

// Returns "one, other": the names of the collective's definitions.
template <typename Definition>
std::string names_for(const std::vector<Definition>& definitions, Collective collective) {
    std::string names;
    for (const Definition& definition : definitions)
        if (definition.collective == collective) names += (names.empty() ? "" : ", ") + definition.name.text;
    return names;
}

template <typename Definition>
const Definition* named(const std::vector<Definition>& definitions, const std::string& name,
                        Collective collective) {
    for (const Definition& definition : definitions)
        if (definition.name.text == name && definition.collective == collective) return &definition;
    return nullptr;
}

// Returns a topology that is in no file: "2x3", or "" for one level of all ranks. Returns no levels for a
// name.
Topology short_topology(const std::string& text, Rank ranks) {
    return grid_topology(text.empty() ? std::to_string(ranks) : text);
}

// Returns the definition that a reference to an operator or update names. found: its definition in any file,
// if there is one; names: all known names.
template <typename Definition>
const Definition& definition_of(const Library::Reference& reference, const Library& library,
                                const Definition* found, const std::vector<std::string>& names,
                                std::vector<Definition> ast::File::*member, const char* kind) {
    const std::string& name = reference.call.text;
    if (!reference.file) {
        if (found) return *found;
        throw NotFoundError(fmt::format(
            "there is no {} '{}'{}; {}; {}", kind, name, did_you_mean(name, names),
            names.empty() ? "no file defines one" : fmt::format("there are: {}", fmt::join(names, ", ")),
            library.where_looked()));
    }
    const std::vector<Definition>& defined = reference.file->*member;
    if (name.empty() && defined.size() != 1)
        throw NotFoundError(fmt::format("{} has {} {}s: name one, as {}:NAME", reference.path, defined.size(),
                                        kind, reference.path));
    for (const Definition& definition : defined)
        if (name.empty() || definition.name.text == name) return definition;
    throw NotFoundError(fmt::format("{} defines no {} '{}'", reference.path, kind, name));
}

// Returns true if the text is an update's statements, not its name: statements assign outside of parentheses.
bool is_statements(const std::string& text) {
    int depth = 0;
    for (const char c : text) {
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        if (c == '=' && depth == 0) return text.find(".sched") == std::string::npos;
    }
    return false;
}

// Returns the error for a name that nothing has, of one collective or of all.
NotFoundError no_schedule(const Library& library, const std::string& name,
                          std::span<const Collective> collectives) {
    std::set<std::string> all;
    for (const Collective collective : collectives) {
        for (const auto* schedule : library.schedules(collective)) all.insert(schedule->name.text);
        for (const auto* algorithm : library.algorithms(collective)) all.insert(algorithm->name.text);
    }
    const std::string meant = did_you_mean(name, {all.begin(), all.end()});
    return NotFoundError(fmt::format(
        "there is no schedule '{}'{}{}{}; {}", name,
        collectives.size() == 1 ? fmt::format(" for {}", name_of(collectives[0])) : "", meant,
        meant.empty() ? fmt::format("; there are: {}", fmt::join(all, ", ")) : "", library.where_looked()));
}

NotFoundError no_topology(const Library& library, const std::string& text, const std::string& name) {
    const std::vector<std::string> all = library.topology_names();
    return NotFoundError(
        fmt::format("there is no topology '{}'{}; there are grids, as 2x3, and these names: {}; {}", text,
                    did_you_mean(name, all), fmt::join(all, ", "), library.where_looked()));
}

// The reference's arguments may name what the definition's file imports.
template <typename Definition>
Runnable named_by(Library& library, const Library::Reference& reference, const Definition& definition) {
    if (reference.call.span.file) library.read_in(*reference.call.span.file, definition.name.span);
    return runnable_of(definition, reference.call);
}

void check_ranks(const Topology& topology, Rank ranks) {
    if (ranks > 0 && topology.ranks() != ranks)
        throw DiagnosticError(
            Span(),
            fmt::format("topology {} has {} ranks, but the job has {}", topology.name, topology.ranks(),
                        ranks),
            "levels are given innermost first, as 2x3, and their sizes multiply to the number of ranks");
}

}  // namespace

Topology find_topology(Library& library, const std::string& text, Rank ranks) {
    Topology topology = short_topology(text, ranks);
    if (topology.levels.empty()) {
        const Library::Reference reference = library.resolve(text);
        const ast::TopologyDefinition* definition = nullptr;
        if (reference.file && reference.call.text.empty()) {
            if (reference.file->topologies.empty())
                throw NotFoundError(fmt::format("{} defines no topology", reference.path));
            if (reference.file->topologies.size() != 1)
                throw NotFoundError(fmt::format("{} has {} topologies: name one, as {}:NAME", reference.path,
                                                reference.file->topologies.size(), reference.path));
            definition = &reference.file->topologies[0];
        } else {
            definition = library.find_topology(reference.call.text);
            const auto is_named = [&](const auto& other) { return other.name.text == reference.call.text; };
            if (reference.file &&
                std::none_of(reference.file->topologies.begin(), reference.file->topologies.end(), is_named))
                throw NotFoundError(
                    fmt::format("{} defines no topology '{}'", reference.path, reference.call.text));
        }
        if (!definition) throw no_topology(library, text, reference.call.text);
        topology = build_topology(*definition, reference.call);
    }
    check_ranks(topology, ranks);
    return topology;
}

std::vector<Collective> collectives_for(Library& library, const std::string& schedule) {
    if (looks_like_file(schedule)) library.load(file_of(schedule));
    std::vector<Collective> all(std::begin(all_collectives), std::end(all_collectives));
    for (const Collective own : library.own_collectives()) all.push_back(own);
    return all;
}

Collective find_collective(Library& library, const std::string& text, const std::string& schedule) {
    for (const Collective built_in : all_collectives)
        if (name_of(built_in) == text) return built_in;
    if (looks_like_file(schedule)) library.load(file_of(schedule));
    const Library::Reference reference = library.resolve(text);
    if (!reference.call.args.empty())
        throw DiagnosticError(reference.call.span, "a collective takes no arguments",
                              fmt::format("write {}", reference.call.text));
    std::vector<std::string> names;
    for (const Collective known : collectives_for(library, "")) names.emplace_back(name_of(known));
    return definition_of(reference, library, library.find_collective(reference.call.text), names,
                         &ast::File::collectives, "collective")
        .collective;
}

Collective first_collective_of(Library& library, const std::string& text) {
    if (text.empty()) return Collective::all_reduce;
    std::string first_error;
    const std::vector<Collective> collectives = collectives_for(library, text);
    for (const Collective collective : collectives) {
        try {
            find_runnable(library, text, collective);
            return collective;
        } catch (const NotFoundError& error) {
            if (first_error.empty()) first_error = error.what();
        }
    }
    const Library::Reference reference = library.resolve(text);
    if (!reference.file) throw no_schedule(library, reference.call.text, collectives);
    throw NotFoundError(first_error);
}

Collective first_collective_of(const std::string& text, const std::vector<std::string>& search_path) {
    Library library(search_path);
    return first_collective_of(library, text);
}

Collective find_collective(const std::string& text, const std::string& schedule,
                           const std::vector<std::string>& search_path) {
    Library library(search_path);
    return text.empty() ? first_collective_of(library, schedule) : find_collective(library, text, schedule);
}

Runnable find_runnable(Library& library, const std::string& text, Collective collective) {
    const Library::Reference reference = library.resolve(text);
    if (reference.file && reference.call.text.empty()) {
        if (const auto* schedule = only_one(reference.file->schedules, collective))
            return named_by(library, reference, *schedule);
        // In a file with several schedules, an algorithm is only a part of them.
        const std::string schedules = names_for(reference.file->schedules, collective);
        const auto* algorithm =
            schedules.empty() ? only_one(reference.file->algorithms, collective) : nullptr;
        if (algorithm) return named_by(library, reference, *algorithm);
        const std::string all =
            schedules.empty() ? names_for(reference.file->algorithms, collective) : schedules;
        if (all.empty())
            throw NotFoundError(
                fmt::format("{} has no schedule for {}", reference.path, name_of(collective)));
        throw NotFoundError(
            fmt::format("{} does not have exactly one schedule for {}: name one, as {}:NAME; there are: {}",
                        reference.path, name_of(collective), reference.path, all));
    }
    const auto* schedule = reference.file ? named(reference.file->schedules, reference.call.text, collective)
                                          : library.find_schedule(reference.call.text, collective);
    if (schedule) return named_by(library, reference, *schedule);
    const auto* algorithm = reference.file
                                ? named(reference.file->algorithms, reference.call.text, collective)
                                : library.find_algorithm(reference.call.text, collective);
    if (algorithm) return named_by(library, reference, *algorithm);
    if (reference.file)
        throw NotFoundError(fmt::format("{} defines no '{}' for {}", reference.path, reference.call.text,
                                        name_of(collective)));
    throw no_schedule(library, reference.call.text, {&collective, 1});
}

Operator find_operator(Library& library, const std::string& text) {
    const Library::Reference reference = library.resolve(text);
    refuse_arguments(reference.call);
    return build_operator(definition_of(reference, library, library.find_operator(reference.call.text),
                                        library.operator_names(), &ast::File::operators, "operator"));
}

Update find_update(Library& library, const std::string& text) {
    if (is_statements(text)) {
        const SourceFile file{"<update>", text};
        return build_update(parse_update(file), {});
    }
    const Library::Reference reference = library.resolve(text);
    const ast::UpdateDefinition& definition =
        definition_of(reference, library, library.find_update(reference.call.text), library.update_names(),
                      &ast::File::updates, "update");
    return build_update(definition, update_arguments(definition, reference.call));
}

Topology find_topology(const std::string& text, const std::vector<std::string>& search_path, Rank ranks) {
    Topology known = short_topology(text, ranks);
    if (!known.levels.empty()) {
        check_ranks(known, ranks);
        return known;
    }
    Library library(search_path);
    return find_topology(library, text, ranks);
}

}  // namespace hocket::dsl
