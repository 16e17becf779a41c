// What is known about objects before they are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hocket::cache {

// The state of an object, as a server names it. What is "" was not given, and is not compared.
struct Version {
    std::string etag, modified;
};

struct ObjectFacts {
    std::uint64_t bytes = 0;
    Version version;
    bool comes_in_parts = true;  // the server sends them
};

// Of a server that does not.
inline constexpr const char* sends_no_parts =
    "the server does not send parts of objects (it was asked for one with Range); use one that does, or one "
    "object for each sample";

// A part of an object, or all of it.
struct ObjectPart {
    std::string name;  // relative to the store's URL
    std::uint64_t offset = 0, bytes = 0;
    std::uint64_t object_bytes = 0;
    Version version = {};
    std::optional<std::uint64_t> checksum = std::nullopt;  // XXH3 (64 bits) of the part

    bool is_whole() const { return bytes == object_bytes; }
};

}  // namespace hocket::cache
