// The available .sched files, and lookups in them by name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/source.hpp"
#include "dsl/elaboration/schedule_files.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Owns source texts and syntax trees; spans and nodes are valid as long as it lives. A copy is cheap: it
// shares the files read so far with the original, and owns those that it loads later. Not thread-safe.
class Library {
  public:
    // Reads all *.sched files of the folders, and of their topologies/ and compared/ folders; the first
    // folder has precedence. Skips files that don't parse, cannot be read or import such files, and folders
    // that don't exist; "not found" messages name them. Throws ReadError.
    explicit Library(const std::vector<std::string>& search_path);

    // Loads a file, which gets precedence over all others, and the files that it imports; reads each once.
    // Throws DiagnosticError, NotFoundError, ReadError.
    const ast::File& load(const std::string& path);
    // As load(), with a file's text, which is not read from the disk. Throws DiagnosticError.
    const ast::File& add(const std::string& path, std::string text) { return add(path, std::move(text), {}); }

    // Returns true if a file that was loaded, or one that it imports from outside of the folders, has changed
    // on the disk since then. Files of the folders are read once.
    bool has_changed() const;

    // Returns the definition of a collective that a file defines, and of which the library has a schedule.
    const ast::CollectiveDefinition& definition_of(Collective collective) const;
    // Returns the collectives that files define, in the order of precedence, each once.
    std::vector<Collective> own_collectives() const;

    // These functions return null if there is none. `where`: the place that has the name. The definitions of
    // its file come first, then those of the files that it imports, then those of files that were loaded,
    // then the folders. Throw DiagnosticError if two imports, or two files of a folder, define the name.
    const ast::CollectiveDefinition* find_collective(const std::string& name) const;
    const ast::Schedule* find_schedule(const std::string& name, Collective collective) const;
    const ast::Algorithm* find_algorithm(const std::string& name, Collective collective,
                                         Span where = {}) const;
    const ast::TopologyDefinition* find_topology(const std::string& name) const;
    const ast::OperatorDefinition* find_operator(const std::string& name) const;
    const ast::UpdateDefinition* find_update(const std::string& name) const;

    // Return sorted names, each once.
    std::vector<std::string> operator_names() const;
    std::vector<std::string> update_names() const;
    std::vector<std::string> topology_names() const;

    // Returns the imports of which the file uses no definition.
    std::vector<ast::Import> unused_imports(const ast::File& file) const;
    // Returns the algorithms that the place in a file may name, one per name, sorted by name.
    std::vector<const ast::Algorithm*> algorithms_at(Span where, Collective collective) const;

    // What a compared/ folder holds is there to be compared with, so it runs only if it is named; so does a
    // name that two files of a folder define.
    enum class Which : std::uint8_t { all, for_choice };

    // Return the definitions that `find` returns, one per name, sorted by name.
    std::vector<const ast::Algorithm*> algorithms(Collective collective, Which which = Which::all) const;
    std::vector<const ast::Schedule*> schedules(Collective collective, Which which = Which::all) const;

    // Returns the details for "not found" messages: the places searched, the existing names, the skipped
    // files.
    std::string where_looked() const;
    // Returns a text for each file that the folders hold and that is not used, with the reason, and for each
    // name that two files of a folder define.
    const std::vector<std::string>& passed_over() const { return passed_over_; }

    // A text split into its parts: "name(args)", "file:name(args)" or "file". resolve() loads the file.
    struct Reference {
        const ast::File* file = nullptr;  // if a file was named
        std::string path;
        ast::Expression call;  // its text is empty if the reference names only a file
    };
    Reference resolve(const std::string& text);
    // The names in a text that is part of no file, as the arguments of "my.sched:mine(ring)", mean what they
    // mean at the place from now on. Both must outlive the library.
    void read_in(const SourceFile& text, Span place) { places_[&text] = place.file; }

  private:
    // Returns the file whose definitions come first at the place, or null.
    const ScheduleFile* file_at(Span where) const;
    const ast::File& add(const std::string& path, std::string text, std::optional<FileState> state);
    template <typename Definition, typename Matches>
    const Definition* find(std::vector<Definition> ast::File::*member, const std::string& name,
                           const Matches& matches, Span where) const;
    template <typename Definition>
    std::vector<const Definition*> distinct(std::vector<Definition> ast::File::*member, Collective collective,
                                            Which which) const;
    // Adds a text to passed_over_ for each name that two files of a folder define.
    void find_ambiguous_names();
    // Finds the collectives that the file names and another file defines. Throws DiagnosticError.
    void resolve(ScheduleFile& file) const;

    ScheduleFiles known_;
    std::vector<std::shared_ptr<const ScheduleFile>> files_;  // that all may name, in order of precedence
    std::vector<const ScheduleFile*> watched_;        // read by load(), or since then by way of imports
    std::map<std::string, const ast::File*> loaded_;  // by path
    std::map<std::string, SourceFile> references_;    // by the requested text: spans point into it
    std::map<const SourceFile*, const SourceFile*> places_;  // of texts that read_in() was told of
    std::vector<std::string> search_path_, missing_, passed_over_;
};

// The path of what was read from there.
inline constexpr std::string_view standard_input = "<stdin>";

// Returns true if the text looks like a file ("x.sched", "dir/x", standard input), not like a name.
bool looks_like_file(const std::string& text);
// Returns the path in such a text: "my.sched" of "my.sched:ring"; "" if it is a name.
std::string file_of(const std::string& text);

}  // namespace hocket::dsl
