// The meaning of a schedule, by docs/language.md alone: a second, slow implementation of the language that
// shares no code with dsl/, so that the two can be compared. It was written from that text without a look at
// dsl/, and must stay so: where the two differ, the text decides which of them is corrected.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hocket::reference {

struct Level {
    std::string name;
    std::int64_t size = 1;
};

struct Request {
    std::string text;           // of a .sched file; every algorithm that `using` names must be in it
    std::string schedule;       // a schedule of it or an algorithm, with arguments: "flat(ring, doubling)"
    std::string collective;     // "all_reduce"
    std::vector<Level> levels;  // of the topology, innermost first
    std::int64_t root = 0;
};

// One rank's values, by element of x; nothing for elements that the rank does not hold.
using Values = std::vector<std::optional<std::uint64_t>>;

class Meaning {
  public:
    // Reads, lays out, and checks the schedule.
    explicit Meaning(const Request& request);
    Meaning(Meaning&&) noexcept;
    ~Meaning();

    // Why the schedule is refused, with line and column; "" if it is right.
    const std::string& refusal() const;

    // For a right schedule: by rank, the output in the end when x has `count` elements (0 and more; the
    // whole, even if x is divided by rank; as many for each rank if any piece moves to another place).
    // Elements outside of a rank's output are nothing.
    //   input(rank, element): the rank's input. fold(a, b): the operator; it need be neither commutative nor
    //   associative: the result of several operands is fold(fold(o1, o2), o3), in the order that the language
    //   promises.
    std::vector<Values> run(std::uint64_t count,
                            const std::function<std::uint64_t(std::int64_t, std::uint64_t)>& input,
                            const std::function<std::uint64_t(std::uint64_t, std::uint64_t)>& fold) const;

    // Returns whether any piece moves to another place.
    bool shifts() const;

    // The transfers in the order in which they happen, one a line, for people who look into a difference:
    // "phase 3: rank 0 +> rank 1 [0, 1/4) + [1/2, 3/4) to [0, 1/4) + [1/2, 3/4)".
    std::string transfers() const;

  private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace hocket::reference
