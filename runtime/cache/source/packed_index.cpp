#include "runtime/cache/source/packed_index.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/whole_number.hpp"

namespace hocket::cache {
namespace {

constexpr std::string_view blanks = " \t\r";

// Takes the first word off the line; "" if there is none.
std::string_view take_word(std::string_view& line) {
    line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(blanks));
    line.remove_prefix(word.size());
    return word;
}

// Returns the line in a form that is safe for an error text, whatever it contains.
std::string quote(std::string_view line) {
    std::string text(line.substr(0, 40));
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
    return fmt::format("\"{}\"{}", text, line.size() > 40 ? "..." : "");
}

}  // namespace

std::vector<Part> parse_index(std::string_view text, std::uint64_t data_bytes, const std::string& path) {
    std::vector<Part> parts;
    for (std::size_t number_of_line = 1; !text.empty(); ++number_of_line) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view whole = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));

        std::string_view rest = whole.substr(0, whole.find('#'));
        const std::string_view first = take_word(rest);
        if (first.empty()) continue;
        const auto refuse = [&](const std::string& why) {
            return Error(Status::invalid_argument, fmt::format("{}:{}: {}", path, number_of_line, why));
        };
        const auto offset = whole_number(first), bytes = whole_number(take_word(rest));
        if (!offset || !bytes)
            throw refuse(
                fmt::format("expected \"OFFSET BYTES\" in decimal, found {}; is it the index of a "
                            "packed file?",
                            quote(whole)));
        if (*offset > data_bytes || *bytes > data_bytes - *offset)
            throw refuse(
                fmt::format("{} bytes at offset {} do not lie inside the packed file of {} bytes; "
                            "make the index of this file anew",
                            *bytes, *offset, data_bytes));
        parts.push_back({*offset, *bytes});
    }
    return parts;
}

}  // namespace hocket::cache
