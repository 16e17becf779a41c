// The communicators of this process, to tell in which of them its threads wait: a thread that waits in one
// communicator makes no progress on the others' operations.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hocket::engine {

class Sibling {
  public:
    // Returns the operation in which a thread waits, in words: "all_reduce #3 (...)"; nullopt if none waits.
    // It may lock gates.
    using Waits = std::function<std::optional<std::string>()>;

    explicit Sibling(Waits waits);
    ~Sibling();  // waits for a call of waits() that is under way
    Sibling(const Sibling&) = delete;

    void call(std::string name);  // name: "the group of ranks 2, 5"

    // Returns the operations of other communicators in which threads of this process wait: "all_reduce #3
    // (...) of the group of ranks 2, 5". Call without holding a gate.
    std::vector<std::string> others_wait_in() const;

  private:
    const Waits waits_;
    std::string name_ = "another communicator";
    const unsigned generation_;
};

}  // namespace hocket::engine
