// File operations that do not block the calling thread: by io_uring, or by worker threads.
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

// An operation. It is part of the frame of the coroutine that waits for it. The operation and the data that
// it refers to must stay valid until it is done.
struct Operation {
    enum class Kind : std::uint8_t { transfer, open, close, status };

    Kind kind = Kind::transfer;
    Transfer transfer;                  // for close: has the descriptor
    const std::string* path = nullptr;  // for open and status
    int flags = 0;                      // for open
    struct statx* status = nullptr;

    std::int64_t result = 0;  // bytes moved, a descriptor, or 0; -errno on failure
    std::coroutine_handle<> waiting;
    Operation* next = nullptr;  // the link of the Fifo that contains it
};

// For one thread, except wake(). Before each call it asks Files which fault a test injects.
class Io {
  public:
    virtual ~Io() = default;  // all operations must be done

    // Called once, before anything else, by the thread that makes the other calls.
    virtual void enter() {}

    // Starts the operation, at the latest during wait().
    virtual void submit(Operation& operation) = 0;

    // Appends finished operations to `done`. Waits until an operation is done, until wake(), or until
    // `timeout` has passed (empty: without a limit). May return spuriously. Throws Error(io) if the kernel
    // does not let it wait.
    virtual void wait(std::optional<std::chrono::nanoseconds> timeout, Fifo<Operation>& done) = 0;

    // Makes the current wait() return, or else the next one. May be called on any thread.
    virtual void wake() = 0;
};

}  // namespace hocket::cache
