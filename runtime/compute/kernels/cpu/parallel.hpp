// Divides the work of one call among threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace hocket::kernels {

// Threads that live as long as one call of a kernel, and do its passes one after another.
class Team {
  public:
    // parts: at least 1; the thread that calls run() is one of them. If the system starts no more threads,
    // that thread does more parts.
    explicit Team(unsigned parts);
    ~Team();
    Team(const Team&) = delete;

    unsigned parts() const { return parts_; }

    // Calls work(part) for each part of 0 .. parts - 1, each on a thread of its own, and returns when all are
    // done. The work must not throw. Not thread-safe.
    void run(const std::function<void(unsigned)>& work);

  private:
    void serve(unsigned part);

    const unsigned parts_;
    std::vector<std::thread> threads_;
    const std::function<void(unsigned)>* work_ = nullptr;  // null: the threads end
    std::atomic<std::uint32_t> pass_{0};                   // how many passes have begun
    std::atomic<std::uint32_t> busy_{0};                   // threads that have not finished theirs
};

// One pass by itself.
void in_parallel(unsigned parts, const std::function<void(unsigned)>& work);

// Where part `part` of `parts` begins, of `count` elements: at a multiple of `unit`, but for the end.
constexpr std::size_t part_begin(std::size_t count, std::size_t unit, unsigned part, unsigned parts) {
    const std::size_t units = (count + unit - 1) / unit;
    const std::size_t begin = (units / parts * part + units % parts * part / parts) * unit;
    return begin < count ? begin : count;
}

}  // namespace hocket::kernels
