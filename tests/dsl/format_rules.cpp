#include "tests/dsl/format_rules.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "dsl/syntax/format.hpp"
#include "dsl/syntax/parse.hpp"

namespace hocket::test {
namespace {

// The program as a tree, without places: "  12:5   for ..." is printed for a statement.
std::string program_of(const dsl::SourceFile& file) {
    constexpr std::size_t least_digits = 3;  // of a column; the indentation stands behind them
    std::istringstream lines(print(dsl::parse(file)));
    std::string program;
    for (std::string line; std::getline(lines, line);) {
        const std::size_t column = line.find(':') + 1;
        const std::size_t digits = line.find_first_not_of("0123456789", column) - column;
        program += line.substr(column + std::max(digits, least_digits)) + "\n";
    }
    return program;
}

// Read apart from the formatter's tokens: a '#' begins a comment unless it is in quotes.
std::vector<std::string> comments_of(const std::string& text) {
    std::istringstream lines(text);
    std::vector<std::string> comments;
    for (std::string line; std::getline(lines, line);) {
        std::size_t begin = 0;
        for (bool is_quoted = false; begin < line.size() && (is_quoted || line[begin] != '#'); ++begin)
            is_quoted ^= line[begin] == '"';
        if (begin == line.size()) continue;
        line.erase(line.find_last_not_of(" \t\r\v\f") + 1);
        comments.push_back(line.substr(begin));
    }
    return comments;
}

}  // namespace

std::string format_fault(const dsl::SourceFile& file) {
    const dsl::SourceFile after{file.path, dsl::formatted(file)};
    if (program_of(after) != program_of(file)) return "another program:\n" + after.text;
    if (comments_of(after.text) != comments_of(file.text)) return "other comments:\n" + after.text;
    if (const std::string twice = dsl::formatted(after); twice != after.text)
        return "not final:\n" + after.text + "then\n" + twice;
    if (after.text.find("\n\n\n") != after.text.npos) return "blank lines:\n" + after.text;
    if (after.text.find(" \n") != after.text.npos) return "white space before a line's end:\n" + after.text;
    return "";
}

}  // namespace hocket::test
