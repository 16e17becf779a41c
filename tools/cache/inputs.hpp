// What hocket-cache index reads: files, or objects below a URL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hocket::cache_tool {

// A file or an object. One thread uses it at a time, and several threads use different ones.
class Input {
  public:
    virtual ~Input() = default;

    virtual std::uint64_t bytes() const = 0;
    // At most as much is read at once.
    virtual std::uint64_t piece_bytes() const = 0;
    // Throws std::exception with its name, also if it is not what it was when the inputs were opened.
    virtual void read(std::uint64_t offset, std::span<std::byte> to) const = 0;

    std::string name;  // relative to Inputs::base
};

struct Inputs {
    std::string base;  // the folder or URL, with '/' at its end, below which all of them lie
    std::vector<std::unique_ptr<Input>> all;
    unsigned at_once = 1;  // so many are read, by threads that wait for storage
};

// sources: paths of files and folders; or URLs, where those of S3 that end with '/' stand for all objects
// below them. Throws std::exception for what cannot be found, and if there are both paths and URLs, or
// different hosts.
Inputs open_inputs(const std::vector<std::string>& sources);

}  // namespace hocket::cache_tool
