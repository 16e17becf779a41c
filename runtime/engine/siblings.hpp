// The communicators of this process, for telling in which of them its threads wait: one that waits in one
// communicator does not move the others' operations.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hocket::engine {

class Sibling {
  public:
    // The operation that a thread waits in, in words: "all_reduce #3 (...)"; none if none does. It may visit
    // gates.
    using Waits = std::function<std::optional<std::string>()>;

    explicit Sibling(Waits waits);
    ~Sibling();  // after a call of waits() that is under way
    Sibling(const Sibling&) = delete;

    void call(std::string name);  // "the group of ranks 2, 5"

    // What threads of this process wait in, in other communicators: "all_reduce #3 (...) of the group of
    // ranks 2, 5". Not while a gate is held.
    std::vector<std::string> others_wait_in() const;

  private:
    const Waits waits_;
    std::string name_ = "another communicator";
    const unsigned generation_;
};

}  // namespace hocket::engine
