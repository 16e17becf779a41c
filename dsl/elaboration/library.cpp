#include "dsl/elaboration/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "dsl/base/diagnostic.hpp"
#include "dsl/syntax/own_collectives.hpp"
#include "dsl/syntax/parse.hpp"
#include "dsl/syntax/tokens.hpp"

namespace hocket::dsl {

namespace {

// Returns the first definition that matches, or null.
template <typename Definition, typename Matches>
const Definition* first_of(const std::vector<Definition>& definitions, const Matches& matches) {
    const auto found = std::ranges::find_if(definitions, matches);
    return found == definitions.end() ? nullptr : &*found;
}

// Collectives that say the same are the same.
template <typename Definition>
bool is_same(const Definition& one, const Definition& other) {
    if constexpr (requires { one.clauses; })
        return one.collective == other.collective;
    else
        return &one == &other;
}

// Files of one folder have no order.
bool is_beside(const ScheduleFile& one, const ScheduleFile& other) {
    return &one != &other && !one.folder.empty() && one.folder == other.folder &&
           one.is_compared == other.is_compared;
}

// Returns the path as an import in `from` has it.
std::string path_from(const SourceFile& from, const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path folder = fs::absolute(from.path, error).lexically_normal().parent_path();
    return fs::absolute(path, error).lexically_normal().lexically_proximate(folder).string();
}

DiagnosticError ambiguous(Span where, const std::string& name, Span one, Span other, bool is_imported) {
    const std::string file = where.file ? path_from(*where.file, one.file->path) : one.file->path;
    return DiagnosticError(Diagnostic{where,
                                      fmt::format("'{}' is defined by two files {}", name,
                                                  is_imported ? "that are imported" : "of a folder"),
                                      {{one, "here"}, {other, "and here"}},
                                      is_imported ? "rename one of them, or define it here"
                                      : where.file
                                          ? fmt::format("import the file that is meant: import \"{}\"", file)
                                          : fmt::format("name the file that is meant: {}:{}", file, name)});
}

auto named(const std::string& name, Collective collective) {
    return [&name, collective](const auto& definition) {
        return definition.collective == collective && definition.name.text == name;
    };
}

auto named(const std::string& name) {
    return [&name](const auto& definition) { return definition.name.text == name; };
}

template <typename Definition, typename Files>
std::vector<std::string> names_of(const Files& files, std::vector<Definition> ast::File::*member) {
    std::set<std::string> names;
    for (const auto& file : files)
        for (const Definition& definition : file->tree.*member) names.insert(definition.name.text);
    return {names.begin(), names.end()};
}

}  // namespace

bool looks_like_file(const std::string& text) {
    return text.starts_with(standard_input) || text.find('/') != std::string::npos ||
           text.ends_with(".sched") || text.find(".sched:") != std::string::npos;
}

std::string file_of(const std::string& text) {
    if (!looks_like_file(text)) return "";
    return text.substr(0,
                       text.find(':', text.rfind(".sched") == std::string::npos ? 0 : text.rfind(".sched")));
}

Library::Library(const std::vector<std::string>& search_path)
    : known_(distinct_folders(search_path)), search_path_(distinct_folders(search_path)) {
    ScheduleFiles::Read files;
    for (const std::string& folder : search_path_)
        std::ranges::copy(known_.add_folder(folder, missing_, passed_over_), std::back_inserter(files));
    files = known_.link(files, passed_over_);
    // A file may name a collective that a later one defines.
    for (const std::shared_ptr<ScheduleFile>& file : files)
        if (!file->folder.empty()) files_.push_back(file);
    std::set<const ScheduleFile*> wrong;
    for (const std::shared_ptr<ScheduleFile>& file : files) {
        try {
            resolve(*file);
        } catch (const DiagnosticError& error) {
            passed_over_.push_back(error.what());
            wrong.insert(file.get());
        }
    }
    files = known_.without(files, wrong, passed_over_);
    std::erase_if(files_, [&](const auto& file) { return std::ranges::find(files, file) == files.end(); });
    find_ambiguous_names();
}

void Library::find_ambiguous_names() {
    const auto look_at = [&](const char* kind, auto member) {
        using Definition = typename std::decay_t<decltype(files_[0]->tree.*member)>::value_type;
        std::map<std::string, std::pair<const ScheduleFile*, const Definition*>> seen;
        for (const auto& file : files_)
            for (const Definition& definition : file->tree.*member) {
                std::string what = kind;
                if constexpr (requires { definition.own; })
                    what = fmt::format("{} {}", name_of(definition.collective), kind);
                const std::string& name = definition.name.text;
                const auto [known, is_new] = seen.try_emplace(what + " " + name, file.get(), &definition);
                const auto& [other, first] = known->second;
                if (is_new || !is_beside(*other, *file) || is_same(*first, definition)) continue;
                passed_over_.push_back(fmt::format(
                    "{}: the {} '{}' is defined at {}, too, in the same folder: it runs only where its "
                    "file is named or imported",
                    location_of(definition.name.span), what, name, location_of(first->name.span)));
            }
    };
    look_at("collective", &ast::File::collectives);
    look_at("operator", &ast::File::operators);
    look_at("update", &ast::File::updates);
    look_at("algorithm", &ast::File::algorithms);
    look_at("schedule", &ast::File::schedules);
    look_at("topology", &ast::File::topologies);
}

void Library::resolve(ScheduleFile& file) const {
    resolve_collectives(file.tree, [&](const ast::Name& name) {
        return find(&ast::File::collectives, name.text, named(name.text), name.span);
    });
    std::vector<std::string> known;
    for (const Collective own : own_collectives()) known.emplace_back(name_of(own));
    for (const ast::CollectiveDefinition& own : file.tree.collectives) known.push_back(own.name.text);
    require_collectives(file.tree, std::move(known));
}

const ast::File& Library::load(const std::string& path) {
    const ast::File* const file = loaded_[path];
    if (file) return *file;
    const FileState state = state_of(path);
    return add(path, read_file(path), state);
}

bool Library::has_changed() const {
    return std::ranges::any_of(watched_, [](const ScheduleFile* file) {
        return file->state && *file->state != state_of(file->place);
    });
}

const ast::File& Library::add(const std::string& path, std::string text, std::optional<FileState> state) {
    const ScheduleFiles before = known_;
    try {
        const ScheduleFiles::Read read = known_.add(path, std::move(text), state);
        for (const std::shared_ptr<ScheduleFile>& file : read) resolve(*file);
        for (const std::shared_ptr<ScheduleFile>& file : read) watched_.push_back(file.get());
        files_.insert(files_.begin(), read[0]);
        loaded_[path] = &read[0]->tree;
        return read[0]->tree;
    } catch (...) {
        known_ = before;
        throw;
    }
}

const ScheduleFile* Library::file_at(Span where) const {
    const auto place = places_.find(where.file);
    return known_.of(place == places_.end() ? where.file : place->second);
}

template <typename Definition, typename Matches>
const Definition* Library::find(std::vector<Definition> ast::File::*member, const std::string& name,
                                const Matches& matches, Span where) const {
    const Definition* found = nullptr;
    if (const ScheduleFile* own = file_at(where)) {
        if ((found = first_of(own->tree.*member, matches))) return found;
        for (const ScheduleFile* import : own->imports) {
            const Definition* other = first_of(import->tree.*member, matches);
            if (found && other && !is_same(*other, *found))
                throw ambiguous(where, name, found->name.span, other->name.span, true);
            if (other) found = other;
        }
        if (found) return found;
    }
    const ScheduleFile* from = nullptr;
    for (const auto& file : files_) {
        if (from && !is_beside(*from, *file)) continue;
        const Definition* other = first_of(file->tree.*member, matches);
        if (!other || (found && is_same(*other, *found))) continue;
        if (found) throw ambiguous(where, name, found->name.span, other->name.span, false);
        found = other;
        from = file.get();
    }
    return found;
}

// Returns the first definition of each name.
template <typename Definition>
std::vector<const Definition*> Library::distinct(std::vector<Definition> ast::File::*member,
                                                 Collective collective, Which which) const {
    struct Found {
        const Definition* definition;
        const ScheduleFile* file;
        bool is_ambiguous = false;
    };
    std::map<std::string, Found> all;
    for (const auto& file : files_)
        for (const Definition& definition : file->tree.*member) {
            if (definition.collective != collective) continue;
            const auto [known, is_new] = all.try_emplace(definition.name.text, &definition, file.get());
            known->second.is_ambiguous |= !is_new && is_beside(*known->second.file, *file);
        }
    std::vector<const Definition*> result;
    for (const auto& [name, found] : all)
        if (which == Which::all || !(found.file->is_compared || found.is_ambiguous))
            result.push_back(found.definition);
    return result;
}

const ast::CollectiveDefinition* Library::find_collective(const std::string& name) const {
    if (const auto* found = find(&ast::File::collectives, name, named(name), {})) return found;
    for (const auto& file : known_.all())
        if (const auto* found = first_of(file->tree.collectives, named(name))) return found;
    return nullptr;
}

const ast::CollectiveDefinition& Library::definition_of(Collective collective) const {
    for (const auto& file : known_.all())
        for (const ast::CollectiveDefinition& definition : file->tree.collectives)
            if (definition.collective == collective) return definition;
    throw NotFoundError(fmt::format("no file defines the collective {} in the way that was asked for; {}",
                                    name_of(collective), where_looked()));
}

std::vector<Collective> Library::own_collectives() const {
    std::vector<Collective> all;
    for (const auto* files : {&files_, &known_.all()})  // others than files_ are imported
        for (const auto& file : *files)
            for (const ast::CollectiveDefinition& definition : file->tree.collectives)
                if (std::ranges::find(all, definition.collective) == all.end())
                    all.push_back(definition.collective);
    return all;
}

const ast::Schedule* Library::find_schedule(const std::string& name, Collective collective) const {
    return find(&ast::File::schedules, name, named(name, collective), {});
}

const ast::Algorithm* Library::find_algorithm(const std::string& name, Collective collective,
                                              Span where) const {
    return find(&ast::File::algorithms, name, named(name, collective), where);
}

const ast::TopologyDefinition* Library::find_topology(const std::string& name) const {
    return find(&ast::File::topologies, name, named(name), {});
}

const ast::OperatorDefinition* Library::find_operator(const std::string& name) const {
    return find(&ast::File::operators, name, named(name), {});
}

const ast::UpdateDefinition* Library::find_update(const std::string& name) const {
    return find(&ast::File::updates, name, named(name), {});
}

std::vector<std::string> Library::operator_names() const {
    return names_of(files_, &ast::File::operators);
}

std::vector<std::string> Library::update_names() const {
    return names_of(files_, &ast::File::updates);
}

std::vector<std::string> Library::topology_names() const {
    return names_of(files_, &ast::File::topologies);
}

std::vector<const ast::Algorithm*> Library::algorithms(Collective collective, Which which) const {
    return distinct(&ast::File::algorithms, collective, which);
}

std::vector<const ast::Schedule*> Library::schedules(Collective collective, Which which) const {
    return distinct(&ast::File::schedules, collective, which);
}

std::vector<ast::Import> Library::unused_imports(const ast::File& file) const {
    if (file.imports.empty()) return {};
    const ScheduleFile* own = known_.of(file.imports[0].span.file);
    std::set<std::string_view> words;
    for (const Token& token : tokens_of(own->source))
        if (token.kind == Token::Kind::word) words.insert(token.text);
    // Arguments may name algorithms that nothing in the file names.
    const auto takes_algorithm = [](const ast::Schedule& schedule) {
        return std::ranges::any_of(schedule.parameters, [](const ast::Parameter& parameter) {
            using Kind = ast::Expression::Kind;
            return parameter.value &&
                   (parameter.value->kind == Kind::call ||
                    (parameter.value->kind == Kind::name && parameter.value->text != "auto"));
        });
    };
    const bool may_be_named = std::ranges::any_of(file.schedules, takes_algorithm);
    std::vector<ast::Import> unused;
    for (std::size_t i = 0; i < file.imports.size(); ++i) {
        const auto is_used = [&](const auto& definition) { return words.contains(definition.name.text); };
        const ast::File& imported = own->imports[i]->tree;
        if (may_be_named && !imported.algorithms.empty()) continue;
        if (std::ranges::none_of(imported.algorithms, is_used) &&
            std::ranges::none_of(imported.collectives, is_used))
            unused.push_back(file.imports[i]);
    }
    return unused;
}

std::vector<const ast::Algorithm*> Library::algorithms_at(Span where, Collective collective) const {
    std::map<std::string, const ast::Algorithm*> found;
    const auto add = [&](const std::vector<ast::Algorithm>& algorithms) {
        for (const ast::Algorithm& one : algorithms)
            if (one.collective == collective) found.try_emplace(one.name.text, &one);
    };
    if (const ScheduleFile* own = file_at(where)) {
        add(own->tree.algorithms);
        for (const ScheduleFile* import : own->imports) add(import->tree.algorithms);
    }
    for (const auto& file : files_) add(file->tree.algorithms);
    std::vector<const ast::Algorithm*> result;
    for (const auto& [name, algorithm] : found) result.push_back(algorithm);
    return result;
}

std::string Library::where_looked() const {
    std::string text = "looked in";
    for (const std::string& folder : search_path_) text += " " + folder;
    if (search_path_.empty()) text += " no folder";
    for (const std::string& folder : missing_) text += "\n" + folder;
    for (const std::string& error : passed_over_) text += "\npassed over: " + error;
    return text;
}

Library::Reference Library::resolve(const std::string& text) {
    Reference reference;
    std::string call = text;
    if (looks_like_file(text)) {
        reference.path = file_of(text);
        reference.file = &load(reference.path);
        call = reference.path == text ? "" : text.substr(reference.path.size() + 1);
    }
    std::error_code ignored;
    if (!reference.file && text.find('.') != text.npos && std::filesystem::is_regular_file(text, ignored))
        throw NotFoundError(
            fmt::format("{} is a file, and schedules and topologies are read from files that "
                        "end in .sched{}",
                        text, text.ends_with(".network") ? "; networks are given with -N" : ""));
    if (!reference.file && text.substr(0, text.find('(')).find('.') != text.npos)
        throw NotFoundError(
            fmt::format("there is no file '{}': schedules are in files that end in .sched", text));
    if (!call.empty()) {
        const auto& source = references_.try_emplace(text, SourceFile{"<" + text + ">", call}).first->second;
        reference.call = parse_reference(source);
    }
    return reference;
}

}  // namespace hocket::dsl
