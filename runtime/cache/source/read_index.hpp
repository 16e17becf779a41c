// Opens and reads files that describe a source.
#pragma once

#include <string>

#include "runtime/cache/segments/descriptor.hpp"

namespace hocket::cache {

// what: in words, for errors. Both throw Error(io | not_found) with the path.
Descriptor open_source_file(const char* what, const std::string& path);
std::string read_index(const std::string& path);  // all of it

}  // namespace hocket::cache
