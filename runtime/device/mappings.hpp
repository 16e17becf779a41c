// Other processes' memory that one context has opened. It is kept open for the next message: opening it costs
// far more than copying a few MiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>

#include "runtime/device/exported.hpp"

namespace hocket::device {

// Not thread-safe. Call all functions within the context. They throw as Driver::require; doing: as in
// Driver::require.
class Mappings {
  public:
    // The most that are kept without users. While an allocation is open here, its memory is not returned to
    // its owner's device, even if the owner has freed it.
    static constexpr std::size_t most = 32;

    struct Mapping {
        Exported of;
        DevicePointer begin;  // address in this process
        int users;
    };

    explicit Mappings(const Driver& driver) : driver_(driver) {}
    Mappings(const Mappings&) = delete;

    // Opens the memory, until it is given back and maybe longer. Returns null if this process cannot open it,
    // as for its own memory.
    Mapping* open(const Exported& exported, const std::string& doing);
    void give_back(Mapping& mapping) { --mapping.users; }

    // Closes every allocation without users.
    void close_all() noexcept;

  private:
    void drop_stale(const Exported& exported, const std::string& doing);
    void make_room(const std::string& doing);
    void close(std::list<Mapping>::iterator mapping, const std::string& doing);

    const Driver& driver_;
    std::list<Mapping> open_;  // least recently used first
};

}  // namespace hocket::device
