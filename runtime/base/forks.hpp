// Separates this process's part in a job from its children when it forks. A child has none of the threads,
// and must not disturb the parent's job: it keeps no socket open, writes to no memory that other ranks see,
// and can only discard its copies of handles.
//
// Before fork(2) returns in the child, everything registered here is handled there, with calls that are safe
// after a fork of a process with threads. A child that is made in another way (vfork, posix_spawn, a bare
// clone system call) must not use Hocket before it calls exec(3), which closes all descriptors.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace hocket::forks {

namespace detail {
extern std::atomic<std::uint32_t> generation;
}

// Returns how many forks lie between this process and the first one of its family that had something
// registered here. A handle that has stored another number belongs to a parent. Thread-safe.
inline std::uint32_t generation() {
    return detail::generation.load(std::memory_order_relaxed);
}

// A per-process singleton, made on first use; it lives as long as the process. A forked child gets a new one:
// its copy of the parent's may be locked, and parts of it are closed there. Thread-safe. May throw
// std::bad_alloc.
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

// The first function registers a descriptor that children close at once; the second ends that. Negative
// descriptors are ignored. Thread-safe. May throw std::bad_alloc.
void close_in_children(int fd);
void keep_in_children(int fd) noexcept;
// Unregisters and closes in one step: no child keeps a descriptor that is being closed. Returns the result of
// close(2).
int close(int fd) noexcept;

// Other state that a child needs to change.
class Inherited {
  public:
    // Registers this object. Thread-safe.
    void begin();
    void end() noexcept;  // idempotent

    // Called in a child before descriptors are closed there. May use only system calls, no locks, no
    // allocation.
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

// Prevents forks while the lock is held: for changes to data that an in_child() reads.
std::unique_lock<std::mutex> no_fork();

// While one exists, children keep everything, as if nothing were registered: for a process without threads
// that forks in order to continue in the child with what it has made. Parent and child must not both use it.
class ChildrenGoOn {
  public:
    ChildrenGoOn();
    ~ChildrenGoOn();
    ChildrenGoOn(const ChildrenGoOn&) = delete;
};

}  // namespace hocket::forks
