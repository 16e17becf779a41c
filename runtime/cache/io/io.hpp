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

// An operation. It lies in the frame of the coroutine that waits for it. It and what it refers to stay until
// it is done.
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

// For one thread, except wake(). Before each call it asks Files which fault a test wants.
class Io {
  public:
    virtual ~Io() = default;  // all operations are done

    // Called once, before all else, by the thread that calls the rest.
    virtual void enter() {}

    // Starts the operation, at the latest when wait() is called.
    virtual void submit(Operation& operation) = 0;

    // Appends what is done to `done`. Waits until something is done, until wake(), or until `timeout` has
    // passed (nothing: for as long as it takes). It may also return for no reason. Throws Error(io) if the
    // kernel does not let it wait.
    virtual void wait(std::optional<std::chrono::nanoseconds> timeout, Fifo<Operation>& done) = 0;

    // On any thread. The current wait() returns, or else the next one.
    virtual void wake() = 0;
};

}  // namespace hocket::cache
