// Warnings about right definitions: transfers without an effect, and names without a use.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/proof/waste.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Collects over all groups and topologies on which the definitions of one file are proved: a transfer is
// needless only if it is so wherever it moves anything.
class Needless {
  public:
    // path: of the file. What other files' transfers bring is theirs.
    explicit Needless(std::string path) : path_(std::move(path)) {}

    // Looks at a graph that is right. Its transfers stand for themselves if they are the algorithm's, or the
    // schedule's own; otherwise for the statement that ran their algorithm. Throws DeadlineError.
    void look_at(const StepGraph& graph, const Deadline& deadline);
    // Returns the warnings, in the order of the text. Empty places if the file has none.
    std::vector<Report> warnings(const ast::File& file) const;

  private:
    struct Statement {
        Place place;
        bool runs_algorithm = false;
        Brought brought;
    };

    const std::string path_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Statement> statements_;  // by begin and end
};

}  // namespace hocket::dsl
