// The text form of networks.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/named_file.hpp"
#include "dsl/base/quantities.hpp"
#include "dsl/base/readable.hpp"
#include "dsl/prediction/network.hpp"

namespace hocket::dsl {
namespace {

constexpr const char* kinds = "switch, switch/4, ring, torus(4,8), mesh, fattree(16) or fattree(16)/4";
constexpr std::size_t longest_network_text = std::size_t{1} << 26;

struct Word {
    std::string text;
    Span span;
};
using Statement = std::vector<Word>;

// Calls call(statement) for each statement, divided into words. Blanks inside parentheses don't count.
template <typename Call>
void for_statements(const SourceFile& file, Call call) {
    Statement statement;
    const std::string& text = file.text;
    Word word;
    int depth = 0;
    const auto end_word = [&](std::size_t at) {
        word.span.end = static_cast<std::uint32_t>(at);
        if (!word.text.empty()) statement.push_back(word);
        word.text.clear();
    };
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (i < text.size() && text[i] == '#') {
            end_word(i);
            i = std::min(text.find('\n', i), text.size());
        }
        const char c = i < text.size() ? text[i] : '\n';
        if (c == '\n' || c == ';') {
            end_word(i);
            depth = 0;
            if (!statement.empty()) call(std::as_const(statement));
            statement.clear();
        } else if (c == ' ' || c == '\t' || c == '\r') {
            if (depth == 0) end_word(i);
        } else {
            depth += c == '(' ? 1 : c == ')' && depth > 0 ? -1 : 0;
            if (word.text.empty()) word.span = {&file, static_cast<std::uint32_t>(i), 0};
            word.text += c;
        }
    }
}

// Reads a number at the beginning of `text`, and removes it.
std::optional<double> take_number(std::string_view& text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

[[noreturn]] void fail(const Word& word, const std::string& what, const std::string& hint) {
    throw DiagnosticError(word.span, fmt::format("{}: '{}'", what, readable(word.text)), hint);
}

// Returns the place of some characters of a word, which may have blanks inside parentheses before them.
Span part_of(const Word& word, std::size_t begin, std::size_t end) {
    return {word.span.file, word.span.end - static_cast<std::uint32_t>(word.text.size() - begin),
            word.span.end - static_cast<std::uint32_t>(word.text.size() - end)};
}

std::int64_t integer_in(std::string_view text, const Word& word, std::string_view example = kinds) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0)
        fail(word, "this is, or has, no whole number", fmt::format("for example: {}", example));
    return number;
}

// "torus(4, 8)" -> {4, 8}. Takes the arguments off the text.
std::vector<std::int64_t> take_arguments(std::string_view& text, const Word& word) {
    std::vector<std::int64_t> arguments;
    const std::size_t open = text.find('('), close = text.find(')');
    if (open == std::string_view::npos) return arguments;
    if (close == std::string_view::npos || close < open || close + 1 != text.size())
        fail(word, "the parentheses don't match", fmt::format("for example: {}", kinds));
    std::string_view inner = text.substr(open + 1, close - open - 1);
    text = text.substr(0, open);
    for (bool more = true; more;) {
        const std::size_t comma = inner.find(',');
        more = comma != std::string_view::npos;
        std::string_view part = inner.substr(0, comma);
        while (!part.empty() && (part.front() == ' ' || part.front() == '\t')) part.remove_prefix(1);
        while (!part.empty() && (part.back() == ' ' || part.back() == '\t')) part.remove_suffix(1);
        arguments.push_back(integer_in(part, word));
        if (more) inner.remove_prefix(comma + 1);
    }
    return arguments;
}

// KIND[/FACTOR][@RATE[,LATENCY]]
FabricSpec fabric_in(const Word& word) {
    FabricSpec spec;
    spec.text = readable(word.text);
    std::string_view text = word.text;
    if (const std::size_t at = text.find('@'); at != std::string_view::npos) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        spec.rate = quantity_at(part_of(word, at + 1, comma), parse_rate);
        if (comma < text.size())
            spec.latency = quantity_at(part_of(word, comma + 1, text.size()), parse_time);
        text = text.substr(0, at);
    }
    if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
        std::string_view factor = text.substr(slash + 1);
        const std::optional<double> number = take_number(factor);
        if (!number || !factor.empty() || *number < 1 || *number > 1e6)
            fail(word, "this factor is not a number from 1 on",
                 "switch/4 carries a quarter of its links' sum");
        spec.oversubscription = *number;
        text = text.substr(0, slash);
    }
    spec.sizes = take_arguments(text, word);
    using Kind = FabricSpec::Kind;
    const bool one = spec.sizes.size() == 1;
    if (text == "fattree" && one)
        spec.kind = Kind::fat_tree, spec.ports = spec.sizes[0];
    else if (text == "torus" && !spec.sizes.empty())
        spec.kind = Kind::torus;
    else if (text == "ring" && spec.sizes.empty())
        spec.kind = Kind::ring;
    else if (text == "mesh" && spec.sizes.empty())
        spec.kind = Kind::mesh;
    else if (text != "switch" || !spec.sizes.empty())
        fail(word, "there is no such kind of network", fmt::format("there are: {}", kinds));
    const bool can_block = spec.kind == Kind::crossbar || spec.kind == Kind::fat_tree;
    if (spec.oversubscription > 1 && !can_block)
        fail(word, "only a switch and a fat-tree take a factor", "switch/4, fattree(16)/4");
    return spec;
}

class Reader {
  public:
    Reader(const Topology& topology, NetworkSpec& spec) : topology_(topology), spec_(spec) {}

    void read(const Statement& statement) {
        const std::string& first = statement[0].text;
        if (first == "link")
            link(statement);
        else if (first == "level")
            level(statement);
        else if (first == "end")
            end(statement);
        else if (first == "routing" || first == "order" || first == "latency")
            rule(statement);
        else if (statement.size() == 1)
            whole(statement[0]);
        else
            fail(
                statement[0], "this is no statement of a network",
                "there are: link, level, end, routing, order, latency, or a kind such as fattree(16)@10Gb/s");
        if (!spec_.graph.empty() + !spec_.whole.empty() + has_levels_ > 1)
            fail(statement[0], "this is a second network",
                 "a text has links, or levels, or one kind for all ranks");
    }

  private:
    void link(const Statement& words) {
        constexpr const char* form = "link a b 10Gb/s [5us] [both | one way]";
        if (words.size() < 4) fail(words[0], "this link is not complete", form);
        GraphLink link{readable(words[1].text), readable(words[2].text),
                       quantity_at(words[3].span, parse_rate), 0};
        std::size_t next = 4;
        const auto is = [&](std::size_t i, const char* text) {
            return i < words.size() && words[i].text == text;
        };
        if (next < words.size() && !is(next, "both") && !is(next, "one")) {
            link.latency = quantity_at(words[next].span, parse_time);
            ++next;
        }
        const bool one_way = is(next, "one") && is(next + 1, "way");
        next += one_way ? 2 : is(next, "both") ? 1 : 0;
        if (next != words.size()) fail(words[next], "this does not belong to a link", form);
        if (spec_.graph.size() + 2 > most_links)
            fail(words[0], "too many links", fmt::format("a network has at most {}", most_links));
        spec_.graph.push_back(link);
        if (one_way) return;
        std::swap(link.from, link.to);
        spec_.graph.push_back(link);
    }

    void level(const Statement& words) {
        if (words.size() != 3)
            fail(words[0], "this level is not complete",
                 fmt::format("level NAME KIND, with a kind of: {}", kinds));
        FabricSpec& spec = spec_.levels[level_in(words[1])];
        if (!spec.text.empty()) fail(words[1], "this level has a kind already", "");
        spec = fabric_in(words[2]);
    }

    // The rate of the links of one end of a switch.
    void end(const Statement& words) {
        if (words.size() != 4)
            fail(words[0], "this end is not complete", "end LEVEL RANK RATE: end host 3 1Gb/s");
        const std::size_t level = level_in(words[1]);
        const std::int64_t rank = integer_in(words[2].text, words[2], "end host 3 1Gb/s");
        if (rank >= topology_.ranks())
            fail(words[2], "there is no such rank",
                 fmt::format("there are {}, from 0 on", topology_.ranks()));
        if (spec_.levels[level].kind != FabricSpec::Kind::crossbar)
            fail(words[1], "the ends of this level have no rates of their own", "those of a switch have");
        spec_.ends.push_back({static_cast<int>(level), rank, quantity_at(words[3].span, parse_rate)});
    }

    std::size_t level_in(const Word& word) {
        has_levels_ = true;
        spec_.levels.resize(topology_.levels.size());
        std::string known;
        for (std::size_t i = 0; i < topology_.levels.size(); ++i) {
            known += (known.empty() ? "" : ", ") + topology_.levels[i].name;
            if (topology_.levels[i].name != word.text) continue;
            if (topology_.levels[i].medium == Medium::memory)
                fail(word, "this level is memory, which has no links", "only its cores carry bytes");
            return i;
        }
        fail(word, "there is no such level", fmt::format("topology {} has: {}", topology_.name, known));
    }

    void rule(const Statement& words) {
        const std::string& what = words[0].text;
        const auto [first, is_first] = rules_.try_emplace(what, words[0].span);
        if (!is_first)
            throw DiagnosticError({words[0].span,
                                   fmt::format("this is a second rule for '{}'", what),
                                   {{first->second, "the first is here"}},
                                   "leave one of them out"});
        const std::string value = words.size() == 2 ? words[1].text : "";
        Routing& routing = spec_.routing;
        if (what == "order" && (value == "outermost" || value == "digits")) {
            routing.order = value == "digits" ? Routing::Order::digits : Routing::Order::outermost;
        } else if (what == "latency" && (value == "message" || value == "hop" || value == "none")) {
            using Latency = Routing::Latency;
            routing.latency = value == "hop"    ? Latency::hop
                              : value == "none" ? Latency::none
                                                : Latency::message;
        } else if (what == "routing" && value == "spread") {
            routing.paths = Routing::Paths::spread;
        } else if (what == "routing" && value.starts_with("hash")) {
            std::string_view name = value;
            const std::vector<std::int64_t> arguments = take_arguments(name, words[1]);
            if (name != "hash" || arguments.size() > 1)
                fail(words[1], "there is no such routing", "spread, or hash(1)");
            routing.paths = Routing::Paths::hash;
            routing.seed = arguments.empty() ? 0 : static_cast<std::uint64_t>(arguments[0]);
        } else {
            fail(words.back(), "this rule is unknown",
                 "there are: routing spread, routing hash(1), order outermost, order digits, "
                 "latency message, latency hop, latency none");
        }
    }

    void whole(const Word& word) {
        if (!spec_.whole.empty()) fail(word, "this is a second network", "one kind stands for all ranks");
        spec_.whole.push_back(fabric_in(word));
    }

    const Topology& topology_;
    NetworkSpec& spec_;
    bool has_levels_ = false;
    std::map<std::string, Span> rules_;  // by their first word
};

}  // namespace

NetworkSpec parse_network(const std::string& name, const std::string& text, const Topology& topology) {
    const SourceFile file{name, text};
    if (text.size() > longest_network_text)
        throw DiagnosticError(Span(), fmt::format("{}: a text of more than 64 MiB", name));
    NetworkSpec spec;
    Reader reader(topology, spec);
    bool is_empty = true;
    for_statements(file, [&](const Statement& statement) {
        is_empty = false;
        reader.read(statement);
    });
    if (is_empty)
        throw DiagnosticError(
            Span(), fmt::format("{}: a network without a statement", name),
            "a network is like fattree(16)@10Gb/s; without one, the topology's levels are it");
    spec.text = name.ends_with(".network") ? name : text;
    return spec;
}

Network find_network(const std::string& text, const Topology& topology) {
    if (text.empty()) return Network(topology);
    if (!text.ends_with(".network")) return Network(topology, parse_network("<network>", text, topology));
    std::string content;
    try {
        content = read_text(text, longest_network_text + 1);
    } catch (const UnreadableFile& error) {
        throw NotFoundError(fmt::format("cannot read the network {}: {}", text, error.what()));
    }
    return Network(topology, parse_network(text, content, topology));
}

}  // namespace hocket::dsl
