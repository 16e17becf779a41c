#include "runtime/cache/segments/label.hpp"

#include "dsl/base/readable.hpp"

namespace hocket::cache {

std::string fit_label(std::string_view text) {
    std::string label = dsl::readable(text, "");
    if (label.size() <= most_label_bytes) return label;
    std::size_t end = most_label_bytes;
    const auto is_inside_character = [&](char byte) { return (byte & 0xc0) == 0x80; };
    while (end > 0 && is_inside_character(label[end])) --end;
    label.resize(end);
    return label;
}

}  // namespace hocket::cache
