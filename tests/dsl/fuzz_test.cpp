#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern int parsed_inputs, right_definitions, right_computations, right_updates, right_contracts;

namespace {

std::vector<std::string> corpus() {
    std::vector<std::string> texts;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(HOCKET_SCHEDULES_DIR))
        if (entry.path().extension() == ".sched") {
            std::ifstream stream(entry.path());
            texts.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
        }
    return texts;
}

const std::vector<std::string> words = {"for",
                                        "each",
                                        "in",
                                        "where",
                                        "over",
                                        "using",
                                        "from",
                                        "parallel",
                                        "let",
                                        "x",
                                        "r",
                                        "g",
                                        "s",
                                        "g.size",
                                        "levels",
                                        "world",
                                        "->",
                                        "+>",
                                        ":",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "(",
                                        ")",
                                        ",",
                                        "..<",
                                        ">..",
                                        "**",
                                        "xor",
                                        "mod",
                                        "&",
                                        "|",
                                        "<<",
                                        ">>",
                                        "log(r, 2)",
                                        "if",
                                        "then",
                                        "else",
                                        "if r == 0 then 1 else r",
                                        "if r < 2 { x : r -> r + 1 } else",
                                        "let f(i) = i + r",
                                        "f(s)",
                                        "0",
                                        "1",
                                        "2",
                                        "3",
                                        "7",
                                        "-",
                                        "+",
                                        "*",
                                        "/",
                                        "block(r, 2)",
                                        "x.part(0 of 2)",
                                        "log2(0)",
                                        "and",
                                        "not",
                                        "\n",
                                        "#",
                                        "\xff",
                                        "9223372036854775807",
                                        "reduce_scatter",
                                        "all_gather",
                                        "broadcast",
                                        "reduce",
                                        "gather",
                                        "scatter",
                                        "from",
                                        "to",
                                        "all_reduce",
                                        "state",
                                        "like x",
                                        "partition",
                                        "approximate",
                                        "lossy",
                                        "with w",
                                        "e = e + x",
                                        "let s = mstopk(x, 0.5)",
                                        "all_gather s over world",
                                        "all_gather x over world as int8 keeping e",
                                        "reduce_scatter x over world as sign(64)",
                                        "x = sum(s)",
                                        "e = e - dense(s)",
                                        "cleared(e, s)",
                                        "let n = total(x * x)",
                                        "sum(n)",
                                        "sqrt(x)",
                                        "select(x, 1, 0.5)",
                                        "float16(w)",
                                        "nic eth1",
                                        "nic 10.0.1.0/24",
                                        "1e-3",
                                        "2.5",
                                        "w",
                                        "collective",
                                        "before each r in g x : r",
                                        "after each r in g x[r] : r = combined x[r] : g",
                                        "combined x : q in g where q != r",
                                        "update",
                                        "workers",
                                        "import \"ring.sched\"",
                                        "import \"nowhere.sched\"",
                                        "import \"",
                                        "round",
                                        "0.9 ** round",
                                        "w = w - 0.1 * g",
                                        "="};

// Bytes flipped, pieces cut out, doubled, swapped between files, words of the language put in.
std::string mutate(std::string text, const std::vector<std::string>& corpus, std::mt19937& random) {
    const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
    for (std::size_t i = 1 + below(6); i-- > 0;) {
        const std::size_t at = below(text.size() + 1),
                          length = below(std::min<std::size_t>(text.size() - at + 1, 40));
        switch (below(6)) {
            case 0:
                if (at < text.size()) text[at] = static_cast<char>(random());
                break;
            case 1:
                text.erase(at, length);
                break;
            case 2:
                text.insert(at, text.substr(at, length));
                break;
            case 3: {
                const std::string& other = corpus[below(corpus.size())];
                const std::size_t from = below(other.size());
                text.insert(at, other.substr(from, below(60)));
                break;
            }
            default:
                text.replace(at, below(8), " " + words[below(words.size())] + " ");
        }
    }
    return text;
}

}  // namespace

// Drops, doubles and swaps lines of a text, or inserts lines of another text: the result is more often right
// than after mutate().
std::string mutate_lines(const std::string& text, const std::vector<std::string>& corpus,
                         std::mt19937& random) {
    const auto lines_of = [](const std::string& of) {
        std::vector<std::string> lines;
        std::istringstream stream(of);
        for (std::string line; std::getline(stream, line);) lines.push_back(line);
        return lines;
    };
    std::vector<std::string> lines = lines_of(text);
    const std::vector<std::string> other = lines_of(corpus[random() % corpus.size()]);
    for (std::size_t i = 1 + random() % 3; i-- > 0;) {
        const auto at = [&] { return lines.begin() + static_cast<std::ptrdiff_t>(random() % lines.size()); };
        switch (random() % 4) {
            case 0:
                if (lines.size() > 1) lines.erase(at());
                break;
            case 1:
                std::iter_swap(at(), at());
                break;
            case 2: {
                const std::string line = *at();
                lines.insert(at(), line);
                break;
            }
            default:
                lines.insert(at(), other[random() % other.size()]);
        }
    }
    std::string result;
    for (const std::string& line : lines) result += line + "\n";
    return result;
}

TEST_CASE("mutated schedules are accepted or refused, and never crash the compiler") {
    const std::vector<std::string> texts = corpus();
    REQUIRE(texts.size() >= 8);
    std::mt19937 random(20);
    for (int round = 0; round < hocket::test::in_long_form(40000, 15000); ++round) {
        const std::string text = mutate(texts[random() % texts.size()], texts, random);
        CHECK(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()) == 0);
    }
    CHECK(parsed_inputs > hocket::test::in_long_form(1000, 400));
    CHECK(right_definitions > hocket::test::in_long_form(1000, 400));
}

TEST_CASE("mutated schedules that compute are accepted or refused, and never crash the compiler") {
    const std::vector<std::string> all = corpus();
    std::vector<std::string> texts;
    for (const std::string& text : all)
        if (text.find("state ") != std::string::npos && text.find("schedule ") != std::string::npos)
            texts.push_back(text);
    REQUIRE(texts.size() >= 3);
    std::mt19937 random(21);
    parsed_inputs = right_computations = 0;
    for (int round = 0; round < hocket::test::in_long_form(4000, 1600); ++round) {
        std::string text = mutate_lines(texts[random() % texts.size()], texts, random);
        if (round % 4 == 0) text = mutate(text, texts, random);
        CHECK(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()) == 0);
    }
    CHECK(parsed_inputs > hocket::test::in_long_form(800, 320));
    CHECK(right_computations > hocket::test::in_long_form(2000, 800));
}

TEST_CASE("mutated contracts are accepted or refused, and never crash the compiler") {
    const std::vector<std::string> all = corpus();
    std::vector<std::string> texts;
    for (const std::string& text : all)
        if (text.find("collective ") != std::string::npos) texts.push_back(text);
    REQUIRE(texts.size() >= 2);
    std::mt19937 random(23);
    parsed_inputs = right_contracts = 0;
    for (int round = 0; round < hocket::test::in_long_form(4000, 1600); ++round) {
        const std::string& whole = texts[random() % texts.size()];
        const std::string text =
            round % 4 == 0 ? mutate(whole, texts, random) : mutate_lines(whole, texts, random);
        CHECK(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()) == 0);
    }
    CHECK(parsed_inputs > hocket::test::in_long_form(500, 200));
    CHECK(right_contracts > hocket::test::in_long_form(2000, 800));
}

TEST_CASE("mutated updates are accepted or refused, and never crash the compiler") {
    const std::vector<std::string> all = corpus();
    std::vector<std::string> texts;
    for (const std::string& text : all)
        if (text.find("update ") != std::string::npos) texts.push_back(text);
    REQUIRE(!texts.empty());
    std::mt19937 random(22);
    parsed_inputs = right_updates = 0;
    for (int round = 0; round < hocket::test::in_long_form(4000, 1600); ++round) {
        const std::string& whole = texts[random() % texts.size()];
        const std::string text =
            round % 4 == 0 ? mutate(whole, texts, random) : mutate_lines(whole, texts, random);
        CHECK(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()) == 0);
    }
    CHECK(parsed_inputs > hocket::test::in_long_form(900, 360));
    CHECK(right_updates > hocket::test::in_long_form(4000, 1600));
}
