#include "tools/schedc/layout_diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace hocket::tools {
namespace {

constexpr std::size_t context = 3;  // lines around a change

// A text's lines, with their line breaks, and the characters before each that are no white space.
class Lines {
  public:
    explicit Lines(std::string_view text) : rest_(text) {}

    bool ended() const { return rest_.empty(); }
    std::size_t passed() const { return passed_; }
    std::string_view line() const {
        return rest_.substr(0, std::min(rest_.find('\n'), rest_.size() - 1) + 1);
    }
    std::string_view take() {
        const std::string_view taken = line();
        rest_.remove_prefix(taken.size());
        passed_ += static_cast<std::size_t>(
            std::count_if(taken.begin(), taken.end(), [](unsigned char c) { return !std::isspace(c); }));
        return taken;
    }

  private:
    std::string_view rest_;
    std::size_t passed_ = 0;
};

struct Edit {
    char kind;  // ' ', '-' or '+'
    std::string_view line;
};

std::vector<Edit> edits_of(std::string_view before, std::string_view after) {
    std::vector<Edit> edits;
    Lines old_lines(before), new_lines(after);
    while (!old_lines.ended() || !new_lines.ended()) {
        const bool both = !old_lines.ended() && !new_lines.ended();
        if (both && old_lines.passed() == new_lines.passed() && old_lines.line() == new_lines.line()) {
            edits.push_back({' ', old_lines.take()});
            new_lines.take();
        } else if (new_lines.ended() || (both && old_lines.passed() <= new_lines.passed())) {
            edits.push_back({'-', old_lines.take()});
        } else {
            edits.push_back({'+', new_lines.take()});
        }
    }
    // Of lines that change together, the old ones stand first.
    for (auto first = edits.begin(); first != edits.end();) {
        const auto is_context = [](const Edit& edit) { return edit.kind == ' '; };
        first = std::find_if_not(first, edits.end(), is_context);
        const auto last = std::find_if(first, edits.end(), is_context);
        std::stable_partition(first, last, [](const Edit& edit) { return edit.kind == '-'; });
        first = last;
    }
    return edits;
}

std::string range_of(std::size_t first, std::size_t count) {
    return fmt::format("{},{}", count == 0 ? first : first + 1, count);
}

// old_line, new_line: the lines before the hunk.
std::string hunk(const std::vector<Edit>& edits, std::size_t first, std::size_t last, std::size_t old_line,
                 std::size_t new_line) {
    std::string body;
    std::size_t old_count = 0, new_count = 0;
    for (std::size_t i = first; i < last; ++i) {
        const auto& [kind, line] = edits[i];
        old_count += kind != '+';
        new_count += kind != '-';
        body += fmt::format("{}{}", kind, line);
        if (!line.ends_with('\n')) body += "\n\\ No newline at end of file\n";
    }
    return fmt::format("@@ -{} +{} @@\n{}", range_of(old_line, old_count), range_of(new_line, new_count),
                       body);
}

}  // namespace

std::string layout_diff(const std::string& path, const std::string& before, const std::string& after) {
    const std::vector<Edit> edits = edits_of(before, after);
    std::string text;
    std::size_t old_line = 0, new_line = 0, at = 0;
    const auto pass_to = [&](std::size_t end) {
        for (; at < end; ++at) {
            old_line += edits[at].kind != '+';
            new_line += edits[at].kind != '-';
        }
    };
    for (std::size_t i = 0; i < edits.size(); ++i) {
        if (edits[i].kind == ' ') continue;
        // A hunk ends where more lines than two contexts are alike.
        std::size_t last = i;
        for (std::size_t j = i; j < edits.size() && j <= last + 2 * context; ++j)
            if (edits[j].kind != ' ') last = j;
        const std::size_t first = i - std::min(context, i - at);
        const std::size_t end = std::min(last + context + 1, edits.size());
        pass_to(first);
        text += hunk(edits, first, end, old_line, new_line);
        pass_to(end);
        i = end - 1;
    }
    return text.empty() ? "" : fmt::format("--- {}\n+++ {}\n{}", path, path, text);
}

}  // namespace hocket::tools
