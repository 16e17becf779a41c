// Messages of the language server protocol in a stream of bytes: headers, an empty line, the content.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hocket::tools::lsp {

// The stream cannot be read on: nothing says where the next message begins.
class FramingError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

constexpr std::size_t longest_header = 4096;
constexpr std::size_t longest_content = std::size_t{16} << 20;  // a file has at most 1 MiB

// Takes bytes in any pieces. Keeps no more than one header, or one content, and what was fed last.
class MessageReader {
  public:
    void feed(std::string_view bytes) { buffer_ += bytes; }

    // Returns the content of the next message once all of it is there. Throws FramingError for a header that
    // is too long or that does not say a length, and for contents that are too long.
    std::optional<std::string> next();

  private:
    void read_header();

    std::string buffer_;
    std::optional<std::size_t> length_;  // of the content, once its header is read
};

// Returns the content as a message.
std::string framed(std::string_view content);

}  // namespace hocket::tools::lsp
