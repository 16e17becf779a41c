// Warnings about right definitions: transfers without an effect, names without a use, and elements that are
// left out and lost.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/proof/waste.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Collects over all groups and topologies on which the definitions of one file are proved: a transfer is
// needless only if it is so wherever it moves anything. A selection is lossy if no state keeps the rest,
// and the header does not say so.
class Warnings {
  public:
    // path: of the file. What other files' transfers bring is theirs.
    explicit Warnings(std::string path) : path_(std::move(path)) {}

    // Looks at a graph that is right. Its transfers stand for themselves, and for the statement that ran
    // their algorithm, as far as these are in the file. A graph that cannot be followed in time, or at all,
    // ends the warnings about transfers: it is right nevertheless.
    void look_at(const StepGraph& graph, const Deadline& deadline);
    // Tells that a definition is right on ranks whose steps are not looked at: that ends the warnings about
    // transfers, which may be needed there.
    void give_up() { gave_up_ = true; }
    // Tells of a definition that is right: "algorithm ring(2) all_gather", "groups of 1 to 17". others:
    // further trials, in words: "other groups (-n)".
    void was_tried(Span header, const std::string& what, const std::string& where, const std::string& others);
    // Returns the warnings of the definitions that were tried, in the order of the text, without those that
    // its comments allow. unused_imports: of the file, which must have a definition.
    std::vector<Report> of(const ast::File& file, const std::vector<ast::Import>& unused_imports) const;

  private:
    using Key = std::pair<std::uint32_t, std::uint32_t>;  // begin and end in the file
    struct Statement {
        Place place;
        bool runs_algorithm = false;
        Brought brought;
        bool is_needed = false;  // somewhere the proof needs it: without it, something undefined is read
    };
    struct Trials {
        std::vector<std::pair<std::string, std::string>> right;  // what and where
        std::string others;
    };
    struct InGraph {
        Brought brought;
        std::vector<std::uint32_t> origins;
    };

    void look_for_losses(const StepGraph& graph);
    void add(const StepGraph& graph, const std::vector<Brought>& brought, const Deadline& deadline);
    std::vector<Report> needless(const ast::File& file) const;

    const std::string path_;
    std::map<Key, Statement> statements_;
    std::map<std::uint32_t, Trials> trials_;  // by the begin of the definition's header
    std::map<Key, Report> lossy_;
    bool gave_up_ = false;
};

}  // namespace hocket::dsl
