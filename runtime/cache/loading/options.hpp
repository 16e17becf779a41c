// The cache options that loads use.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/cache/io/io.hpp"
#include "runtime/cache/room/value.hpp"
#include "runtime/cache/source/source.hpp"

namespace hocket::cache {

// The embedder's functions; called from several threads at once.
using ReadFunction = std::function<Status(std::uint64_t key, Value& sample)>;
using DecodeFunction =
    std::function<Status(std::uint64_t key, std::span<const std::byte> encoded, Value& sample)>;

// Selects which samples of the source are written to the disk: see hkt_cache_store.
enum class Store { unless_behind, all, none };

// Who reads waits for storage most of the time, so there are as many as reads may be in flight. Who decodes
// computes.
constexpr unsigned default_readers = 64, default_decoders = 32;

struct LoadOptions {
    std::unique_ptr<Source> source;  // null: none
    ReadFunction read;               // implements FromCallback
    DecodeFunction decode;           // may be empty
    IoKind io = IoKind::automatic;
    Store store = Store::unless_behind;
    unsigned depth = 64;
    std::optional<unsigned> workers;  // threads for read, and as many for decode; none: the defaults below
    std::chrono::milliseconds timeout{60000};

    // Names a sample for people.
    std::string name_of(std::uint64_t key) const {
        return source ? source->name(key) : "sample " + std::to_string(key);
    }
};

}  // namespace hocket::cache
