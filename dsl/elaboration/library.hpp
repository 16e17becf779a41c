// The .sched files that are available, and what is found in them by name.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsl/base/source.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// A folder or file could not be read, for a reason of this process: no descriptors, no permission to look
// into a folder, a failing disk. what() names it and the reason.
class ReadError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Owns source texts and syntax trees; spans and nodes are valid as long as it lives. A copy costs little: it
// shares what was read so far with the original, and what it loads later is its own. Not thread-safe.
class Library {
  public:
    // Reads all *.sched files of the folders, and of their topologies/ folders; the first folder has
    // precedence. A file that doesn't parse or cannot be read is skipped, and is named when something isn't
    // found; so is a folder that does not exist. Throws ReadError.
    explicit Library(const std::vector<std::string>& search_path);

    // A file that has precedence over all others; read once. Throws DiagnosticError, NotFoundError,
    // ReadError.
    const ast::File& load(const std::string& path);

    // Null if there is none.
    const ast::Schedule* find_schedule(const std::string& name, Collective collective) const;
    const ast::Algorithm* find_algorithm(const std::string& name, Collective collective) const;
    const ast::TopologyDefinition* find_topology(const std::string& name) const;
    const ast::OperatorDefinition* find_operator(const std::string& name) const;
    const ast::UpdateDefinition* find_update(const std::string& name) const;

    // Sorted, each once.
    std::vector<std::string> operator_names() const;
    std::vector<std::string> update_names() const;

    // Each name once, with what `find` gives for it. Sorted by name.
    std::vector<const ast::Algorithm*> algorithms(Collective collective) const;
    std::vector<const ast::Schedule*> schedules(Collective collective) const;

    // For "not found" messages: where we looked, which names exist, which files were skipped.
    std::string where_looked() const;

    // "name(args)" or "file:name(args)" or "file", split; loads the file.
    struct Reference {
        const ast::File* file = nullptr;  // if a file was named
        std::string path;
        ast::Expression call;  // its text is empty if only a file was named
    };
    Reference resolve(const std::string& text);

  private:
    struct Entry {
        SourceFile source;
        ast::File tree;
    };
    const ast::File& add(const std::string& path, std::string text, bool first);

    std::vector<std::shared_ptr<const Entry>> files_;  // in order of precedence
    std::map<std::string, const ast::File*> loaded_;   // by path
    std::map<std::string, SourceFile> references_;     // by the text that was asked for: spans point into it
    std::vector<std::string> search_path_, broken_;
};

// Whether the text looks like a file ("x.sched", "dir/x") and not like a name.
bool looks_like_file(const std::string& text);
// The path of such a text: "my.sched" of "my.sched:ring". "" if it is a name.
std::string file_of(const std::string& text);

}  // namespace hocket::dsl
