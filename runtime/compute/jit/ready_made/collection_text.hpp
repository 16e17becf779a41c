// Makes the file of a CodeCollection.
#pragma once

#include <map>
#include <string>

namespace hocket::jit {

// codes: by key; each ends with a line's end. Returns what the file is to contain.
std::string collection_text(const std::map<std::string, std::string>& codes);

}  // namespace hocket::jit
