#include "tests/differential/mutations.hpp"

#include <cctype>
#include <string>
#include <vector>

namespace hocket::differential {
namespace {

struct Word {
    std::size_t begin, length;
};

bool is_word(char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_';
}

// Numbers, or names that are no words of the language.
std::vector<Word> words(const std::string& text, bool numbers) {
    static const std::set<std::string> language{
        "algorithm",  "schedule",  "for",      "each",       "in",
        "where",      "over",      "using",    "from",       "to",
        "let",        "parallel",  "and",      "or",         "not",
        "xor",        "mod",       "of",       "all_reduce", "reduce_scatter",
        "all_gather", "broadcast", "reduce",   "gather",     "scatter",
        "all_to_all", "part",      "block",    "levels",     "world",
        "size",       "count",     "reversed", "ranks",      "min",
        "max",        "log2",      "log2_up",  "pow2"};
    std::vector<Word> found;
    for (std::size_t i = 0; i < text.size();) {
        if (!is_word(text[i])) {
            ++i;
            continue;
        }
        std::size_t end = i;
        while (end < text.size() && is_word(text[end])) ++end;
        const bool is_number = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
        if (is_number == numbers && (numbers || !language.count(text.substr(i, end - i))))
            found.push_back({i, end - i});
        i = end;
    }
    return found;
}

void replace(std::string& text, Word word, const std::string& by) {
    text.replace(word.begin, word.length, by);
}

bool change_number(std::string& text, Random& random) {
    const auto numbers = words(text, true);
    if (numbers.empty()) return false;
    const Word word = random.pick(numbers);
    const std::int64_t value = std::stoll(text.substr(word.begin, word.length));
    const std::int64_t change = random.pick<std::int64_t>({1, 1, 2, -1, -2});
    replace(text, word, std::to_string(value + change < 0 ? value + 1 : value + change));
    return true;
}

// Another name, an argument's order, another algorithm: any name that stands near.
bool change_name(std::string& text, const std::string& near, Random& random) {
    const auto names = words(text, false);
    const auto others = words(near, false);
    if (names.empty() || others.empty()) return false;
    const Word other = random.pick(others);
    const std::string by = near.substr(other.begin, other.length);
    const Word word = random.pick(names);
    if (text.substr(word.begin, word.length) == by) return false;
    replace(text, word, by);
    return true;
}

bool change_word(std::string& text, Random& random) {
    static const std::vector<std::pair<std::string, std::string>> pairs{{"+>", "->"},
                                                                        {"->", "+>"},
                                                                        {"..<", ">.."},
                                                                        {">..", "..<"},
                                                                        {" + ", " - "},
                                                                        {" - ", " + "},
                                                                        {"!=", "=="},
                                                                        {"==", "!="},
                                                                        {" and ", " or "},
                                                                        {"l0", "l1"},
                                                                        {"l1", "l0"},
                                                                        {"world", "l0"},
                                                                        {"for ", "parallel "},
                                                                        {"parallel ", "for "},
                                                                        {" xor ", " + "},
                                                                        {"levels", "levels.reversed"},
                                                                        {"mod", "/"},
                                                                        {" from ", " to "},
                                                                        {" to ", " from "},
                                                                        {"reduce ", "all_reduce "},
                                                                        {"gather ", "all_gather "},
                                                                        {"scatter ", "broadcast "},
                                                                        {"reduce_scatter", "all_reduce"},
                                                                        {"all_gather", "reduce_scatter"},
                                                                        {"all_gather", "all_to_all"},
                                                                        {"all_to_all", "all_gather"}};
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (std::size_t i = 0; i < pairs.size(); ++i)
        for (std::size_t at = text.find(pairs[i].first); at != std::string::npos;
             at = text.find(pairs[i].first, at + 1))
            places.emplace_back(at, i);
    if (places.empty()) return false;
    const auto [at, pair] = random.pick(places);
    text.replace(at, pairs[pair].first.size(), pairs[pair].second);
    return true;
}

// R : a -> b  as  R : a -> R' : b, with another number in R'; or the other way round.
bool change_target(std::string& text, Random& random) {
    const std::size_t arrow = std::max(text.rfind("-> ") + 1, text.rfind("+> ") + 1);
    if (arrow == 0) return false;
    const std::size_t after = arrow + 2, colon = text.rfind(" : ", arrow), target = text.find(" : ", after);
    if (target != std::string::npos) {
        text.erase(after, target + 3 - after);
        return true;
    }
    if (colon == std::string::npos) return false;
    std::size_t begin = colon;
    for (int open = 0; begin > 0; --begin) {
        const char letter = text[begin - 1];
        open += letter == ']' ? 1 : letter == '[' ? -1 : 0;
        if (open == 0 && letter != '[' && !is_word(letter)) break;
    }
    std::string region = text.substr(begin, colon - begin);
    if (random.chance(85)) change_number(region, random);
    text.insert(after, region + " : ");
    return true;
}

bool change(Program& program, Random& random) {
    const std::size_t first = program.topology_is_defined ? 1 : 0;
    if (program.definitions.size() <= first) return false;
    Statement& definition = program.definitions[static_cast<std::size_t>(random.between(
        static_cast<std::int64_t>(first), static_cast<std::int64_t>(program.definitions.size()) - 1))];
    std::vector<Statements*> lists;
    for (Statements* list : lists_of(definition.body))
        if (!list->empty()) lists.push_back(list);
    if (lists.empty()) return false;
    Statements& list = *random.pick(lists);
    const auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(list.size())));
    switch (random.below(10)) {
        case 0:
            list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
            return true;
        case 1: {
            Statement copy = list[at];
            list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), std::move(copy));
            return true;
        }
        case 2:
            if (list.size() < 2) return false;
            std::swap(list[at], list[(at + 1) % list.size()]);
            return true;
        case 3:
        case 4:
            return change_number(list[at].text, random);
        case 5:
            return change_name(list[at].text, random.pick(list).text, random);
        case 6:
            return change_target(list[at].text, random);
        default:
            return change_word(list[at].text, random);
    }
}

}  // namespace

void mutate(Program& program, Random& random) {
    const std::int64_t wanted = random.pick<std::int64_t>({1, 1, 1, 2, 3});
    for (int tries = 0; program.mutations < wanted && tries < 30; ++tries)
        if (change(program, random)) ++program.mutations;
}

}  // namespace hocket::differential
