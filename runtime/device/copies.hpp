// Copies between memory of devices, this process's and other processes', in the order in which they are
// posted.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/exported.hpp"
#include "runtime/device/queues.hpp"

namespace hocket::device {

// Not thread-safe. After a function has thrown, the object can only be settled and destroyed. Throws
// hocket::Error as Driver::require does; doing: as in Driver::require.
class Copies {
  public:
    // The copies are made in the context of the queues, which must outlive the object.
    Copies(Queues& queues, std::string doing) : queues_(queues), doing_(std::move(doing)) {}
    ~Copies();  // calls settle()
    Copies(const Copies&) = delete;

    // Opens memory that another process exported, until end(). Returns its address in this process; nullopt
    // if this process cannot reach it.
    std::optional<DevicePointer> open(const Exported& exported);

    // Post other work in the same order: zeros; a copy from pinned memory; a kernel (LoadedKernel::launch).
    void clear(DevicePointer memory, std::uint64_t bytes);
    void upload(DevicePointer to, const std::byte* pinned, std::uint64_t bytes);
    void launch(const LoadedKernel& kernel, unsigned blocks, unsigned threads, DevicePointer argument);

    // A copy may begin at once, and follows all copies that were posted before.
    void post(DevicePointer to, DevicePointer from, std::uint64_t bytes);
    // Marks the copies that have been posted so far. reached() returns how many marks are known to be behind
    // the device.
    void fence();
    std::uint64_t reached();

    // Call once all copies have ended: closes what was opened.
    void end() noexcept;
    // Waits up to a second for copies that are under way, then calls end(). Returns false if they have not
    // ended; the memory that they use then stays open for ever.
    bool settle() noexcept;

  private:
    Stream stream();
    void give_queue_back() noexcept;

    Queues& queues_;
    const std::string doing_;
    std::vector<Mappings::Mapping*> opened_;
    Stream stream_ = nullptr;   // has carried only these copies since it was taken; null: none yet
    std::deque<Event> fences_;  // not known to be reached
    std::uint64_t reached_ = 0;
    bool is_lost_ = false;
};

}  // namespace hocket::device
