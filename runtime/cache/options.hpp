// What a cache is made of.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/io/io.hpp"
#include "runtime/cache/source/source.hpp"
#include "runtime/cache/value.hpp"
#include "runtime/error.hpp"

namespace hocket::cache {

// The embedder's functions; called from several threads at once.
using ReadFunction = std::function<Status(std::uint64_t key, Value& sample)>;
using DecodeFunction =
    std::function<Status(std::uint64_t key, std::span<const std::byte> encoded, Value& sample)>;

// Which samples of the source are written to the disk: see hkt_cache_store.
enum class Store { unless_behind, all, none };

struct CacheOptions {
    std::string folder;  // "": no disk level
    std::uint64_t memory_bytes = std::uint64_t{1} << 30;
    std::uint64_t disk_bytes = 0;    // 0: half of what is free
    std::unique_ptr<Source> source;  // null: none
    ReadFunction read;               // what a FromCallback means
    std::string dataset;
    DecodeFunction decode;  // may be empty
    std::string decoder;
    IoKind io = IoKind::automatic;
    Store store = Store::unless_behind;
    unsigned depth = 64, workers = 32;
    std::chrono::milliseconds timeout{60000};
    FaultHook faults;  // of tests
};

}  // namespace hocket::cache
