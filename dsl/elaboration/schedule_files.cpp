#include "dsl/elaboration/schedule_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/named_file.hpp"
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

struct FoundFile {
    bool is_compared;
    std::string path;

    friend auto operator<=>(const FoundFile&, const FoundFile&) = default;
};

// Returns the *.sched files of the folder and of its topologies/ and compared/ folders, in order of
// precedence. Adds a text to `missing` if the folder does not exist.
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

// Returns the name of the collective as the text has it: another file's may not be known yet.
template <typename Definition>
std::string_view collective_text(const Definition& definition) {
    return definition.own ? std::string_view(definition.own->text) : name_of(definition.collective);
}

// A file may define a name once per collective, and import a file once.
void reject_duplicates(const ast::File& tree) {
    std::map<std::string, Span> seen;
    const auto check = [&](const std::string& key, const ast::Name& name, bool is_import = false) {
        const auto [entry, is_new] = seen.emplace(key, name.span);
        if (!is_new)
            throw DiagnosticError(
                Diagnostic{name.span,
                           fmt::format("'{}' is {} twice", name.text, is_import ? "imported" : "defined"),
                           {{entry->second, "first here"}},
                           is_import ? "leave one of them out" : "rename one of them"});
    };
    for (const ast::Import& i : tree.imports) check("i " + i.path.text, i.path, true);
    for (const ast::CollectiveDefinition& c : tree.collectives) check("c " + c.name.text, c.name);
    for (const ast::Algorithm& a : tree.algorithms)
        check(fmt::format("a{} {}", collective_text(a), a.name.text), a.name);
    for (const ast::Schedule& s : tree.schedules)
        check(fmt::format("s{} {}", collective_text(s), s.name.text), s.name);
    for (const ast::TopologyDefinition& t : tree.topologies) check("t " + t.name.text, t.name);
    for (const ast::OperatorDefinition& o : tree.operators) check("o " + o.name.text, o.name);
    for (const ast::UpdateDefinition& u : tree.updates) check("u " + u.name.text, u.name);
}

std::shared_ptr<ScheduleFile> parsed(const std::string& path, std::string text) {
    auto file = std::make_shared<ScheduleFile>();
    file->source = {path, std::move(text)};
    file->tree = parse(file->source);
    reject_duplicates(file->tree);
    return file;
}

// Returns one name for each place on the disk, however a path leads to it.
std::string place_of_file(const std::string& path) {
    std::error_code error;
    const fs::path place = fs::weakly_canonical(path, error);
    return error ? path : place.string();
}

// Adds the files that import a wrong file, or one that does, and a text for each.
void add_importers(const ScheduleFiles::Read& files, std::set<const ScheduleFile*>& wrong,
                   std::vector<std::string>& broken) {
    for (bool has_grown = true; has_grown;) {
        has_grown = false;
        for (const std::shared_ptr<ScheduleFile>& file : files) {
            const auto import = std::ranges::find_if(
                file->imports, [&](const ScheduleFile* other) { return wrong.contains(other); });
            if (import == file->imports.end() || !wrong.insert(file.get()).second) continue;
            broken.push_back(
                fmt::format("{}: it imports {}, which is wrong", file->source.path, (*import)->source.path));
            has_grown = true;
        }
    }
}

bool is_there(const fs::path& path) {
    std::error_code error;
    return fs::exists(path, error);
}

}  // namespace

FileState state_of(const std::string& path) {
    std::error_code ignored;
    return {fs::last_write_time(path, ignored), fs::file_size(path, ignored)};
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

// Returns the path that the import means: beside the file itself, or else in a folder.
std::string ScheduleFiles::path_of(const ScheduleFile& importing, const ast::Import& import) const {
    const fs::path beside = fs::path(importing.source.path).parent_path() / import.path.text;
    if (is_there(beside)) return beside.string();
    for (const std::string& folder : folders_)
        if (const fs::path there = fs::path(folder) / import.path.text; is_there(there))
            return there.string();
    throw DiagnosticError(
        import.path.span, fmt::format("there is no file {}", beside.string()),
        folders_.empty() ? "" : fmt::format("nor is there one in {}", fmt::join(folders_, ", ")));
}

const ScheduleFile& ScheduleFiles::known_or_read(const ScheduleFile& importing, const ast::Import& import,
                                                 Read& read) {
    const std::string path = path_of(importing, import), place = place_of_file(path);
    if (const auto known = by_place_.find(place); known != by_place_.end()) return *known->second;
    try {
        const FileState state = state_of(path);
        const std::shared_ptr<ScheduleFile> file = parsed(display_path(path), read_file(path));
        file->state = state;
        std::error_code error;
        file->place = fs::absolute(path, error).string();
        keep(place, file);
        read.push_back(file);
        return *file;
    } catch (const DiagnosticError& error) {
        throw DiagnosticError(
            Diagnostic{import.path.span, "this file cannot be imported", {{Span(), error.what()}}, ""});
    } catch (const NotFoundError& error) {
        throw DiagnosticError(import.path.span, error.what());
    }
}

void ScheduleFiles::link(ScheduleFile& file, Read& read) {
    for (const ast::Import& import : file.tree.imports)
        file.imports.push_back(&known_or_read(file, import, read));
}

void ScheduleFiles::keep(const std::string& place, std::shared_ptr<const ScheduleFile> file) {
    by_place_[place] = file;
    all_.push_back(std::move(file));
}

ScheduleFiles::Read ScheduleFiles::add(const std::string& path, std::string text,
                                       std::optional<FileState> state) {
    Read read{parsed(path, std::move(text))};
    read[0]->place = path;
    read[0]->state = state;
    keep(place_of_file(path), read[0]);
    for (std::size_t i = 0; i < read.size(); ++i) link(*std::shared_ptr(read[i]), read);
    return read;
}

ScheduleFiles::Read ScheduleFiles::add_folder(const std::string& folder, std::vector<std::string>& missing,
                                              std::vector<std::string>& broken) {
    Read read;
    std::set<std::string> places;
    for (const auto& [is_compared, path] : schedule_files(folder, missing)) {
        if (!places.insert(place_of_file(path)).second) continue;  // a link to another one of them
        try {
            read.push_back(parsed(display_path(path), read_file(path)));
            read.back()->folder = folder;
            read.back()->is_compared = is_compared;
            keep(place_of_file(path), read.back());
        } catch (const ReadError&) {
            throw;
        } catch (const std::runtime_error& error) {
            broken.push_back(error.what());
        }
    }
    return read;
}

ScheduleFiles::Read ScheduleFiles::link(const Read& found, std::vector<std::string>& broken) {
    Read read = found;
    std::set<const ScheduleFile*> wrong;
    for (std::size_t i = 0; i < read.size(); ++i) {
        try {
            link(*std::shared_ptr(read[i]), read);
        } catch (const DiagnosticError& error) {
            broken.push_back(error.what());
            wrong.insert(read[i].get());
        }
    }
    return without(std::move(read), std::move(wrong), broken);
}

ScheduleFiles::Read ScheduleFiles::without(Read files, std::set<const ScheduleFile*> wrong,
                                           std::vector<std::string>& broken) {
    add_importers(files, wrong, broken);
    std::erase_if(files, [&](const auto& file) { return wrong.contains(file.get()); });
    std::erase_if(by_place_, [&](const auto& known) { return wrong.contains(known.second.get()); });
    std::erase_if(all_, [&](const auto& file) { return wrong.contains(file.get()); });
    return files;
}

const ScheduleFile* ScheduleFiles::of(const SourceFile* text) const {
    const auto found = std::ranges::find_if(all_, [&](const auto& file) { return &file->source == text; });
    return found == all_.end() ? nullptr : found->get();
}

}  // namespace hocket::dsl
