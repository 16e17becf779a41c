// Which worker is below which: the way of updates up to one server, and of weights down from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/params/protocol/message.hpp"

namespace hocket::params {

struct Shape {
    enum class Kind {
        direct,  // all workers below the server
        degree,  // no node has more than `degree` children
        rack,    // of each group the first worker below the server, the others below it
        chosen,  // one of these: that with the lowest load()
    };
    Kind kind = Kind::direct;
    int degree = 2;
    // For `chosen`: what a level more costs, or a child more of the node that has most, in times that a link
    // is busy with all weights of a server.
    double step_cost = 0;
    // Of each server, the group that it belongs to; -1: it is near nobody, or not known. And which of them
    // this tree is of. Trees of several servers have other workers as nodes that pass on, as far as there are
    // enough, so that all workers carry about as much (MLNET: a tree for each server).
    std::vector<int> server_groups = {-1};
    std::size_t server = 0;

    // "direct", "binary", "degree 4", "rack", "auto". Throws Error(invalid_argument).
    static Shape parse(const std::string& text);
    std::string text() const;
};

// Workers and the server of one group are near each other (a host, a rack). Each group has one link to all
// others, alike in both directions.
class Tree {
  public:
    Tree() = default;
    // groups: of each worker.
    Tree(const Shape& shape, const std::map<Worker, int>& groups);

    bool contains(Worker worker) const { return parents_.contains(worker); }
    std::size_t size() const { return parents_.size(); }
    Worker parent(Worker worker) const { return parents_.at(worker); }
    std::vector<Worker> children(Worker of) const;  // ascending; of: or the_server
    int depth() const;                              // levels of workers
    int most_children() const;                      // of one node

    void add_leaf(Worker worker) { parents_.emplace(worker, the_server); }
    // It goes one step up, with all that are below it.
    void lift(Worker worker);

  private:
    std::map<Worker, Worker> parents_;
};

// How often a server's weights go over the link that is used most, in one direction: the sum over all
// servers' trees of this shape, each with as large a part of the weights, divided by their number.
double load(const Shape& shape, const std::map<Worker, int>& groups);

}  // namespace hocket::params
