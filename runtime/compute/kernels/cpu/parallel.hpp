// Divides the work of one call among threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace hocket::kernels {

// Threads that live as long as one call of a kernel and run its passes one after another.
class Team {
  public:
    // parts: at least 1; the calling thread of run() works on one of them. If the system starts no more
    // threads, that thread works on several parts.
    explicit Team(unsigned parts);
    ~Team();
    Team(const Team&) = delete;

    unsigned parts() const { return parts_; }

    // Calls work(part) for each part of 0 .. parts - 1, each on a thread of its own, and returns when all
    // have finished. The work must not throw. Not thread-safe.
    void run(const std::function<void(unsigned)>& work);

  private:
    void serve(unsigned part);

    const unsigned parts_;
    std::vector<std::thread> threads_;
    const std::function<void(unsigned)>* work_ = nullptr;  // null: the threads exit
    std::atomic<std::uint32_t> pass_{0};                   // the number of passes that have begun
    std::atomic<std::uint32_t> busy_{0};  // the threads that have not finished the current pass
};

// Runs a single pass.
void in_parallel(unsigned parts, const std::function<void(unsigned)>& work);

// Returns the first of the `count` elements that part `part` of `parts` has: a multiple of `unit`, except at
// the end.
constexpr std::size_t part_begin(std::size_t count, std::size_t unit, unsigned part, unsigned parts) {
    const std::size_t units = (count + unit - 1) / unit;
    const std::size_t begin = (units / parts * part + units % parts * part / parts) * unit;
    return begin < count ? begin : count;
}

}  // namespace hocket::kernels
