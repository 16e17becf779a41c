// Other processes' memory that one context has opened. It is kept open for the next message: to open it costs
// far more than to copy a few MiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>

#include "runtime/device/exported.hpp"

namespace hocket::device {

// Not thread-safe. Call all functions within the context. Throws as Driver::require; doing: likewise.
class Mappings {
  public:
    // While an allocation is open here, its memory is not free for its owner's device, even if it was freed.
    static constexpr std::size_t most = 32;

    struct Mapping {
        Exported of;
        DevicePointer begin;  // here
        int users;
    };

    explicit Mappings(const Driver& driver) : driver_(driver) {}
    Mappings(const Mappings&) = delete;

    // Open until it is given back, and maybe longer. Null: this process cannot open it; its own memory, for
    // one.
    Mapping* open(const Exported& exported, const std::string& doing);
    void give_back(Mapping& mapping) { --mapping.users; }

    // What nobody uses.
    void close_all() noexcept;

  private:
    void drop_stale(const Exported& exported, const std::string& doing);
    bool make_room(const std::string& doing);
    void close(std::list<Mapping>::iterator mapping, const std::string& doing);

    const Driver& driver_;
    std::list<Mapping> open_;  // the last used comes last
};

}  // namespace hocket::device
