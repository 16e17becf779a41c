// Places in a text as editors count them: lines, and units of UTF-16 in a line, both from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::tools::lsp {

struct EditorPosition {
    std::size_t line = 0, character = 0;
    friend bool operator==(const EditorPosition&, const EditorPosition&) = default;
};

// Units of UTF-16 in a text; bytes that are not UTF-8 count 1 each.
std::size_t units_of(std::string_view text);

// The beginnings of a text's lines. A line ends with "\n", "\r\n" or "\r".
class LineIndex {
  public:
    explicit LineIndex(std::string_view text);

    // Beyond the text, its end; inside a character, the character's beginning.
    std::size_t offset_of(std::string_view text, EditorPosition position) const;
    EditorPosition position_of(std::string_view text, std::size_t offset) const;
    std::size_t lines() const { return begins_.size(); }

  private:
    std::vector<std::size_t> begins_;
};

// "file:///a%20b.sched" and "/a b.sched". A URI of another kind has no path: "".
std::string path_of(std::string_view uri);
std::string uri_of(std::string_view path);

}  // namespace hocket::tools::lsp
