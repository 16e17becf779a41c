#include "dsl/base/source.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::dsl {

std::shared_ptr<const SourceFile> keep_source(Span& span) {
    if (!span.file) return nullptr;
    auto copy = std::make_shared<const SourceFile>(*span.file);
    span.file = copy.get();
    return copy;
}

Position position_of(const SourceFile& file, std::uint32_t offset) {
    const std::string_view before = std::string_view(file.text).substr(0, offset);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const auto line_start = before.rfind('\n') + 1;  // npos + 1 == 0
    return {static_cast<int>(line), static_cast<int>(before.size() - line_start) + 1};
}

std::string_view line_of(const SourceFile& file, std::uint32_t offset) {
    const std::string_view text = file.text;
    const auto start = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;
    return text.substr(start, std::min(text.find('\n', offset), text.size()) - start);
}

std::string location_of(Span span) {
    if (!span.file) return "?";
    return fmt::format("{}:{}", span.file->path, position_of(*span.file, span.begin).line);
}

std::string folded_text(Span span) {
    std::string result;
    bool gap = false;
    for (const char c : span.text()) {
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            gap = !result.empty();
            continue;
        }
        if (gap) result += ' ';
        gap = false;
        result += c;
    }
    return result;
}

}  // namespace hocket::dsl
