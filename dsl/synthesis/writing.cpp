#include "dsl/synthesis/writing.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::dsl {
namespace {

// The names of the coordinates that turn.
std::string turn_name(std::size_t turn) {
    constexpr std::string_view names = "ijklmn";
    return turn < names.size() ? std::string(1, names[turn]) : fmt::format("i{}", turn);
}

std::string turn_names(std::size_t count) {
    std::string names;
    for (std::size_t turn = 0; turn < count; ++turn) names += ", " + turn_name(turn);
    return names;
}

// "r / 4 mod 8": a coordinate of a rank. The outermost one needs no mod.
std::string coordinate(const std::string& rank, Rank stride, Rank size, Rank ranks) {
    std::string text = stride == 1 ? rank : fmt::format("{} / {}", rank, stride);
    return stride * size == ranks ? text : fmt::format("{} mod {}", text, size);
}

// "let at(r, i, j) = (r + i) mod 8 + 8 * ((r / 8 + j) mod 2)": where the turns bring a rank. A member's
// number wraps around, so the outermost coordinate need not.
std::string at_function(const std::vector<Turn>& turns, Rank ranks) {
    std::string sum;
    const auto add = [&](Rank stride, const std::string& coordinate) {
        sum += sum.empty() ? "" : " + ";
        sum += stride == 1 ? coordinate : fmt::format("{} * ({})", stride, coordinate);
    };
    Rank done = 1;
    for (std::size_t turn = 0; turn < turns.size(); ++turn) {
        const auto& [stride, size] = turns[turn];
        const std::string by = turn_name(turn);
        if (turn == 0 && stride * size == ranks)
            return fmt::format("r + {}", stride == 1 ? by : fmt::format("{} * {}", stride, by));
        if (stride > done && sum.empty()) {
            add(1, fmt::format("r mod {}", stride));
        } else if (stride > done) {
            add(done, coordinate("r", done, stride / done, ranks));
        }
        const std::string old = stride == 1 ? "r" : fmt::format("r / {}", stride);
        add(stride, stride * size == ranks ? fmt::format("{} + {}", old, by)
                                           : fmt::format("({} + {}) mod {}", old, by, size));
        done = stride * size;
    }
    if (done < ranks) add(done, fmt::format("r / {}", done));
    return sum;
}

enum class Direction : std::uint8_t { spread, combine };

// The lines of an algorithm, without indentation.
class Lines {
  public:
    void open(const std::string& head) { line(head + " {"); }
    void close() { line("}"); }
    void line(const std::string& text) { text_ += text + "\n"; }
    const std::string& text() const { return text_; }

  private:
    std::string text_;
};

// Writes the loops over a forest's rounds, tiles, parts and turns.
class ForestWriter {
  public:
    // by_rank: each root has a piece of x of its own; otherwise the tree's data are all of x.
    ForestWriter(Lines& lines, const Forest& forest, Direction direction, bool by_rank)
        : lines_(lines), forest_(forest), direction_(direction), by_rank_(by_rank), rounds_(rounds(forest)) {}

    void write() {
        if (rounds_ == 0) return;
        std::string ranges = "t in 0 ..< tiles";
        if (forest_.parts > 1) ranges += fmt::format(", q in 0 ..< {}", forest_.parts);
        if (by_rank_)
            for (std::size_t turn = 0; turn < forest_.turns.size(); ++turn)
                ranges += fmt::format(", {} in 0 ..< {}", turn_name(turn), forest_.turns[turn].size);
        const bool spreads = direction_ == Direction::spread;
        const std::string part = forest_.parts > 1
                                     ? fmt::format("x.part({0} * t + q of {0} * tiles)", forest_.parts)
                                     : "x.part(t of tiles)";
        lines_.line(rounds_ == 1 ? "for p in 0 ..< tiles"
                                 : fmt::format("for p in 0 ..< tiles + {}", rounds_ - 1));
        lines_.line("each " + ranges);
        lines_.open(fmt::format("let d = {} let y = {} where 0 <= d and d < {}",
                                spreads ? "p - t" : fmt::format("{} + t - p", rounds_ - 1), part, rounds_));
        write_roots();
        lines_.close();
    }

  private:
    void write_roots() {
        for (std::size_t first = 0; first < forest_.trees.size();) {
            std::size_t end = first;
            while (end < forest_.trees.size() && forest_.trees[end].root == forest_.trees[first].root) ++end;
            std::int64_t parts = 0;
            for (std::size_t tree = first; tree < end; ++tree) {
                parts += forest_.trees[tree].weight;
                const bool is_only = end - first == 1, is_last = tree + 1 == end;
                const std::string condition = is_last ? "" : fmt::format("if q < {}", parts);
                if (is_only) {
                    write_rounds(forest_.trees[tree]);
                } else {
                    lines_.open(tree == first ? condition : is_last ? "else" : "else " + condition);
                    write_rounds(forest_.trees[tree]);
                    lines_.close();
                }
            }
            first = end;
        }
    }

    void write_rounds(const Tree& tree) {
        for (std::uint32_t round = 0; round < rounds_; ++round) {
            std::vector<std::string> transfers;
            for (const Arc& arc : tree.arcs)
                if (arc.round == round) transfers.push_back(transfer(tree.root, arc));
            if (transfers.empty()) continue;
            if (rounds_ > 1) lines_.open(fmt::format("if d == {}", round));
            for (const std::string& one : transfers) lines_.line(one);
            if (rounds_ > 1) lines_.close();
        }
    }

    std::string at(Rank rank) const {
        return forest_.turns.empty() ? std::to_string(rank)
                                     : fmt::format("at({}{})", rank, turn_names(forest_.turns.size()));
    }

    std::string transfer(Rank root, const Arc& arc) const {
        const std::string what = by_rank_ ? fmt::format("y[{}]", at(root)) : "y";
        return direction_ == Direction::spread ? fmt::format("{} : {} -> {}", what, at(arc.from), at(arc.to))
                                               : fmt::format("{} : {} +> {}", what, at(arc.to), at(arc.from));
    }

    Lines& lines_;
    const Forest& forest_;
    Direction direction_;
    bool by_rank_;
    std::uint32_t rounds_;
};

void open_algorithm(Lines& lines, const std::string& name, const std::string& header, Rank ranks,
                    const std::vector<Turn>& turns) {
    lines.open(fmt::format("algorithm {} {} over g where g.size == {}", name, header, ranks));
    if (!turns.empty())
        lines.line(fmt::format("let at(r{}) = {}", turn_names(turns.size()), at_function(turns, ranks)));
}

std::string by_rank_text(const std::string& name, const std::string& collective, const Forest& forest,
                         Direction direction, Rank ranks, int tiles) {
    Lines lines;
    open_algorithm(lines, name, fmt::format("{}(x; tiles = {})", collective, tiles), ranks, forest.turns);
    ForestWriter(lines, forest, direction, true).write();
    lines.close();
    return lines.text();
}

// The turns that bring the root to where it is are the same for all transfers.
std::string rooted_text(const std::string& name, const std::string& collective,
                        const std::vector<Forest>& forests, Direction direction, Rank ranks, int tiles) {
    Lines lines;
    const std::vector<Turn>& turns = forests[0].turns;
    open_algorithm(lines, name, fmt::format("{}(x, root; tiles = {})", collective, tiles), ranks, turns);
    std::string first = "root";
    for (std::size_t turn = 0; turn < turns.size(); ++turn) {
        const auto& [stride, size] = turns[turn];
        lines.line(fmt::format("let {} = {}", turn_name(turn), coordinate("root", stride, size, ranks)));
        first += fmt::format(" - {} * {}", stride, turn_name(turn));
    }
    if (forests.size() > 1) lines.line("let first = " + first);
    for (const Forest& forest : forests) {
        if (forests.size() > 1) lines.open(fmt::format("if first == {}", forest.trees[0].root));
        ForestWriter(lines, forest, direction, false).write();
        if (forests.size() > 1) lines.close();
    }
    lines.close();
    return lines.text();
}

}  // namespace

std::string all_gather_text(const std::string& name, const Forest& forest, Rank ranks, int tiles) {
    return by_rank_text(name, "all_gather", forest, Direction::spread, ranks, tiles);
}

std::string reduce_scatter_text(const std::string& name, const Forest& forest, Rank ranks, int tiles) {
    return by_rank_text(name, "reduce_scatter", forest, Direction::combine, ranks, tiles);
}

std::string all_reduce_text(const std::string& name, const Forest& spread, const Forest& combine, Rank ranks,
                            int tiles) {
    return reduce_scatter_text(name, combine, ranks, tiles) + "\n" +
           all_gather_text(name, spread, ranks, tiles) +
           fmt::format(
               "\nschedule {0} all_reduce(x) where ranks == {1} {{\n"
               "    reduce_scatter x over world using {0}\n"
               "    all_gather     x over world using {0}\n}}\n",
               name, ranks);
}

std::string broadcast_text(const std::string& name, const std::vector<Forest>& forests, Rank ranks,
                           int tiles) {
    return rooted_text(name, "broadcast", forests, Direction::spread, ranks, tiles);
}

std::string reduce_text(const std::string& name, const std::vector<Forest>& forests, Rank ranks, int tiles) {
    return rooted_text(name, "reduce", forests, Direction::combine, ranks, tiles);
}

std::string all_to_all_text(const std::string& name, const Exchange& exchange, Rank ranks) {
    Lines lines;
    open_algorithm(lines, name, "all_to_all(x, y)", ranks, exchange.turns);
    lines.line("each r in g  x[r] : r -> y[r] : r");
    for (const std::vector<Rank>& phase : exchange.phases) {
        lines.open("each r in g");
        for (const Rank distance : phase) {
            std::string to = "at(r";
            Rank rest = distance;
            for (const Turn& turn : exchange.turns) {
                to += fmt::format(", {}", rest % turn.size);
                rest /= turn.size;
            }
            lines.line(fmt::format("x[{0})] : r -> y[r] : {0})", to));
        }
        lines.close();
    }
    lines.close();
    return lines.text();
}

}  // namespace hocket::dsl
