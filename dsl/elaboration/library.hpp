// The .sched files at hand, and what is found in them by name.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsl/base/source.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// What lies in a folder or file could not be read, for a reason that is this process's own: no descriptors, a
// folder that it may not look into, a failing disk. what() names it, and the reason.
class ReadError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Owns source texts and syntax trees; spans and nodes are valid as long as it lives. A copy costs little: it
// has what was read in common with the first, and what it loads itself is its own. Not thread-safe.
class Library {
  public:
    // All *.sched files of the folders, and of their topologies/ folders, are at hand, the first folder
    // first. A file that doesn't parse, or may not be read, is passed over, and named when something isn't
    // found; so is a folder that is not there. Throws ReadError.
    explicit Library(const std::vector<std::string>& search_path);

    // A file that goes before the others; read once. Throws DiagnosticError, NotFoundError, ReadError.
    const ast::File& load(const std::string& path);

    // Null if there is none.
    const ast::Schedule* find_schedule(const std::string& name, Collective collective) const;
    const ast::Algorithm* find_algorithm(const std::string& name, Collective collective) const;
    const ast::TopologyDefinition* find_topology(const std::string& name) const;

    // Each name once: what `find` gives. By name.
    std::vector<const ast::Algorithm*> algorithms(Collective collective) const;
    std::vector<const ast::Schedule*> schedules(Collective collective) const;

    // For "not found" messages: where was looked, which names exist, which files were passed over.
    std::string where_looked() const;

    // "name(args)" or "file:name(args)" or "file", split; loads the file.
    struct Reference {
        const ast::File* file = nullptr;  // of an explicit file
        std::string path;
        ast::Expression call;  // text is empty where only a file was given
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
    std::map<std::string, SourceFile> references_;     // what was asked for, by its text: spans point into it
    std::vector<std::string> search_path_, broken_;
};

// A name, or a file by the look of it ("x.sched", "dir/x")?
bool looks_like_file(const std::string& text);
// Then its path: "my.sched" of "my.sched:ring". Else "".
std::string file_of(const std::string& text);

}  // namespace hocket::dsl
