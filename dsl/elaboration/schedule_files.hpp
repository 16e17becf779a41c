// Reads .sched files, and the files that they import.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/source.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Thrown if a folder or file cannot be read for a reason that lies with this process or machine: no
// descriptors, no permission to search a folder, a failing disk. what() names the path and the reason.
class ReadError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// What is known of a file without reading it.
struct FileState {
    std::filesystem::file_time_type changed;
    std::uintmax_t size = 0;

    friend bool operator==(const FileState&, const FileState&) = default;
};
FileState state_of(const std::string& path);  // of a file that does not exist: some state, always the same

struct ScheduleFile {
    SourceFile source;
    ast::File tree;
    std::string folder;              // of the schedule path, where it was found; empty if it was named
    bool is_compared = false;        // lies in a compared/ folder
    std::string place;               // a path to it, also from other working folders if it was imported
    std::optional<FileState> state;  // before it was read; none if its text was given
    std::vector<const ScheduleFile*> imports;  // in the order of the text
};

// Returns each folder once, at its first place.
std::vector<std::string> distinct_folders(const std::vector<std::string>& folders);

// Returns the file's text. Throws NotFoundError, ReadError.
std::string read_file(const std::string& path);

// The files that were read, by their places on the disk. Owns them; a copy is cheap, and shares those that
// were read so far. Not thread-safe.
class ScheduleFiles {
  public:
    // The files that one call has read: first the one that was asked for. They may still be changed.
    using Read = std::vector<std::shared_ptr<ScheduleFile>>;

    // folders: of the schedule path, for imports that are not beside the importing file.
    explicit ScheduleFiles(std::vector<std::string> folders) : folders_(std::move(folders)) {}

    // Takes the text as the file's, and reads what it imports that was not read yet. An earlier file of that
    // path stays the one of those that import it. Throws DiagnosticError, NotFoundError, ReadError.
    Read add(const std::string& path, std::string text, std::optional<FileState> state);
    // Reads the *.sched files of the folder and of its topologies/ and compared/ folders, in order of
    // precedence. Those that cannot be read are left out, and `broken` gets a text for each; `missing` gets
    // one if the folder does not exist. Throws ReadError.
    Read add_folder(const std::string& folder, std::vector<std::string>& missing,
                    std::vector<std::string>& broken);
    // Reads what these files import, behind them. Files whose imports are wrong are left out, and `broken`
    // gets a text for each. Throws ReadError.
    Read link(const Read& found, std::vector<std::string>& broken);

    // Forgets the wrong ones of these files, and all that import them, and returns the others. `broken` gets
    // a text for each importer.
    Read without(Read files, std::set<const ScheduleFile*> wrong, std::vector<std::string>& broken);

    // Returns the file that has this text, or null.
    const ScheduleFile* of(const SourceFile* text) const;
    const std::vector<std::shared_ptr<const ScheduleFile>>& all() const { return all_; }

  private:
    std::string path_of(const ScheduleFile& importing, const ast::Import& import) const;
    const ScheduleFile& known_or_read(const ScheduleFile& importing, const ast::Import& import, Read& read);
    void link(ScheduleFile& file, Read& read);
    void keep(const std::string& place, std::shared_ptr<const ScheduleFile> file);

    std::vector<std::string> folders_;
    std::map<std::string, std::shared_ptr<const ScheduleFile>> by_place_;
    std::vector<std::shared_ptr<const ScheduleFile>> all_;  // in the order in which they were read
};

}  // namespace hocket::dsl
