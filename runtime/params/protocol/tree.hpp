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
    };
    Kind kind = Kind::direct;
    int degree = 2;

    // "direct", "binary", "degree 4", "rack". Throws Error(invalid_argument).
    static Shape parse(const std::string& text);
    std::string text() const;
};

class Tree {
  public:
    Tree() = default;
    // groups: of each worker, for racks: those with the same number are near each other.
    Tree(const Shape& shape, const std::map<Worker, int>& groups);

    bool contains(Worker worker) const { return parents_.contains(worker); }
    std::size_t size() const { return parents_.size(); }
    Worker parent(Worker worker) const { return parents_.at(worker); }
    std::vector<Worker> children(Worker of) const;  // ascending; of: or the_server

    void add_leaf(Worker worker) { parents_.emplace(worker, the_server); }
    // Its children go to its parent.
    void remove(Worker worker);
    // It stays, below the server, with nobody below it.
    void make_leaf(Worker worker);
    // It goes one step up, with all that are below it.
    void lift(Worker worker);

  private:
    std::map<Worker, Worker> parents_;
};

}  // namespace hocket::params
