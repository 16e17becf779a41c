#include "dsl/elaboration/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/named_file.hpp"
#include "dsl/syntax/own_collectives.hpp"
#include "dsl/syntax/parse.hpp"

namespace hocket::dsl {

namespace fs = std::filesystem;

namespace {

// Returns true if this errno is about the file itself. Any other is about the state of this process.
bool is_about_the_file(int error) {
    constexpr int errors[] = {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG, irregular_file};
    return std::find(std::begin(errors), std::end(errors), error) != std::end(errors);
}

const char* advice_for(int error) {
    return error == EMFILE ? "; raise the limit (ulimit -n)" : "";
}

std::string read_file(const std::string& path) {
    try {
        return read_text(path);
    } catch (const UnreadableFile& refused) {
        const std::string what = fmt::format("cannot read {}: {}", path, refused.what());
        if (!is_about_the_file(refused.error)) throw ReadError(what + advice_for(refused.error));
        throw NotFoundError(what);
    }
}

struct FoundFile {
    bool is_compared;
    std::string path;

    friend auto operator<=>(const FoundFile&, const FoundFile&) = default;
};

// Returns the files of the folder, in order of precedence. Adds a text to `missing` if it does not exist.
std::vector<FoundFile> schedule_files(const std::string& folder, std::vector<std::string>& missing) {
    std::vector<FoundFile> files;
    for (const auto& [place, is_compared] :
         {std::pair(folder, false), {folder + "/topologies", false}, {folder + "/compared", true}}) {
        std::error_code error;
        for (fs::directory_iterator entry(place, error), end; !error && entry != end; entry.increment(error))
            if (entry->path().extension() == ".sched") files.push_back({is_compared, entry->path().string()});
        if (!error) continue;
        const std::string what = fmt::format("cannot read the folder {}: {}", place, error.message());
        if (error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
            throw ReadError(what + advice_for(error.value()));
        if (place == folder) missing.push_back(what);
    }
    std::sort(files.begin(), files.end());
    return files;
}

// Returns the shortest path to a file, because people read messages in some working directory. That directory
// may have been removed.
std::string display_path(const std::string& path) {
    std::error_code error;
    const fs::path here = fs::current_path(error);
    const std::string relative = error ? path : fs::proximate(path, here, error).string();
    return error || relative.starts_with("..") ? path : relative;
}

// Returns the first definition of each name, which is the one that `find` returns.
template <typename Definition, typename Files>
std::vector<const Definition*> distinct(const Files& files, std::vector<Definition> ast::File::*member,
                                        Collective collective, Library::Which which) {
    std::map<std::string, std::pair<const Definition*, bool>> found;
    for (const auto& file : files)
        for (const Definition& definition : file->tree.*member)
            if (definition.collective == collective)
                found.try_emplace(definition.name.text, &definition, file->is_compared);
    std::vector<const Definition*> result;
    for (const auto& [name, known] : found)
        if (which == Library::Which::all || !known.second) result.push_back(known.first);
    return result;
}

// Returns the first definition of the name, or null.
template <typename Definition, typename Files>
const Definition* first_of(const Files& files, std::vector<Definition> ast::File::*member,
                           const std::string& name) {
    for (const auto& file : files)
        for (const Definition& definition : file->tree.*member)
            if (definition.name.text == name) return &definition;
    return nullptr;
}

template <typename Definition, typename Files>
std::vector<std::string> names_of(const Files& files, std::vector<Definition> ast::File::*member) {
    std::set<std::string> names;
    for (const auto& file : files)
        for (const Definition& definition : file->tree.*member) names.insert(definition.name.text);
    return {names.begin(), names.end()};
}

// Returns each folder once, at its first place.
std::vector<std::string> distinct_folders(const std::vector<std::string>& folders) {
    std::vector<std::string> distinct;
    std::set<std::string> known;
    for (const std::string& folder : folders) {
        std::error_code error;
        const fs::path real = fs::canonical(folder, error);
        if (known.insert(error ? folder : real.string()).second) distinct.push_back(folder);
    }
    return distinct;
}

// Returns the name of the collective as the text has it: another file's may not be known yet.
template <typename Definition>
std::string_view collective_text(const Definition& definition) {
    return definition.own ? std::string_view(definition.own->text) : name_of(definition.collective);
}

// A file may define a name once per collective.
void reject_duplicates(const ast::File& tree) {
    std::map<std::string, Span> seen;
    const auto check = [&](const std::string& key, const ast::Name& name) {
        const auto [entry, is_new] = seen.emplace(key, name.span);
        if (!is_new)
            throw DiagnosticError(Diagnostic{name.span,
                                             fmt::format("'{}' is defined twice", name.text),
                                             {{entry->second, "first here"}},
                                             "rename one of them"});
    };
    for (const ast::CollectiveDefinition& c : tree.collectives) check("c " + c.name.text, c.name);
    for (const ast::Algorithm& a : tree.algorithms)
        check(fmt::format("a{} {}", collective_text(a), a.name.text), a.name);
    for (const ast::Schedule& s : tree.schedules)
        check(fmt::format("s{} {}", collective_text(s), s.name.text), s.name);
    for (const ast::TopologyDefinition& t : tree.topologies) check("t " + t.name.text, t.name);
    for (const ast::OperatorDefinition& o : tree.operators) check("o " + o.name.text, o.name);
    for (const ast::UpdateDefinition& u : tree.updates) check("u " + u.name.text, u.name);
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

Library::Library(const std::vector<std::string>& search_path) : search_path_(distinct_folders(search_path)) {
    std::vector<std::shared_ptr<Entry>> files;
    for (const std::string& folder : search_path_)
        for (const auto& [is_compared, path] : schedule_files(folder, broken_)) {
            try {
                files.push_back(parsed(display_path(path), read_file(path), is_compared));
            } catch (const ReadError&) {
                throw;
            } catch (const std::runtime_error& error) {
                broken_.push_back(error.what());
            }
        }
    // A file may name a collective that a later one defines.
    files_.assign(files.begin(), files.end());
    for (const std::shared_ptr<Entry>& file : files) {
        try {
            resolve(*file);
        } catch (const DiagnosticError& error) {
            broken_.push_back(error.what());
            std::erase(files_, file);
        }
    }
}

void Library::resolve(Entry& entry) const {
    resolve_collectives(entry.tree, [&](const std::string& name) { return find_collective(name); });
    std::vector<std::string> known;
    for (const Collective own : own_collectives()) known.emplace_back(name_of(own));
    for (const ast::CollectiveDefinition& own : entry.tree.collectives) known.push_back(own.name.text);
    require_collectives(entry.tree, std::move(known));
}

std::shared_ptr<Library::Entry> Library::parsed(const std::string& path, std::string text, bool is_compared) {
    auto entry = std::make_shared<Entry>();
    entry->source = {path, std::move(text)};
    entry->tree = parse(entry->source);
    entry->is_compared = is_compared;
    reject_duplicates(entry->tree);
    return entry;
}

const ast::File& Library::load(const std::string& path) {
    const ast::File* const file = loaded_[path];
    return file ? *file : add(path, read_file(path));
}

const ast::File& Library::add(const std::string& path, std::string text) {
    const std::shared_ptr<Entry> entry = parsed(path, std::move(text), false);
    resolve(*entry);
    files_.insert(files_.begin(), entry);
    loaded_[path] = &entry->tree;
    return entry->tree;
}

const ast::CollectiveDefinition* Library::find_collective(const std::string& name) const {
    return first_of(files_, &ast::File::collectives, name);
}

const ast::CollectiveDefinition& Library::definition_of(Collective collective) const {
    for (const auto& file : files_)
        for (const ast::CollectiveDefinition& definition : file->tree.collectives)
            if (definition.collective == collective) return definition;
    throw NotFoundError(fmt::format("no file defines the collective {} in the way that was asked for; {}",
                                    name_of(collective), where_looked()));
}

std::vector<Collective> Library::own_collectives() const {
    std::vector<Collective> all;
    for (const auto& file : files_)
        for (const ast::CollectiveDefinition& definition : file->tree.collectives)
            if (std::ranges::find(all, definition.collective) == all.end())
                all.push_back(definition.collective);
    return all;
}

const ast::Schedule* Library::find_schedule(const std::string& name, Collective collective) const {
    for (const ast::Schedule* schedule : schedules(collective))
        if (schedule->name.text == name) return schedule;
    return nullptr;
}

const ast::Algorithm* Library::find_algorithm(const std::string& name, Collective collective) const {
    for (const ast::Algorithm* algorithm : algorithms(collective))
        if (algorithm->name.text == name) return algorithm;
    return nullptr;
}

const ast::TopologyDefinition* Library::find_topology(const std::string& name) const {
    return first_of(files_, &ast::File::topologies, name);
}

const ast::OperatorDefinition* Library::find_operator(const std::string& name) const {
    return first_of(files_, &ast::File::operators, name);
}

const ast::UpdateDefinition* Library::find_update(const std::string& name) const {
    return first_of(files_, &ast::File::updates, name);
}

std::vector<std::string> Library::operator_names() const {
    return names_of(files_, &ast::File::operators);
}

std::vector<std::string> Library::update_names() const {
    return names_of(files_, &ast::File::updates);
}

std::vector<const ast::Algorithm*> Library::algorithms(Collective collective, Which which) const {
    return distinct(files_, &ast::File::algorithms, collective, which);
}

std::vector<const ast::Schedule*> Library::schedules(Collective collective, Which which) const {
    return distinct(files_, &ast::File::schedules, collective, which);
}

std::string Library::where_looked() const {
    std::string text = "looked in";
    for (const std::string& folder : search_path_) text += " " + folder;
    if (search_path_.empty()) text += " no folder";
    for (const std::string& error : broken_) text += "\npassed over: " + error;
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
    if (!call.empty()) {
        const auto& source = references_.try_emplace(text, SourceFile{"<" + text + ">", call}).first->second;
        reference.call = parse_reference(source);
    }
    return reference;
}

}  // namespace hocket::dsl
