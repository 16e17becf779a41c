// Chooses the implementation of the cache's file operations.
#pragma once

#include <memory>
#include <string>

#include "runtime/cache/io/io.hpp"

namespace hocket::cache {

struct NamedIo {
    std::unique_ptr<Io> io;
    std::string name;  // see Loop::io_name
};

// depth: operations in flight. Throws Error(io) if io_uring is requested but not available.
NamedIo make_io(const Files& files, IoKind kind, unsigned depth);

}  // namespace hocket::cache
