// Which way the cache's file operations take.
#pragma once

#include <memory>
#include <string>

#include "runtime/cache/io/io.hpp"

namespace hocket::cache {

struct NamedIo {
    std::unique_ptr<Io> io;
    std::string name;  // see Loop::io_name
};

// depth: operations in flight. Throws Error(io) if io_uring is asked for and cannot be had.
NamedIo make_io(const Files& files, IoKind kind, unsigned depth);

}  // namespace hocket::cache
