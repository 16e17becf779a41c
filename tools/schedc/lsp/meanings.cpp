#include "tools/schedc/lsp/meanings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "dsl/base/collective.hpp"

namespace hocket::tools::lsp {
namespace {

constexpr Meaning own_words[] = {
    {"algorithm",
     "algorithm NAME COLLECTIVE(x [, root] [; parameter = default]) over g [where condition] { }",
     "Transfers among the members of one group, whatever the topology."},
    {"schedule", "schedule NAME COLLECTIVE(x [, root] [; parameter = default]) [where condition] { }",
     "A collective over the levels of a topology."},
    {"topology", "topology NAME(parameter = default) { level ... }", "Levels, the innermost first."},
    {"operator", "operator NAME(a, b) [commutative] [associative] = expression", "How two elements combine."},
    {"update", "update NAME(parameter) { }", "How a parameter server changes the weights w by the sum g."},
    {"level", "level NAME[size] { medium m  latency 3us  bandwidth 25Gb/s  shared by LEVEL  nic eth1 }",
     "A dimension of a topology."},
    {"for", "for v in RANGE  BODY", "One round after the other."},
    {"each", "each v in RANGE, w in RANGE let n = E where condition  BODY",
     "All transfers of all rounds happen at once: each reads what was there before."},
    {"parallel", "parallel v in RANGE  BODY", "Rounds that are independent strands; this is proved."},
    {"in", "v in RANGE", "A range is first ..< end, end >.. last to count down, or a group."},
    {"where", "where CONDITION", "The groups, topologies or rounds that it is for."},
    {"over", "over GROUP", "The group that an algorithm, or a statement, works on."},
    {"using", "using ALGORITHM", "The algorithm; without it, the one that is estimated to be the fastest."},
    {"from", "from ROOT", "The rank that has the data."},
    {"to", "to ROOT", "The rank that gets the result."},
    {"let", "let n = E, let f(i) = E, let y = x.part(i of n)",
     "A name for a value, a function or a part, to the end of the block."},
    {"and", "a and b", "1 if both are true, else 0; b is evaluated only if it matters."},
    {"or", "a or b", "1 if one is true, else 0; b is evaluated only if it matters."},
    {"not", "not a", "1 if a is 0, else 0."},
    {"xor", "a xor b", "The bits that differ."},
    {"mod", "a mod b", "The remainder, never negative; b is positive."},
    {"of", "x.part(i of n)", "Part i of n equal parts, from 0."},
    {"state", "state e like x", "A buffer that each rank keeps from one start to the next, 0 at first."},
    {"approximate", "schedule ... approximate",
     "The result may lack what selections leave out, or narrower formats lose."},
    {"lossy", "schedule ... lossy", "What states keep may be lost."},
    {"with", "schedule NAME COLLECTIVE(x) with w", "A buffer that every rank has with the same content."},
    {"like", "state e like x", "As large as the rank's part of x is now."},
    {"partition", "partition w over GROUP", "Each rank works on its own part of w from here on."},
    {"as", "all_gather x over GROUP as FORMAT",
     "The format in which the data travel: bfloat16, float16, float8, int8, int4, sign, or mstopk(density)."},
    {"keeping", "as FORMAT keeping e", "The state that adds at the next start what the format loses now."},
    {"import", "import \"rings.sched\"",
     "The algorithms and collectives of another file, which lies beside this one or in a folder of the "
     "schedule "
     "path."},
    {"if", "if C BODY else BODY; if C then A else B",
     "A choice of statements, or of values, when the schedule is laid out."},
    {"then", "if C then A else B", "The value if the condition is true."},
    {"else", "if C BODY else BODY; if C then A else B", "What is taken if the condition is false."},
    {"levels", "levels, levels[i]", "The levels of the topology, the innermost first."},
    {"world", "over world", "All ranks as one group."},
    {"ranks", "ranks", "The number of ranks."},
    {"auto", "tiles = auto", "A schedule's number of tiles, chosen by the size."},
    {"workers", "g / workers", "In an update: the number of workers whose gradients are in g."},
    {"round", "beta ** round", "In an update: the number of this round, from 1."},
    {"medium", "medium memory", "What the links of a level are: memory, fabric or device."},
    {"latency", "latency 3us", "The time of a message without bytes: s, ms, us, ns."},
    {"bandwidth", "bandwidth 25Gb/s", "Bits (b) or bytes (B) a second, with k, M, G, T."},
    {"shared", "shared by LEVEL", "The ranks of that level share one link."},
    {"by", "shared by LEVEL", "The ranks of that level share one link."},
    {"nic", "nic eth1, nic 10.0.1.0/24", "The network interface of a level."},
    {"commutative", "operator ... commutative", "The operands may change places."},
    {"associative", "operator ... associative", "The operands may be grouped in any way."},
    {"pow2", "pow2(n)", "1 if n is a power of two, else 0."},
    {"log2", "log2(n)", "The logarithm to the base 2, rounded down."},
    {"log2_up", "log2_up(n)", "The logarithm to the base 2, rounded up."},
    {"log", "log(n, b)", "The logarithm to the base b, rounded down."},
    {"log_up", "log_up(n, b)", "The logarithm to the base b, rounded up."},
    {"min", "min(a, b)", "The smaller one."},
    {"max", "max(a, b), max(m)", "The larger one; or the largest value, which `let m = largest(...)` found."},
    {"block", "x[block(c, n)]", "The n chunks of the aligned block around chunk c."},
    {"abs", "abs(x)", "The magnitude of each element."},
    {"sqrt", "sqrt(x)", "The square root of each element."},
    {"select", "select(condition, a, b)", "a where the condition is true of the element, else b."},
    {"float16", "float16(x); as float16", "Each element, rounded to float16."},
    {"bfloat16", "bfloat16(x); as bfloat16", "Each element, rounded to bfloat16."},
    {"float8", "as float8, as float8(64)",
     "8 bits with 4 of exponent (E4M3); 256 elements, or 64, share a scale."},
    {"int8", "as int8, as int8(64)", "From -127 to 127; 256 elements, or 64, share a scale."},
    {"int4", "as int4, as int4(64)", "From -7 to 7; 256 elements, or 64, share a scale."},
    {"sign", "as sign, as sign(64)", "1 or -1 times the mean magnitude of 256 elements, or 64."},
    {"mstopk", "let s = mstopk(x, density), x over world as mstopk(density)",
     "The elements of largest magnitude, with their indices."},
    {"total", "let n = total(expression)",
     "For each tensor, the sum over the elements in the rank's part; sum(n) reads it."},
    {"largest", "let n = largest(expression)",
     "For each tensor, the largest value of the elements in the rank's part; max(n) reads it."},
    {"dense", "e - dense(s)", "A selection as a buffer, with 0 elsewhere."},
    {"sum", "x = sum(s)", "The sum of all selections, or totals, that the rank has."},
    {"cleared", "e = cleared(e, s)", "e, with 0 where s has selected something."},
};

constexpr Meaning own_members[] = {
    {"size", "g.size", "The number of members of a group."},
    {"count", "levels.count", "The number of levels."},
    {"reversed", "levels.reversed", "The levels, the outermost first."},
    {"part", "x.part(i of n)", "Part i of n equal parts of every chunk of x, from 0."},
};

std::string_view share_text(dsl::Share share) {
    return share == dsl::Share::none ? "nothing" : share == dsl::Share::own ? "its piece of x" : "all of x";
}

std::string shares_text(const dsl::Shares& shares) {
    if (!shares.differ()) return fmt::format("each rank {}", share_text(shares.root));
    return fmt::format("the root {}, the others {}", share_text(shares.root), share_text(shares.others));
}

}  // namespace

std::span<const Meaning> meanings() {
    return own_words;
}
std::span<const Meaning> members() {
    return own_members;
}

const Meaning* find_meaning(std::span<const Meaning> among, std::string_view word) {
    const auto found = std::find_if(among.begin(), among.end(),
                                    [&](const Meaning& meaning) { return meaning.word == word; });
    return found == among.end() ? nullptr : &*found;
}

std::string contract_text(std::string_view collective) {
    for (const dsl::Contract& contract : dsl::contracts)
        if (contract.name == collective)
            return fmt::format("At the start: {}. At the end: {}{}.", shares_text(contract.input),
                               shares_text(contract.output),
                               contract.combines()    ? ", combined"
                               : contract.exchanges() ? "; piece s is what rank s had for it"
                                                      : "");
    return "";
}

}  // namespace hocket::tools::lsp
