// The tree of workers along which updates go up to a server, and weights come down from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/params/protocol/message.hpp"

namespace hocket::params {

struct Shape {
    enum class Kind {
        direct,  // all workers are children of the server
        degree,  // no node has more than `degree` children
        rack,    // the first worker of each group is a child of the server, the others are its children
        chosen,  // whichever of these has the lowest load()
    };
    Kind kind = Kind::direct;
    int degree = 2;
    // For `chosen`: the cost of one more level, or of one more child at the node with the most, as a multiple
    // of the time that a link needs for all weights of a server.
    double step_cost = 0;
    // server_groups: by server, the group that it belongs to; -1: near no worker, or unknown. server: the
    // index of this tree's server. The trees of several servers use different workers as inner nodes, as far
    // as there are enough, so that all workers carry about the same load (MLNET: a tree for each server).
    std::vector<int> server_groups = {-1};
    std::size_t server = 0;

    // "direct", "binary", "degree 4", "rack", "auto". Throws Error(invalid_argument).
    static Shape parse(const std::string& text);
    std::string text() const;
};

// Workers and servers of one group are near each other (on one host or in one rack). Each group has one link
// to all others, with equal capacity in both directions.
class Tree {
  public:
    Tree() = default;
    // groups: by worker.
    Tree(const Shape& shape, const std::map<Worker, int>& groups);

    bool contains(Worker worker) const { return parents_.contains(worker); }
    std::size_t size() const { return parents_.size(); }
    Worker parent(Worker worker) const { return parents_.at(worker); }
    std::vector<Worker> children(Worker of) const;  // ascending; of: a worker or the_server
    int depth() const;                              // levels of workers
    int most_children() const;                      // the largest number of children of any node

    void add_leaf(Worker worker) { parents_.emplace(worker, the_server); }
    // Moves the worker one level up, with everything below it.
    void lift(Worker worker);

  private:
    std::map<Worker, Worker> parents_;
};

// Returns how often a server's weights cross the busiest link in one direction: the sum over all servers'
// trees of this shape, each with an equal share of the weights, divided by the number of servers.
double load(const Shape& shape, const std::map<Worker, int>& groups);

}  // namespace hocket::params
