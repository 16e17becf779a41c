// File operations that do not block the thread that asks for them: by io_uring, or by worker threads.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/cache/io/fifo.hpp"
#include "runtime/cache/io/files.hpp"

namespace hocket::cache {

enum class IoKind { automatic, ring, threads };  // automatic: io_uring if the kernel allows it

// An operation, and the coroutine that waits for it, whose frame it lies in. It and what it refers to stay
// until it is done.
struct Operation {
    enum class Kind : std::uint8_t { transfer, open, close, status };

    Kind kind = Kind::transfer;
    Transfer transfer;                  // close has its descriptor there
    const std::string* path = nullptr;  // open, status
    int flags = 0;                      // open
    struct statx* status = nullptr;

    std::int64_t result = 0;  // bytes moved, a descriptor, or 0; -errno
    std::coroutine_handle<> waiting;
    Operation* next = nullptr;  // the Fifo's that it is in
};

// Of one thread, but for wake(). What faults there are to be is asked of Files for each call.
class Io {
  public:
    virtual ~Io() = default;  // all operations are done

    // The calling thread is the one that calls the rest. Once, before it does.
    virtual void enter() {}

    // Starts the operation, at the latest when wait() is called.
    virtual void submit(Operation& operation) = 0;

    // Appends what is done to `done`. Waits until there is something, until wake(), or for `timeout` at most
    // (nothing: for as long as it takes); it may also return for no reason. Throws Error(io) if the kernel
    // does not let it wait.
    virtual void wait(std::optional<std::chrono::nanoseconds> timeout, Fifo<Operation>& done) = 0;

    // Any thread: wait() returns, the current one or the next.
    virtual void wake() = 0;
};

}  // namespace hocket::cache
