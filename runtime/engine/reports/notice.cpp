#include "runtime/engine/reports/notice.hpp"

#include <fmt/format.h>

#include <charconv>

namespace hocket::engine {
namespace {

constexpr std::size_t longest_operation = 512;

std::string line_of(const std::string& text) {
    std::string line = text.substr(0, longest_operation);
    for (char& c : line)
        if (c == '\n') c = ' ';
    return line;
}

std::string_view take_line(std::string_view& rest) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return line;
}

template <typename Number>
bool read(std::string_view line, Number& number) {
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    return error == std::errc() && end == line.data() + line.size();
}

}  // namespace

std::string encode(const Notice& notice) {
    return fmt::format("{}\n{}\n{}\n{}\n{}", static_cast<int>(notice.status), notice.number,
                       line_of(notice.operation), line_of(notice.details), notice.text);
}

Notice decode_notice(std::string_view encoded) {
    std::string_view rest = encoded;
    Notice notice;
    int status = 0;
    const bool readable = read(take_line(rest), status) && read(take_line(rest), notice.number);
    if (!readable || status > static_cast<int>(Status::invalid_argument) || status < lowest_status)
        return {Status::internal, -1, "", "", fmt::format("a failure that cannot be read: {}", encoded)};
    notice.status = static_cast<Status>(status);
    notice.operation = take_line(rest);
    notice.details = take_line(rest);
    notice.text = rest;
    return notice;
}

}  // namespace hocket::engine
