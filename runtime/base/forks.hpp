// What becomes of this process's part in a job when the process forks. The child has none of its threads, and
// must not disturb the parent's job: it keeps no socket open, writes to no memory that other ranks see, and
// its copies of handles are only good for being thrown away.
//
// Before fork(2) returns in the child, what is registered here is taken care of there, with calls that are
// safe after a fork of a process with threads. A child that is made in another way (vfork, posix_spawn, a
// bare clone system call) must not use Hocket before it calls exec(3), which closes all descriptors.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace hocket::forks {

namespace detail {
extern std::atomic<std::uint32_t> generation;
}

// How many forks lie between this process and the first one of its family that had something registered here.
// A handle that remembers another number belongs to a parent. Thread-safe.
inline std::uint32_t generation() {
    return detail::generation.load(std::memory_order_relaxed);
}

// What this process has one of, made when it is first asked for; it lives as long as the process. A forked
// child begins with another one: its copy of the parent's may be locked, and parts of it are closed there.
// Thread-safe. May throw std::bad_alloc.
template <typename State>
State& own() {
    struct Owned {
        State state{};
        const std::uint32_t generation = forks::generation();
    };
    static std::atomic<Owned*> current = nullptr;
    Owned* found = current.load(std::memory_order_acquire);
    if (found && found->generation == generation()) return found->state;
    auto* const made = new Owned;
    if (current.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return made->state;
    delete made;
    return found->state;
}

// Children close this descriptor at once, from now on, or no longer. Negative ones are ignored. Thread-safe.
// May throw std::bad_alloc.
void close_in_children(int fd);
void keep_in_children(int fd) noexcept;
// Both in one: no child keeps a descriptor that is being closed. Returns what close(2) does.
int close(int fd) noexcept;

// Something else that a child needs to change.
class Inherited {
  public:
    // From now on. Thread-safe.
    void begin();
    void end() noexcept;  // idempotent

    // Called in a child, before descriptors are closed there. Only system calls, no locks, no allocation.
    virtual void in_child() noexcept = 0;

  protected:
    Inherited() = default;
    Inherited(const Inherited&) = delete;
    Inherited& operator=(const Inherited&) = delete;
    ~Inherited() = default;  // after end()

  private:
    friend class Registry;
    Inherited *previous_ = nullptr, *next_ = nullptr;
    bool is_listed_ = false;
};

// While it is held, no fork happens: for changes of what an in_child() reads.
std::unique_lock<std::mutex> no_fork();

// While one exists, children keep everything, as if nothing were registered: for a process that forks to go
// on in the child with what it has made, and has no thread. Nothing of it may be used on both sides.
class ChildrenGoOn {
  public:
    ChildrenGoOn();
    ~ChildrenGoOn();
    ChildrenGoOn(const ChildrenGoOn&) = delete;
};

}  // namespace hocket::forks
