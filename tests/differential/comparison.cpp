#include "tests/differential/comparison.hpp"

#include <fmt/format.h>

#include <bit>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>

#include "dsl/base/diagnostic.hpp"
#include "dsl/planning/compile.hpp"
#include "tests/differential/random.hpp"
#include "tests/dsl/simulate.hpp"

namespace hocket::differential {
namespace {

using Outcome = Comparison::Outcome;

std::uint64_t input(std::int64_t rank, std::uint64_t element) {
    std::uint64_t mixed = (static_cast<std::uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15 + element;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    return mixed ^ mixed >> 27;
}

// Neither commutative nor associative: the order of combining shows.
std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
    return a * 0x94d049bb133111eb + std::rotl(b, 17) + 1;
}

const std::vector<std::uint64_t>& counts() {
    static const std::vector<std::uint64_t> all{0, 1, 2, 3, 7, 12, 64, 101};
    return all;
}

dsl::Collective collective_of(const Program& program) {
    for (const auto collective : dsl::all_collectives)
        if (dsl::name_of(collective) == program.collective) return collective;
    throw std::logic_error("no collective " + program.collective);
}

// The division of the ranks among hosts.
struct Layout {
    std::string name;
    std::vector<int> hosts;
    dsl::Protocol protocol = dsl::Protocol::bandwidth;
};

std::vector<Layout> layouts(dsl::Rank ranks, Random& random) {
    std::vector<Layout> all{{"each rank apart", {}}};
    for (const auto protocol : {dsl::Protocol::bandwidth, dsl::Protocol::latency}) {
        const std::string name = protocol == dsl::Protocol::bandwidth ? "fewest bytes" : "fewest waits";
        std::vector<Layout> some{{"one host", {}, protocol},
                                 {"pairs", {}, protocol},
                                 {"dealt in turn", {}, protocol},
                                 {"one apart", {}, protocol},
                                 {"at random", {}, protocol}};
        for (dsl::Rank rank = 0; rank < ranks; ++rank) {
            some[0].hosts.push_back(0);
            some[1].hosts.push_back(rank / 2);
            some[2].hosts.push_back(rank % 2);
            some[3].hosts.push_back(rank == 1 ? 1 : 0);
            some[4].hosts.push_back(static_cast<int>(random.below(3)));
        }
        for (Layout& layout : some) {
            layout.name += ", " + name;
            all.push_back(std::move(layout));
        }
    }
    return all;
}

class Comparing {
  public:
    Comparing(const Program& program, const ComparisonOptions& options)
        : program_(program), options_(options), random_(program.seed * 2 + 1), text_(program.text()) {}

    Comparison run() {
        std::ofstream(options_.file, std::ios::binary) << text_;
        std::string refusal;
        try {
            meaning_.emplace(reference::Request{text_, program_.schedule, program_.collective,
                                                program_.levels, program_.root});
            refusal = meaning_->refusal();
        } catch (const std::exception& error) {
            return {Outcome::different, "the reference fails", error.what()};
        }
        request_ = {
            collective_of(program_),
            options_.file + ":" + program_.schedule,
            program_.topology_is_defined ? options_.file + ":" + program_.topology : program_.topology,
            {},
            static_cast<dsl::Rank>(program_.ranks()),
            static_cast<dsl::Rank>(program_.root)};
        try {
            const auto checked = dsl::check_schedule(request_);
            if (!refusal.empty())
                return {Outcome::different, "accepted by the compiler alone" + gist(refusal),
                        "reference: " + refusal};
        } catch (const dsl::DiagnosticError& error) {
            return refused(refusal, error.what());
        } catch (const dsl::NotFoundError& error) {
            return refused(refusal, error.what());
        } catch (const std::exception& error) {
            return {Outcome::different, "the compiler fails", error.what()};
        }
        try {
            return values();
        } catch (const std::exception& error) {
            return {Outcome::different, "projection fails", where_ + ": " + error.what()};
        }
    }

  private:
    // The message without its numbers and names: differences with one cause have much the same gist.
    static std::string gist(const std::string& message) {
        const std::size_t begin = message.find("error: ");
        const std::string line =
            message.substr(begin == std::string::npos ? 0 : begin + 7, message.find('\n') - begin - 7);
        std::string text;
        bool quoted = false;
        for (const char letter : line.substr(line.find(": ") == std::string::npos ? 0 : line.find(": "))) {
            if (letter == '\'') quoted = !quoted;
            if (!quoted && !std::isdigit(static_cast<unsigned char>(letter))) text += letter;
        }
        return text.substr(0, 50);
    }

    static Comparison refused(const std::string& by_reference, const std::string& by_compiler) {
        const std::string text = "reference: " + by_reference + "\ncompiler: " + by_compiler;
        if (by_reference.empty())
            return {Outcome::different, "refused by the compiler alone" + gist(by_compiler), text};
        return {Outcome::refused, "", text};
    }

    Comparison values() {
        std::vector<Layout> all = layouts(request_.ranks, random_);
        const Layout apart = all[0];
        if (!options_.thorough) {
            random_.shuffle(all);
            all.resize(2);
            all.insert(all.begin(), apart);
        }
        for (const Layout& layout : all)
            if (std::string wrong = differs(layout); !wrong.empty())
                return {Outcome::different, "values", layout.name + ": " + wrong};
        return {};
    }

    std::string differs(const Layout& layout) {
        where_ = layout.name;
        request_.hosts = layout.hosts;
        request_.protocol = layout.protocol;
        const auto checked = dsl::check_schedule(request_);
        std::vector<dsl::RankProgram> programs;
        for (dsl::Rank rank = 0; rank < request_.ranks; ++rank) programs.push_back(checked->project(rank));
        if (std::string stuck = test::rendezvous(programs); !stuck.empty()) return stuck;
        std::vector<std::uint64_t> tried = counts();
        if (!options_.thorough) {
            random_.shuffle(tried);
            tried.resize(layout.hosts.empty() ? 3 : 2);
        }
        // Pieces that move to another place have one length there only if each rank has that many elements.
        if (meaning_->shifts())
            for (std::uint64_t& count : tried) count *= static_cast<std::uint64_t>(request_.ranks);
        for (const std::uint64_t count : tried)
            for (int order = 0; order < (options_.thorough ? 6 : 1); ++order) {
                test::SimulationOptions simulation;
                simulation.count = count;
                simulation.in_place = random_.chance(50);
                simulation.seed = static_cast<unsigned>(random_.below(1000));
                simulation.in_order = random_.chance(20);
                simulation.input = input;
                simulation.fold = fold;
                const std::vector<reference::Values>& expected = expected_of(count);
                simulation.expected = [&](dsl::Rank rank, std::uint64_t element) {
                    return expected.at(static_cast<std::size_t>(rank)).at(element);
                };
                if (std::string wrong = test::simulate(programs, simulation); !wrong.empty())
                    return fmt::format("count {}, in place {}, order {}{}: {}", count, simulation.in_place,
                                       simulation.seed, simulation.in_order ? " (program's)" : "", wrong);
            }
        return "";
    }

    const std::vector<reference::Values>& expected_of(std::uint64_t count) {
        const auto [entry, is_new] = expected_.try_emplace(count);
        if (is_new) entry->second = meaning_->run(count, input, fold);
        return entry->second;
    }

    const Program& program_;
    const ComparisonOptions& options_;
    Random random_;
    std::string text_, where_;
    std::optional<reference::Meaning> meaning_;
    dsl::PlanRequest request_;
    std::map<std::uint64_t, std::vector<reference::Values>> expected_;
};

// Tries each statement of each list: `change` makes it smaller, or returns false.
bool reduce_once(Program& program, const std::function<bool(Statements&, std::size_t)>& change,
                 const std::function<bool()>& is_still_different) {
    const std::size_t kept = program.topology_is_defined ? 1 : 0;  // the topology's definition stays
    const std::size_t lists = lists_of(program.definitions).size();
    for (std::size_t i = 0; i < lists; ++i)
        for (std::size_t at = i == 0 ? kept : 0; at < lists_of(program.definitions)[i]->size(); ++at) {
            const Statements before = program.definitions;
            if (change(*lists_of(program.definitions)[i], at) && is_still_different()) return true;
            program.definitions = before;
        }
    return false;
}

bool drop(Statements& list, std::size_t at) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
}

// A block's statements without the block.
bool unwrap(Statements& list, std::size_t at) {
    if (!list[at].has_block) return false;
    const Statements inner = list[at].body;
    const auto place = list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    list.insert(place, inner.begin(), inner.end());
    return true;
}

}  // namespace

Comparison compare(const Program& program, const ComparisonOptions& options) {
    return Comparing(program, options).run();
}

Program reduced(Program program, const ComparisonOptions& options) {
    const std::string kind = compare(program, options).kind;
    // With fewer statements another order of events may be the one that shows it.
    ComparisonOptions looking = options;
    looking.thorough = kind == "values";
    int tries_left = looking.thorough ? 300 : 1000;
    const auto is_still_different = [&] {
        return tries_left-- > 0 && compare(program, looking).kind == kind;
    };
    while (tries_left > 0)
        if (!reduce_once(program, drop, is_still_different) &&
            !reduce_once(program, unwrap, is_still_different))
            break;
    return program;
}

std::string report(const Program& program, const Comparison& comparison) {
    return fmt::format("{}\n{}\n{}: {}\n", program.headline(), program.text(), comparison.kind,
                       comparison.text);
}

}  // namespace hocket::differential
