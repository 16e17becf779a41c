#include "runtime/compute/jit/ready_made/collection_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "runtime/compute/jit/digest.hpp"

namespace hocket::jit {
namespace {

using Line = std::uint32_t;  // the number of its text

// The lines of all codes. A stretch of a code that is there already is not added once more.
class Store {
  public:
    // Returns the stretches of the code: " BEGIN+COUNT BEGIN+COUNT".
    std::string add(const std::string& code) {
        const std::vector<Line> lines = lines_of(code);
        stretches_.clear();
        for (std::size_t at = 0; at < lines.size();) {
            const Stretch found = longest(lines, at);
            if (found.count == 0) append(lines[at]);
            const Stretch taken = found.count == 0 ? Stretch{lines_.size() - 1, 1} : found;
            at += taken.count;
            if (!stretches_.empty() && stretches_.back().begin + stretches_.back().count == taken.begin)
                stretches_.back().count += taken.count;
            else
                stretches_.push_back(taken);
        }
        std::string text;
        for (const Stretch& stretch : stretches_) text += fmt::format(" {}+{}", stretch.begin, stretch.count);
        return text;
    }

    std::string text() const {
        std::vector<const std::string*> texts(numbers_.size());
        for (const auto& [text, number] : numbers_) texts[number] = &text;
        std::string all;
        for (const Line line : lines_) all += *texts[line];
        return all;
    }

  private:
    struct Stretch {
        std::size_t begin, count;
    };
    // A stretch of fewer lines would cost more to name than it saves.
    static constexpr std::size_t least = 3;
    using Head = std::array<Line, least>;

    std::vector<Line> lines_of(const std::string& code) {
        std::vector<Line> lines;
        for (std::size_t begin = 0; begin < code.size();) {
            const std::size_t end = code.find('\n', begin);
            if (end == std::string::npos)
                throw std::invalid_argument("a code does not end with a line's end");
            const auto number = static_cast<Line>(numbers_.size());
            lines.push_back(numbers_.try_emplace(code.substr(begin, end + 1 - begin), number).first->second);
            begin = end + 1;
        }
        return lines;
    }

    static Head head_of(const std::vector<Line>& lines, std::size_t at) {
        Head head;
        std::copy_n(lines.begin() + static_cast<std::ptrdiff_t>(at), least, head.begin());
        return head;
    }

    // Returns the longest stretch of the store that the lines go on with; none if it is short.
    Stretch longest(const std::vector<Line>& lines, std::size_t at) const {
        Stretch best{0, 0};
        if (at + least > lines.size()) return best;
        const auto places = places_.find(head_of(lines, at));
        if (places == places_.end()) return best;
        for (const std::size_t place : places->second) {
            std::size_t count = least;
            while (at + count < lines.size() && place + count < lines_.size() &&
                   lines[at + count] == lines_[place + count])
                ++count;
            if (count > best.count) best = {place, count};
        }
        return best;
    }

    void append(Line line) {
        lines_.push_back(line);
        if (lines_.size() < least) return;
        const std::size_t first = lines_.size() - least;
        std::vector<std::size_t>& places = places_[head_of(lines_, first)];
        if (places.size() < most_places) places.push_back(first);
    }

    static constexpr std::size_t most_places = 100;  // bounds the time

    std::map<std::string, Line> numbers_;  // of different lines
    std::vector<Line> lines_;
    std::map<Head, std::vector<std::size_t>> places_;
    std::vector<Stretch> stretches_;  // of the code that is added
};

}  // namespace

std::string collection_text(const std::map<std::string, std::string>& codes) {
    Store store;
    std::string rest = fmt::format("{}\n", codes.size());
    for (const auto& [key, code] : codes) rest += digest_of(key) + store.add(code) + "\n";
    rest += store.text();
    return digest_of(rest) + "\n" + rest;
}

}  // namespace hocket::jit
