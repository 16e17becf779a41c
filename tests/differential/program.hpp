// A program of the schedule language as a tree of lines, which mutations and the reducer can cut in.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/differential/reference/reference.hpp"

namespace hocket::differential {

// A statement or a definition: its text, and the block after it.
struct Statement {
    std::string text;  // "each r in g where r != 0"; "" is a bare block
    bool has_block = false;
    std::vector<Statement> body = {};
};
using Statements = std::vector<Statement>;

struct Program {
    std::uint64_t seed = 0;
    std::string family;      // how it was made: "pieces", "levels", "flat" ...
    std::string collective;  // "all_reduce"
    std::string schedule;    // the schedule to run, with arguments: "flat(ring, doubling)"
    std::vector<reference::Level> levels;
    std::string topology;  // "2x3", or the name of a topology that the file defines
    bool topology_is_defined = false;
    std::int64_t root = 0;
    int mutations = 0;
    Statements definitions;
    std::set<std::string> features;  // of the language, that it was made with

    std::int64_t ranks() const;
    std::string text() const;      // of the .sched file
    std::string headline() const;  // "seed 7: pieces all_reduce 's' on 2x3, root 0, 1 mutation"
};

// Places of all statements in the tree, the outermost first; valid until the tree changes.
std::vector<Statements*> lists_of(Statements& statements);

}  // namespace hocket::differential
