#include "tests/differential/families.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <map>
#include <numeric>

#include "tests/differential/writer.hpp"

namespace hocket::differential {
namespace {

// Heads of loops and a transfer: "$x", "$y", "$g", "$N", "$r" are the buffer, the second one, the group, its
// size, the root, "@a" a variable, "#7" a number in any form, "$D" a step that reaches every member, "$K" a
// radix.
using Nest = std::vector<std::string>;

struct Family {
    const char* name;
    const char* collective;
    bool wants_pow2;
    std::vector<Nest> nests;
    bool wants_chunks_alike = false;

    bool has_second() const {
        return std::any_of(nests.begin(), nests.end(),
                           [](const Nest& nest) { return nest.back().find("$y") != std::string::npos; });
    }
};

const std::vector<Family>& families() {
    static const Nest ring_scatter{"for @a in #1 ..< $N", "each @b in $g",
                                   "$x[@b - @a * $D] : @b +> @b + $D"};
    static const Nest ring_gather{"for @a in #0 ..< $N - #1", "each @b in $g",
                                  "$x[@b - @a * $D] : @b -> @b + $D"};
    static const Nest ring_scatter_down{"for @a in $N >.. #1", "each @b in $g",
                                        "$x[@b + @a * $D] : @b +> @b + $D"};
    static const Nest direct_scatter{"each @a in $g, @b in $g where @a != @b", "$x[@b] : @a +> @b"};
    static const Nest direct_gather{"each @a in $g, @b in $g where not @a == @b", "$x[@a] : @a -> @b"};
    static const Nest turning_scatter{"for @a in $N >.. #1", "each @b in $g", "$x[@b + @a] : @b +> @b + @a"};
    static const Nest turning_gather{"for @a in #1 ..< $N", "each @b in $g", "$x[@b] : @b -> @b + @a"};
    static const Nest halving{"for @a in log2($N) >.. 0", "each @b in $g",
                              "$x[block(@b xor #2 ** @a, #2 ** @a)] : @b +> @b xor #2 ** @a"};
    static const Nest doubling{"for @a in 0 ..< log2($N)", "each @b in $g",
                               "$x[block(@b, #2 ** @a)] : @b -> @b xor #2 ** @a"};
    static const Nest bruck_gather{"for @a in 0 ..< log2_up($N)",
                                   "each @b in $g, @c in $g where @c < #2 ** @a and @c + #2 ** @a < $N",
                                   "$x[@b + @c] : @b -> @b - #2 ** @a"};
    static const Nest bruck_scatter{"for @a in log2_up($N) >.. 0",
                                    "each @b in $g, @c in $g where @c < #2 ** @a and @c + #2 ** @a < $N",
                                    "$x[@b + @c] : @b - #2 ** @a +> @b"};
    static const Nest chain_up{"for @a in 0 ..< $N - 1", "$x[0 ..< @a + #1] : @a -> @a + 1"};
    static const Nest chain_back{"for @a in $N >.. #1", "$x[@a ..< $N] : @a -> @a - 1"};
    static const Nest scatter_left{"for @a in $N >.. #1", "$x[0 ..< @a] : @a +> @a - 1"};
    static const Nest scatter_right{"for @a in #1 ..< $N", "$x[@a ..< $N] : @a - 1 +> @a"};
    static const Nest collect{"each @a in $g where @a > 0", "$x : @a +> #0"};
    static const Nest hand_out{"each @a in $N >.. #1", "$x : #0 -> @a"};
    static const Nest tree_collect{"for @a in 0 ..< log2_up($N)",
                                   "each @b in $g where @b mod #2 ** (@a + 1) == #2 ** @a",
                                   "$x : @b +> @b - #2 ** @a"};
    static const Nest tree_hand_out{"for @a in 0 ..< log2_up($N)",
                                    "each @b in 0 ..< 2 ** @a where @b + 2 ** @a < $N",
                                    "$x : @b -> @b + #2 ** @a"};
    static const std::vector<Family> all{
        {"ring", "reduce_scatter", false, {ring_scatter}},
        {"ring from behind", "reduce_scatter", false, {ring_scatter_down}},
        {"direct", "reduce_scatter", false, {direct_scatter}},
        {"turning", "reduce_scatter", false, {turning_scatter}},
        {"halving", "reduce_scatter", true, {halving}},
        {"Bruck", "reduce_scatter", false, {bruck_scatter}},
        {"two chains", "reduce_scatter", false, {scatter_left, scatter_right}},
        {"ring", "all_gather", false, {ring_gather}},
        {"direct", "all_gather", false, {direct_gather}},
        {"turning", "all_gather", false, {turning_gather}},
        {"doubling", "all_gather", true, {doubling}},
        {"Bruck", "all_gather", false, {bruck_gather}},
        {"two chains", "all_gather", false, {chain_up, chain_back}},
        {"ring", "all_reduce", false, {ring_scatter, ring_gather}},
        {"halving", "all_reduce", true, {halving, doubling}},
        {"Bruck", "all_reduce", false, {bruck_scatter, bruck_gather}},
        {"mixed", "all_reduce", false, {turning_scatter, direct_gather}},
        {"chains", "all_reduce", false, {scatter_left, scatter_right, bruck_gather}},
        {"exchange", "all_reduce", false, {{"each @a in $g, @b in $g where @b != @a", "$x : @a +> @b"}}},
        {"butterfly",
         "all_reduce",
         true,
         {{"for @a in 0 ..< log2($N)", "each @b in $g", "$x : @b +> @b xor #2 ** @a"}}},
        {"collected", "all_reduce", false, {collect, hand_out}},
        {"trees", "all_reduce", false, {tree_collect, tree_hand_out}},
        {"direct", "broadcast", false, {{"each @a in $g where @a != $r", "$x : $r -> @a"}}},
        {"binomial",
         "broadcast",
         false,
         {{"for @a in 0 ..< log2_up($N)", "each @b in 0 ..< 2 ** @a where @b + 2 ** @a < $N",
           "$x : $r + @b -> $r + @b + #2 ** @a"}}},
        {"radix",
         "broadcast",
         false,
         {{"for @a in 0 ..< $N",
           "each @b in $g, @c in #1 ..< $K where "
           "$K ** @a < $N and @b < $K ** @a and @b + @c * $K ** @a < $N",
           "$x : $r + @b -> $r + @b + @c * $K ** @a"}}},
        {"chain", "broadcast", false, {{"for @a in #0 ..< $N - 1", "$x : $r + @a -> $r + @a + 1"}}},
        {"direct", "reduce", false, {{"each @a in $g where @a != $r", "$x : @a +> $r"}}},
        {"binomial",
         "reduce",
         false,
         {{"for @a in log2_up($N) >.. 0", "each @b in 0 ..< 2 ** @a where @b + 2 ** @a < $N",
           "$x : $r + @b + #2 ** @a +> $r + @b"}}},
        {"chain", "reduce", false, {{"for @a in $N >.. #1", "$x : $r + @a +> $r + @a - 1"}}},
        {"direct", "gather", false, {{"each @a in $g where @a != $r", "$x[@a] : @a -> $r"}}},
        {"chain",
         "gather",
         false,
         {{"for @a in $N >.. #1", "each @b in $g where @b >= @a", "$x[$r + @b] : $r + @a -> $r + @a - 1"}}},
        {"binomial",
         "gather",
         false,
         {{"for @a in 0 ..< log2_up($N)",
           "each @b in $g, @c in 0 ..< 2 ** @a where @b mod 2 ** (@a + 1) == 2 ** @a and @b + @c < $N",
           "$x[$r + @b + @c] : $r + @b -> $r + @b - #2 ** @a"}}},
        {"direct", "scatter", false, {{"each @a in $g where @a != $r", "$x[@a] : $r -> @a"}}},
        {"chain",
         "scatter",
         false,
         {{"for @a in #0 ..< $N - 1", "each @b in $g where @b > @a",
           "$x[$r + @b] : $r + @a -> $r + @a + 1"}}},
        {"everything", "scatter", false, {{"each @a in $g where @a != $r", "$x : $r -> @a"}}},
        {"scatter",
         "broadcast",
         false,
         {{"each @a in $g where @a != $r", "$x[@a] : $r -> @a"},
          {"each @a in $g, @b in $g where @a != @b and @b != $r", "$x[@a] : @a -> @b"}}},
    };
    return all;
}

// Families whose data move to other places.
const std::vector<Family>& shifting_families() {
    static const std::vector<Family> all{
        {"pairwise",
         "all_to_all",
         false,
         {{"each @a in $g", "$x[@a] : @a -> $y[@a] : @a"},
          {"for @b in #1 ..< $N", "each @a in $g", "$x[@a + @b * $D] : @a -> $y[@a] : @a + @b * $D"}}},
        {"direct", "all_to_all", false, {{"each @a in $g, @b in $g", "$x[@a] : @b -> $y[@b] : @a"}}},
        {"xor",
         "all_to_all",
         true,
         {{"for @b in $g", "each @a in $g", "$x[@a xor @b] : @a -> $y[@a] : @a xor @b"}}},
        {"Bruck",
         "all_to_all",
         false,
         {{"each @a in $g, @b in $g", "$x[@a + @b] : @a -> $y[@a - @b] : @a"},
          {"for @c in 0 ..< log2_up($N)", "each @a in $g, @b in $g where @b / #2 ** @c mod #2 == 1",
           "$y[@a - @b] : @a -> $y[@a + #2 ** @c - @b] : @a + #2 ** @c"}}},
        {"copied",
         "all_to_all",
         false,
         {{"each @a in $g", "$x : @a -> $y : @a"},
          {"each @a in $g, @b in $g where @a != @b", "$y[@a] : @b -> $y[@b] : @a"}}},
        {"one buffer",
         "all_to_all",
         false,
         {{"each @a in $g, @b in $g where @a != @b", "$x[@a] : @b -> $x[@b] : @a"}}},
        {"swaps",
         "all_to_all",
         false,
         {{"for @c in $g", "each @a in $g where (#2 * @a - @c) mod $N != 0",
           "$x[@c - @a] : @a -> $x[@a] : @c - @a"}}},
        {"turning",
         "all_to_all",
         false,
         {{"each @a in $g, @b in $g where @a != 0", "$x[@a + @b] : @a -> $x[@b] : @a"},
          {"for @b in #1 ..< $N", "each @a in $g", "$x[@b] : @a -> @a + @b"},
          {"each @a in $g, @b in $g where (@a - #2 * @b) mod $N != 0", "$x[@b] : @a -> $x[@a - @b] : @a"}}},
        {"turned",
         "all_gather",
         false,
         {{"each @a in $g where @a != 0", "$x[@a] : @a -> $x[0] : @a"},
          {"for @c in 0 ..< log2_up($N)",
           "each @a in $g, @b in $g where @b < #2 ** @c and @b + #2 ** @c < $N",
           "$x[@b] : @a -> $x[@b + #2 ** @c] : @a - #2 ** @c"},
          {"each @a in $g, @b in $g where @a != 0", "$x[@b] : @a -> $x[@a + @b] : @a"}},
         true},
        {"turned",
         "reduce_scatter",
         false,
         {{"each @a in $g, @b in $g where @a != 0", "$x[@b] : @a -> $x[@b - @a] : @a"},
          {"each @a in $g, @b in $g where @a != @b", "$x[@a - @b] : @b +> $x[0] : @a"},
          {"each @a in $g where @a != 0", "$x[0] : @a -> $x[@a] : @a"}},
         true},
        {"turned",
         "gather",
         false,
         {{"$x[$r] : $r -> $x[$r + 1] : $r"},
          {"each @a in $g where @a != $r", "$x[@a] : @a -> $x[@a + 1] : $r"},
          {"each @a in $g", "$x[@a + 1] : $r -> $x[@a] : $r"}},
         true},
    };
    return all;
}

class Filling {
  public:
    Filling(Writer& writer, Random& random, const std::string& buffer, const std::string& second)
        : writer_(writer) {
        const auto& sizes = writer.surroundings().sizes;
        std::vector<std::int64_t> steps;
        for (std::int64_t step = -7; step <= 7; ++step)
            if (std::all_of(sizes.begin(), sizes.end(),
                            [&](int size) { return std::gcd(step, std::int64_t{size}) == 1; }))
                steps.push_back(step);
        words_ = {{"$x", buffer},
                  {"$y", second},
                  {"$g", writer.surroundings().group},
                  {"$N", writer.surroundings().size_name},
                  {"$r", writer.surroundings().root},
                  {"$D", decorated(random.pick(steps))},
                  {"$K", std::to_string(random.between(2, 4))}};
    }

    std::string fill(const std::string& text) {
        std::string result;
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] == '#') {
                result += decorated(text[++i] - '0');
            } else if (text[i] == '$' || text[i] == '@') {
                const std::string word = text.substr(i++, 2);
                if (!words_.count(word)) words_[word] = writer_.new_name();
                result += words_[word];
            } else {
                result += text[i];
            }
        }
        return result;
    }

    void forget_variables() {
        std::erase_if(words_, [](const auto& word) { return word.first[0] == '@'; });
    }

  private:
    std::string decorated(std::int64_t value) { return within(writer_.number(value), Binds::postfix); }

    Writer& writer_;
    std::map<std::string, std::string> words_;
};

}  // namespace

void write_family(Writer& writer, Random& random, std::set<std::string>& features,
                  const std::string& collective, const std::string& buffer, const std::string& second,
                  Statements& out) {
    const auto& sizes = writer.surroundings().sizes;
    const bool pow2 = std::all_of(sizes.begin(), sizes.end(),
                                  [](int size) { return std::has_single_bit(static_cast<unsigned>(size)); });
    std::vector<const Family*> fitting;
    const bool has_one = std::all_of(sizes.begin(), sizes.end(), [](int size) { return size == 1; });
    const bool alike = writer.surroundings().chunks_are_alike && !has_one;
    for (const auto* list : {&families(), &shifting_families()})
        for (const Family& family : *list)
            if (family.collective == collective && (pow2 || !family.wants_pow2) &&
                (alike || !family.wants_chunks_alike) && family.has_second() == !second.empty())
                fitting.push_back(&family);
    const Family& family = *random.pick(fitting);
    features.insert(std::string("family ") + family.name + " " + collective);
    Filling filling(writer, random, buffer, second);
    for (const Nest& nest : family.nests) {
        Statements nested = writer.inside([&](Statements& into) {
            std::vector<std::string> texts;
            for (const std::string& text : nest) texts.push_back(filling.fill(text));
            Statement inner{texts.back()};
            for (std::size_t i = texts.size() - 1; i-- > 0;) {
                if (!inner.has_block && random.chance(60))
                    inner = {texts[i] + "  " + inner.text};
                else
                    inner = {texts[i], true, Statements{inner}};
            }
            into.push_back(std::move(inner));
        });
        filling.forget_variables();
        out.push_back(std::move(nested[0]));
    }
}

}  // namespace hocket::differential
