// Code of kernels for devices, kept in a folder from one process to the next. Many processes may share it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/compute/jit/interface/device_plan.hpp"

namespace hocket::jit {

// Thread-safe; nothing throws, because whatever cannot be read or written is compiled again.
class CodeCache {
  public:
    // folder: made when something is kept; "": nothing is. most_bytes: of all files together; those that were
    // used last stay.
    explicit CodeCache(std::string folder, std::uint64_t most_bytes = 64 << 20)
        : folder_(std::move(folder)), most_bytes_(most_bytes) {}

    // key: everything on which the code depends, as text.
    std::optional<std::string> find(const std::string& key) const noexcept;
    void keep(const std::string& key, const std::string& code) const noexcept;

  private:
    std::string file_of(const std::string& key) const;
    void make_room() const;

    const std::string folder_;
    const std::uint64_t most_bytes_;
};

// LLVM's version when Hocket was built, and the digest of the sources that make kernels with it. Meson
// generates it.
extern const char* const generator_identity;

// Returns the key of a kernel's code: its shape without numbers, the versions of Hocket and of the interface
// to its compiler, and generator_identity.
std::string key_of(const DeviceShape& shape);

}  // namespace hocket::jit
