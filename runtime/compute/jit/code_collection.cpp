#include "runtime/compute/jit/code_collection.hpp"

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "dsl/base/named_file.hpp"
#include "runtime/base/installed.hpp"
#include "runtime/compute/jit/digest.hpp"

namespace hocket::jit {
namespace {

// Takes what is before the first mark, and the mark.
std::string_view take(std::string_view& text, char mark) {
    const std::size_t end = text.find(mark);
    const std::string_view taken = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return taken;
}

std::size_t number_of(std::string_view digits) {
    std::size_t number = 0;
    const char* const end = digits.data() + digits.size();
    if (std::from_chars(digits.data(), end, number).ptr != end || digits.empty())
        throw std::runtime_error("no number");
    return number;
}

// Returns where each line begins, and the end of the last.
std::vector<std::size_t> begins_of_lines(std::string_view lines) {
    std::vector<std::size_t> begins = {0};
    for (std::size_t end = lines.find('\n'); end != std::string_view::npos; end = lines.find('\n', end + 1))
        begins.push_back(end + 1);
    return begins;
}

// stretches: "BEGIN+COUNT BEGIN+COUNT".
std::string joined(std::string_view stretches, std::string_view lines) {
    const std::vector<std::size_t> begins = begins_of_lines(lines);
    std::string code;
    while (!stretches.empty()) {
        std::string_view count = take(stretches, ' ');
        const std::size_t first = number_of(take(count, '+')), begin = begins.at(first);
        code += lines.substr(begin, begins.at(first + number_of(count)) - begin);
    }
    return code;
}

}  // namespace

CodeCollection CodeCollection::of_hocket() {
    std::error_code ignored;
    for (const PluginPlace& place : plugin_places(file_name))
        // The loader's path has libraries alone.
        if (place.path != file_name && std::filesystem::exists(place.path, ignored))
            return CodeCollection(place.path);
    return CodeCollection("");
}

std::optional<std::string> CodeCollection::find(const std::string& key) const noexcept try {
    if (path_.empty()) return std::nullopt;
    const std::string file = read_text(path_);
    std::string_view rest = file;
    if (const std::string_view digest = take(rest, '\n'); digest != digest_of(rest)) return std::nullopt;
    const std::string wanted = digest_of(key);
    std::optional<std::string_view> stretches;
    for (std::size_t codes = number_of(take(rest, '\n')); codes > 0 && !rest.empty(); --codes) {
        std::string_view line = take(rest, '\n');
        if (take(line, ' ') == wanted) stretches = line;
    }
    if (!stretches) return std::nullopt;
    return joined(*stretches, rest);
} catch (...) {  // it is not there, or no collection
    return std::nullopt;
}

}  // namespace hocket::jit
