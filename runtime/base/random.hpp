// Unpredictable random numbers from the system.
#pragma once

#include <cstddef>
#include <string>

namespace hocket {

// bytes: at most 256. Throws Error(bootstrap) if the system has no source. Thread-safe.
std::string random_bytes(std::size_t bytes);

// The same as text: two hexadecimal digits per byte.
std::string random_hex(std::size_t bytes);

}  // namespace hocket
