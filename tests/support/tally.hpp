// Counts an event in all processes that are forked after the tally is made, so that a process waits for the
// events of others, not for a time in which they should happen.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <new>
#include <string>

#include "tests/support/eventually.hpp"
#include "tests/support/expect.hpp"

namespace hocket::test {

class Tally {
  public:
    Tally() {
        void* const memory =
            mmap(nullptr, sizeof(Count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        expect(memory != MAP_FAILED, "memory that processes share");
        count_ = new (memory) Count(0);
    }
    ~Tally() { munmap(count_, sizeof(Count)); }
    Tally(const Tally&) = delete;

    void add() const { ++*count_; }
    int value() const { return *count_; }
    void await(int value) const {
        const bool has_come = eventually([&] { return *count_ >= value; });
        expect(has_come, "to be told " + std::to_string(value) + " times, not " + std::to_string(*count_));
    }
    // Counts the caller, and returns when all callers have been counted.
    void meet(int all) const {
        add();
        await(all);
    }

  private:
    using Count = std::atomic<int>;
    static_assert(Count::is_always_lock_free);  // it works between processes
    Count* count_;
};

}  // namespace hocket::test
