// The parts and options of a cache.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/loading/options.hpp"

namespace hocket::cache {

struct CacheOptions : LoadOptions {
    std::string folder;  // "": no disk level
    std::uint64_t memory_bytes = std::uint64_t{1} << 30;
    std::uint64_t disk_bytes = 0;  // 0: half of what is free
    std::string dataset;
    std::string decoder;
    FaultHook faults;  // for tests
};

}  // namespace hocket::cache
