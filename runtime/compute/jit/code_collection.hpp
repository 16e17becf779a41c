// Code of kernels for devices that came with Hocket, compiled when it was built: one file, which is only
// read.
//
// Codes share most of their lines, so the file has each stretch of lines once:
//
//     DIGEST                     of all that follows
//     CODES                      their number
//     DIGEST BEGIN+COUNT ...     a line for each code: the digest of its key, and the stretches that it is
//     made of
//     ...                        the lines
#pragma once

#include <optional>
#include <string>

namespace hocket::jit {

// Thread-safe.
class CodeCollection {
  public:
    static constexpr const char* file_name = "hocket_kernels.txt";

    // path: of the file, which need not exist; "": there is none.
    explicit CodeCollection(std::string path) : path_(std::move(path)) {}
    // Returns the one that lies where Hocket's own libraries do (plugin_places()). A build without LLVM has
    // none.
    static CodeCollection of_hocket();

    const std::string& path() const { return path_; }
    // key: as in CodeCache. Nothing throws: a code that cannot be read is compiled.
    std::optional<std::string> find(const std::string& key) const noexcept;

  private:
    const std::string path_;
};

}  // namespace hocket::jit
