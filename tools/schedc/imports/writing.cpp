#include "tools/schedc/imports/writing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <set>

#include "dsl/syntax/format.hpp"
#include "dsl/syntax/words.hpp"
#include "tools/schedc/imports/lines.hpp"

namespace hocket::tools::imports {
namespace {

using dsl::Collective;

constexpr const char* shift_name = "shift";  // a collective of the file
constexpr std::size_t most_text = 1 << 20, most_indentation = 12;

bool has_root(Collective collective) {
    return dsl::contract_of(collective).has_root();
}

// A comment is one line, whatever a file's name is.
std::string one_line(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ') c = ' ';
    return text;
}

// A round as all ranks do it, and how the chunks move on from one round to the next.
struct AlikeRounds {
    std::vector<Line> lines;
    std::size_t count = 1;
    int shift = 0;
};

struct Style {
    bool is_cyclic = false;   // as in Division
    bool names_steps = true;  // comments do
};

class Writer {
  public:
    Writer(const Algorithm& algorithm, const Slots& slots, const std::vector<Round>& rounds,
           const Style& style)
        : algorithm_(algorithm),
          slots_(slots),
          rounds_(rounds),
          has_root_(has_root(algorithm.collective)),
          names_steps_(style.names_steps) {
        division_.ranks = algorithm.ranks();
        division_.is_whole_divided = algorithm.chunks_of_piece == 0;
        division_.parts = division_.is_whole_divided ? algorithm.chunks : algorithm.chunks_of_piece;
        division_.is_cyclic = style.is_cyclic;
    }

    std::string write() {
        std::string body;
        for (std::size_t at = 0; at < rounds_.size();) at += write_from(at, body);
        const std::string name = name_for(algorithm_);
        const std::string collective =
            algorithm_.shift > 0 ? shift_name : std::string(dsl::name_of(algorithm_.collective));
        const std::string buffers = slots_.has_second() ? "x, y" : has_root_ ? "x, root" : "x";
        std::string text = head() + contract() +
                           fmt::format("algorithm {} {}({}) over g where g.size == {} {{\n", name, collective,
                                       buffers, algorithm_.ranks());
        text += lets() + body + "}\n\n";
        text += fmt::format("schedule {} {}({}) where ranks == {} {{\n{} x over world{} using {}\n}}\n", name,
                            collective, has_root_ ? "x, root" : "x", algorithm_.ranks(), collective,
                            !has_root_     ? ""
                            : is_to_root() ? " to root"
                                           : " from root",
                            name);
        return text;
    }

  private:
    bool is_to_root() const {
        return algorithm_.collective == Collective::reduce || algorithm_.collective == Collective::gather;
    }

    std::string head() const {
        const std::string root =
            has_root_ ? fmt::format("; ranks are counted from the root, gpu {} there", algorithm_.root) : "";
        return fmt::format(
            "# Imported from {} ({}: {} on {} GPUs, {}{}).\n"
            "# {} round{}; {}{}.\n{}{}\n",
            one_line(algorithm_.path), algorithm_.words->origin, one_line(algorithm_.name),
            algorithm_.ranks(), algorithm_.in_place ? "in place" : "out of place", root, rounds_.size(),
            rounds_.size() == 1 ? "" : "s",
            (names_steps_ ? "comments name the file's " : "too many for comments that name ") +
                std::string(algorithm_.words->step) + "s",
            names_steps_ && uses_alike_ ? ", of gpu 0 where all do alike" : "", division_text(), notes());
    }

    std::string contract() const {
        if (algorithm_.shift == 0) return "";
        return fmt::format(
            "collective {}(x) over g {{\nbefore each r in g  x : r\nafter each r in g  x : r = x : "
            "{}\n}}\n\n",
            shift_name, relative(division_.ranks - algorithm_.shift));
    }

    std::string notes() const {
        std::string text;
        for (const std::string& note : algorithm_.notes) text += fmt::format("# {}\n", note);
        return text;
    }

    std::string division_text() const {
        const int divisor = std::gcd(algorithm_.chunks_of_one, algorithm_.parts_of_one);
        const int here = algorithm_.parts_of_one / divisor, there = algorithm_.chunks_of_one / divisor;
        if (here > 1 && there > 1)
            return fmt::format("# {} chunks here are {} of the file's.\n", here, there);
        if (here > 1)
            return used_parts_.empty() ? "" : fmt::format("# Each chunk of the file is {} here.\n", here);
        if (there > 1)
            return fmt::format("# Each chunk here is {} of the file's, which all go the same way.\n", there);
        if (division_.parts == 1) return "";
        if (division_.is_whole_divided)
            return fmt::format("# Chunk k of the file is part k of {} of x.\n", division_.parts);
        return division_.is_cyclic
                   ? fmt::format("# Chunk k of the file is part k / {} of {} of x[k mod {}].\n",
                                 division_.ranks, division_.parts, division_.ranks)
                   : fmt::format("# Chunk k of the file is part k mod {} of x[k / {}].\n", division_.parts,
                                 division_.parts);
    }

    std::string lets() const {
        std::string text;
        for (const auto& [in_second, part] : used_parts_)
            text += fmt::format("let {} = {}.part({} of {})\n", part_name(in_second, part),
                                in_second ? 'y' : 'x', part, division_.parts);
        return text;
    }

    static std::string part_name(bool in_second, int part) {
        return fmt::format("{}{}", in_second ? 'y' : 'x', part);
    }

    // Writes the rounds from this one on that make up one statement. Returns how many they are.
    std::size_t write_from(std::size_t first, std::string& body) {
        const std::vector<Line> lines = chunk_lines(rounds_[first], slots_, division_);
        if (!has_root_)
            if (std::optional<std::vector<Line>> all = alike(lines, division_)) {
                const AlikeRounds rounds = with_next({std::move(*all), 1, 0}, first);
                write_alike(rounds, body);
                return rounds.count;
            }
        write_lines(merged(lines, division_), body);
        return 1;
    }

    void write_lines(const std::vector<Line>& lines, std::string& body) {
        if (lines.size() > 1) body += "each once in 0 ..< 1 {\n";
        for (const Line& line : lines) {
            body += fmt::format("{} : {} {} ", region(line, true, std::nullopt), member(line.from),
                                line.combines ? "+>" : "->");
            if (!is_one_place(line)) body += region(line, false, std::nullopt) + " : ";
            body += fmt::format("{}{}\n", member(line.to), comment(line));
        }
        if (lines.size() > 1) body += "}\n";
    }

    // Adds the rounds that follow and differ from the one before in that all chunks lie one further.
    AlikeRounds with_next(AlikeRounds rounds, std::size_t first) const {
        std::vector<Line> last = rounds.lines;
        for (std::size_t at = first + 1; at < rounds_.size(); ++at) {
            std::optional<std::vector<Line>> next =
                alike(chunk_lines(rounds_[at], slots_, division_), division_);
            if (!next) break;
            const int shift = shift_between(last, *next);
            if (shift == 0 || (rounds.count > 1 && shift != rounds.shift)) break;
            rounds.shift = shift;
            ++rounds.count;
            last = std::move(*next);
        }
        return rounds;
    }

    // 1 or -1; 0 if there is more that differs.
    int shift_between(const std::vector<Line>& lines, const std::vector<Line>& next) const {
        if (lines.size() != next.size()) return 0;
        int shift = 0;
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const Line &a = lines[i], &b = next[i];
            const auto further = [&](int one, int other) {
                const int by = (other - one + division_.ranks) % division_.ranks;
                return by == 1 ? 1 : by == division_.ranks - 1 ? -1 : 0;
            };
            const int by = further(a.source, b.source);
            if (by == 0 || further(a.target, b.target) != by || (i > 0 && by != shift) || a.to != b.to ||
                a.length != b.length || a.part != b.part || a.combines != b.combines ||
                a.source_in_second != b.source_in_second || a.target_in_second != b.target_in_second)
                return 0;
            shift = by;
        }
        return shift;
    }

    void write_alike(const AlikeRounds& rounds, std::string& body) {
        uses_alike_ = true;
        const bool goes_on = rounds.count > 1;
        const std::string by = !goes_on ? "" : rounds.shift > 0 ? " + s" : " - s";
        if (goes_on) body += fmt::format("for s in 0 ..< {}\n", rounds.count);
        const bool is_block = rounds.lines.size() > 1;
        body += is_block ? "each r in g {\n" : "each r in g\n";
        for (const Line& line : rounds.lines) {
            body += fmt::format("{} : r {} ", region(line, true, by), line.combines ? "+>" : "->");
            if (!is_one_place(line)) body += region(line, false, by) + " : ";
            body += fmt::format("{}{}\n", relative(line.to), comment(line, goes_on ? ", and on" : ""));
        }
        if (is_block) body += "}\n";
    }

    std::string comment(const Line& line, const char* more = "") const {
        if (!names_steps_) return "";
        std::string text = "  # " + short_text(algorithm_, line.sender);
        if (line.receiver != line.sender) text += ", " + short_text(algorithm_, line.receiver);
        return text + (line.has_more ? ", and others" : "") + more;
    }

    static bool is_one_place(const Line& line) {
        return line.source == line.target && line.source_in_second == line.target_in_second;
    }

    // "r + 2", "root - 1"
    static std::string sum(const std::string& base, int by) {
        return by == 0 ? base : fmt::format("{} {} {}", base, by < 0 ? '-' : '+', std::abs(by));
    }

    std::string member(int rank) const {
        return has_root_ ? sum("root", from_root(rank)) : std::to_string(rank);
    }
    int from_root(int rank) const { return (rank - algorithm_.root + division_.ranks) % division_.ranks; }

    std::string relative(int by) const { return sum("r", nearest(by)); }
    int nearest(int by) const { return by <= division_.ranks / 2 ? by : by - division_.ranks; }

    // alike: the line's chunks are relative to the rank, and this is added to them, as " - s".
    std::string region(const Line& line, bool is_source, const std::optional<std::string>& alike) {
        const bool in_second = is_source ? line.source_in_second : line.target_in_second;
        std::string text(1, in_second ? 'y' : 'x');
        if (line.part != whole) {
            used_parts_.emplace(in_second, line.part);
            text = part_name(in_second, line.part);
        }
        if (line.length == division_.ranks || division_.is_whole_divided) return text;
        const int chunk = is_source ? line.source : line.target;
        const bool is_of_root = has_root_ && slots_.by_rank();
        const int begin = alike ? nearest(chunk) : is_of_root ? from_root(chunk) : chunk;
        const auto number = [&](int at) {
            return alike ? sum("r", at) + *alike : is_of_root ? sum("root", at) : std::to_string(at);
        };
        if (line.length == 1) return fmt::format("{}[{}]", text, number(begin));
        return fmt::format("{}[{} ..< {}]", text, number(begin), number(begin + line.length));
    }

    const Algorithm& algorithm_;
    const Slots& slots_;
    const std::vector<Round>& rounds_;
    const bool has_root_, names_steps_;
    Division division_;
    std::set<std::pair<bool, int>> used_parts_;
    bool uses_alike_ = false;
};

}  // namespace

std::string name_for(const Algorithm& algorithm) {
    std::string name;
    for (const char c : algorithm.name) {
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        const bool is_digit = c >= '0' && c <= '9';
        if (is_letter || (is_digit && !name.empty()))
            name += c;
        else if (!name.empty() && name.back() != '_')
            name += '_';
    }
    name.resize(std::min<std::size_t>(name.size(), 60));
    while (!name.empty() && name.back() == '_') name.pop_back();
    static const std::set<std::string> taken = {"x",      "y",     "g",     "r",    "s",       "root",
                                                "levels", "world", "ranks", "auto", shift_name};
    const bool is_collective =
        std::ranges::any_of(dsl::all_collectives, [&](Collective one) { return name == dsl::name_of(one); });
    return name.empty() || dsl::is_reserved(name) || taken.contains(name) || is_collective
               ? "imported_" + name
               : name;
}

std::string text_of(const Algorithm& algorithm, const std::vector<Round>& rounds) {
    const Slots slots(algorithm);
    // If chunks belong to no rank, each division of x into as many chunks is right: the shorter text is
    // taken.
    const bool may_be_cyclic = !slots.by_rank() && algorithm.chunks_of_piece > 1;
    for (const bool names_steps : {true, false}) {
        std::string text = Writer(algorithm, slots, rounds, {false, names_steps}).write();
        if (may_be_cyclic)
            text = std::min(text, Writer(algorithm, slots, rounds, {true, names_steps}).write(),
                            [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
        const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
        if (text.size() + lines * most_indentation < most_text) return dsl::formatted({"<imported>", text});
    }
    refuse(algorithm, {}, fmt::format("its schedule of {} rounds would be larger than 1 MiB", rounds.size()),
           "schedule files are smaller; import the algorithm for fewer GPUs or chunks");
}

}  // namespace hocket::tools::imports
