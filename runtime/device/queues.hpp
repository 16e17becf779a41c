// Resources for copies from and to one device: streams, events, other processes' memory, staging memory,
// which is pinned so that the device reads and writes it directly, and memory of the device for intermediate
// values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/device/driver.hpp"
#include "runtime/device/loaded_kernel.hpp"
#include "runtime/device/mappings.hpp"

namespace hocket::device {

// The longest wait for copies that are still under way before their resources are freed.
inline constexpr std::chrono::seconds copies_end_within{1};

// Not thread-safe. Functions throw hocket::Error as Driver::require does; doing: as in Driver::require.
class Queues {
  public:
    Queues(const Driver& driver, Context context, int device)
        : driver_(driver), context_(context), device_(device), mappings_(driver) {}

    // Waits up to a second for copies that are still under way. If they do not end, no block is freed and
    // other processes' memory stays open. Otherwise all memory is freed and closed, which waits for all work
    // of the device, but for memory of the device that was set aside: other processes may be using it. A line
    // on stderr says what is left.
    ~Queues();
    Queues(const Queues&) = delete;

    const Driver& driver() const { return driver_; }
    Context context() const { return context_; }
    int device() const { return device_; }
    int processors(const std::string& doing) const;  // multiprocessors of the device
    int capability(const std::string& doing) const;  // 80 for 8.0

    // Takes a stream without work. Each start has its own streams, one for each direction, so that none waits
    // for another's work. A stream may be given back while it has work. Call within the context.
    Stream take_stream(const std::string& doing);
    void give_back(Stream stream) { streams_.push_back(stream); }

    // Takes an event that may be recorded. It may be given back before it has occurred. Call within the
    // context.
    Event take_event(const std::string& doing);
    void give_back(Event event) { events_.push_back(event); }

    // Takes pinned memory, or memory of the device. Call within the context. Blocks are kept for the next
    // start.
    Block take_block(std::uint64_t bytes, const std::string& doing, bool of_device = false);

    // Gives the block and the events back. The block is lent again once the events have occurred.
    void give_back(const Block& block, std::vector<Event> fences);
    // Keeps the block and never lends it again, because it is not known when its copies end.
    void set_aside(const Block& block) { lost_.push_back(block); }

    // Returns the kernel that the caller names `key`. The first call makes its image and loads it, and throws
    // what make_image throws; a kernel that was refused is not tried again. Call within the context.
    LoadedKernel& kernel(const std::string& key, const std::function<KernelImage()>& make_image,
                         const std::string& doing);
    // Notes that a kernel may never end, so that its code and all other resources stay.
    void note_endless() { has_endless_ = true; }

    // Other processes' memory, opened in this context.
    Mappings& mappings() { return mappings_; }

  private:
    struct Idle {
        Block block;
        std::vector<Event> fences;
    };

    int attribute(int which, const std::string& doing) const;
    bool has_ended(Idle& idle);
    std::uint64_t grown(std::uint64_t bytes, bool of_device) const;
    Block make_block(std::uint64_t bytes, const std::string& doing, bool of_device) const;
    void free(const Block& block) const;
    bool copies_have_ended() noexcept;

    const Driver& driver_;
    const Context context_;
    const int device_;
    std::vector<Stream> streams_;
    std::vector<Event> events_;
    std::vector<Idle> idle_;
    std::vector<Block> lost_;
    std::map<std::string, std::unique_ptr<LoadedKernel>> kernels_;
    std::map<std::string, Error> refused_kernels_;
    bool has_endless_ = false;
    Mappings mappings_;
};

}  // namespace hocket::device
