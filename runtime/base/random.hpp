// Random numbers that nobody can guess, from the system.
#pragma once

#include <cstddef>
#include <string>

namespace hocket {

// At most 256 bytes. Throws Error(bootstrap) if the system has none. Thread-safe.
std::string random_bytes(std::size_t bytes);

// The same as text: two letters of 0-9a-f for each byte.
std::string random_hex(std::size_t bytes);

}  // namespace hocket
