// Compares the reader of packed files' indices, on arbitrary bytes, with a second, simple reader. Entry of
// libFuzzer (clang++ -fsanitize=fuzzer,address with runtime/cache/source/packed_index.cpp); the unit tests
// call it with seeded bytes.
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>

#include "runtime/base/error.hpp"
#include "runtime/cache/source/packed_index.hpp"

using namespace hocket;
using namespace hocket::cache;

int accepted_indices = 0, refused_indices = 0, parsed_parts = 0;

namespace {

constexpr std::uint64_t data_bytes = 1000;

void require(bool holds) {
    if (!holds) std::abort();
}

std::optional<std::uint64_t> simple_number(const std::string& word) {
    if (word.empty() || word.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    errno = 0;
    const std::uint64_t value = std::strtoull(word.c_str(), nullptr, 10);
    if (errno != 0) return std::nullopt;
    return value;
}

// The words of a line, up to a comment.
std::vector<std::string> simple_words(const std::string& line) {
    std::vector<std::string> words(1);
    for (const char c : line) {
        if (c == '#') break;
        const bool is_blank = c == ' ' || c == '\t' || c == '\r';
        if (!is_blank) words.back() += c;
        if (is_blank && !words.back().empty()) words.emplace_back();
    }
    if (words.back().empty()) words.pop_back();
    return words;
}

// The parts, and the number of the first wrong line: 0 if none is.
std::size_t simple_parse(const std::string& text, std::vector<Part>& parts) {
    std::istringstream stream(text);
    std::string line;
    for (std::size_t number = 1; std::getline(stream, line); ++number) {
        const auto words = simple_words(line);
        if (words.empty()) continue;
        const auto offset = simple_number(words[0]), bytes = simple_number(words.size() > 1 ? words[1] : "");
        if (!offset || !bytes || *offset > data_bytes || *bytes > data_bytes - *offset) return number;
        parts.push_back({*offset, *bytes});
    }
    return 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::vector<Part> right;
    const std::size_t wrong_line = simple_parse({reinterpret_cast<const char*>(data), size}, right);
    const auto exact = std::make_unique<char[]>(size);  // no byte behind it, so that reading one is noticed
    std::copy(data, data + size, exact.get());
    try {
        const auto parts = parse_index({exact.get(), size}, data_bytes, "x.idx");
        require(wrong_line == 0 && parts.size() == right.size());
        for (std::size_t i = 0; i < parts.size(); ++i)
            require(parts[i].offset == right[i].offset && parts[i].bytes == right[i].bytes);
        ++accepted_indices;
        parsed_parts += static_cast<int>(parts.size());
    } catch (const Error& error) {
        require(error.status() == Status::invalid_argument);
        const std::string text = error.what(), place = "x.idx:" + std::to_string(wrong_line) + ": ";
        require(wrong_line > 0 && text.compare(0, place.size(), place) == 0);
        for (const char c : text) require(c >= ' ' && c <= '~');
        ++refused_indices;
    }
    return 0;
}
