// The compiler against a second reading of the language's text, on random programs. HOCKET_DIFFERENTIAL_SEEDS
// = "first:last" runs others, HOCKET_DIFFERENTIAL_THOROUGH=1 all layouts, counts and orders of each.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>

#include "dsl/base/diagnostic.hpp"
#include "tests/differential/comparison.hpp"
#include "tests/differential/generator.hpp"
#include "tests/dsl/format_rules.hpp"
#include "tests/support/test.hpp"

using namespace hocket::differential;

namespace {

struct Seeds {
    std::uint64_t first = 1, last = 500;
};

Seeds seeds_to_run() {
    Seeds seeds;
    if (const char* text = std::getenv("HOCKET_DIFFERENTIAL_SEEDS")) {
        char* end = nullptr;
        seeds.first = std::strtoull(text, &end, 10);
        REQUIRE(*end == ':');
        seeds.last = std::strtoull(end + 1, nullptr, 10);
    }
    return seeds;
}

// A file of this process that programs are written to.
struct ProgramFile {
    std::string path = (std::filesystem::temp_directory_path() /
                        ("hocket-differential-" + std::to_string(getpid()) + ".sched"))
                           .string();
    ~ProgramFile() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("random programs mean to the compiler what they mean to the reference") {
    const ProgramFile file;
    ComparisonOptions options{file.path};
    options.thorough = std::getenv("HOCKET_DIFFERENTIAL_THOROUGH") != nullptr;
    const Seeds seeds = seeds_to_run();
    std::map<std::string, int> kinds;  // of differences
    int programs = 0, right = 0, refused = 0;
    for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
        const Program program = generate(seed, options_from_environment());
        const Comparison comparison = compare(program, options);
        ++programs;
        right += comparison.outcome == Comparison::Outcome::right;
        refused += comparison.outcome == Comparison::Outcome::refused;
        if (comparison.outcome != Comparison::Outcome::different) continue;
        if (kinds[comparison.kind]++ > 0) continue;  // one of a kind is enough to read
        const Program smallest = reduced(program, options);
        FAIL_CHECK(report(program, comparison) << "\nreduced:\n"
                                               << report(smallest, compare(smallest, {file.path, true})));
    }
    for (const auto& [kind, count] : kinds) FAIL_CHECK(kind << ": " << count << " programs");
    std::cout << programs << " programs: " << right << " right, " << refused << " refused by both, "
              << programs - right - refused << " different" << std::endl;
    // If most programs were refused, or none, little would be compared.
    if (programs < 100) return;
    CHECK(right * 100 >= programs * 60);
    CHECK(refused * 100 >= programs * 10);
}

TEST_CASE("the same seed gives the same program on every machine") {
    // FNV-1a of the texts of many programs: changes only when the generator is changed.
    std::uint64_t hash = 0xcbf29ce484222325;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        const Program program = generate(seed, GeneratorOptions());
        for (const char letter : program.text() + program.headline())
            hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
    }
    CHECK(hash == 0x19682cc6a9ecf770);
}

TEST_CASE("without mutations every program is right") {
    const ProgramFile file;
    GeneratorOptions generator = options_from_environment();
    generator.mutated_percent = 0;
    for (std::uint64_t seed = 100'001; seed <= 100'060; ++seed) {
        const Program program = generate(seed, generator);
        const hocket::reference::Meaning meaning(
            {program.text(), program.schedule, program.collective, program.levels, program.root});
        INFO(program.headline() << "\n" << program.text());
        CHECK(meaning.refusal() == "");
    }
}

TEST_CASE("random programs use all of the language") {
    static const std::vector<std::string> features{
        // collectives and topologies
        "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter",
        "all_to_all", "1 levels", "2 levels", "3 levels", "topology of the file",
        // statements
        "->", "+>", "transfer by itself", "each", "where", "product of ranges", "for", "parallel",
        "bare block", "if", "else", "if in an each", "let before where", "where sees a let",
        "let of a function", "function of two", "let of a number", "let of a buffer", "part",
        "part of a part", "let of a part in an each", "for over parts", "parallel over parts",
        "for over chunks", "parallel over chunks", "interleaved pieces", "group as a range", "range down",
        // regions and members
        "chunk", "slice", "block", "short block", "wrap-around", "xor of a member", "symmetric",
        "symmetric by xor", "relative to the root", "list as a number", "to another place",
        "to another buffer", "to the same place, by name", "within a member",
        // expressions
        "name of a number", "prefix -", "not", "and", "or", "unseen right side", "comparison as a number",
        "pow2", "log2", "log2_up", "min", "max", "mod", "/", "/ of a negative number", "xor", "**", "&", "|",
        "<<", ">>", "log", "log_up", "then of a value", "else of a value", "unseen side of a value",
        // algorithms and schedules
        "second buffer", "parameter of an algorithm", "argument by name", "argument by position",
        "where of an algorithm", "where of a schedule", "parameter", "own transfers",
        "own transfers of what is scattered", "composed all_reduce", "composed reduce_scatter",
        "composed all_gather", "composed broadcast", "composed reduce", "composed gather", "composed scatter",
        "composed all_to_all", "exchanged and exchanged back", "reduced, and broadcast later", "over world",
        "over a level", "over several levels", "for over levels", "for over levels.reversed",
        "for over levels by number", "strands over levels", "interleaved parts of a schedule",
        "family ring reduce_scatter", "family halving all_reduce", "family Bruck all_gather",
        "family radix broadcast", "family binomial broadcast", "family binomial gather",
        "family chain scatter", "family direct reduce", "family butterfly all_reduce",
        "family exchange all_reduce", "family two chains all_gather", "family Bruck all_to_all",
        "family swaps all_to_all", "family turned all_gather", "family turned reduce_scatter"};
    std::map<std::string, int> found;
    int mutated = 0, longest = 0;
    for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
        const Program program = generate(seed, GeneratorOptions());
        for (const std::string& feature : program.features) ++found[feature];
        mutated += program.mutations > 0;
        longest = std::max(longest, static_cast<int>(program.text().size()));
        CHECK(program.ranks() >= 1);
        CHECK(program.ranks() <= 12);
    }
    for (const std::string& feature : features) {
        INFO(feature);
        CHECK(found[feature] > 0);
    }
    CHECK(mutated > 100);
    CHECK(longest < 100'000);  // people read them
}

TEST_CASE("formatting keeps random programs") {
    const Seeds seeds = seeds_to_run();
    int formatted = 0;
    for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
        const hocket::dsl::SourceFile file{"t.sched", generate(seed, options_from_environment()).text()};
        INFO(file.text);
        try {
            const std::string fault = hocket::test::format_fault(file);
            CHECK(fault == "");
            ++formatted;
        } catch (const hocket::dsl::DiagnosticError&) {  // a mutation made it wrong
        }
    }
    CHECK(formatted > static_cast<int>(seeds.last - seeds.first) / 2);
}
