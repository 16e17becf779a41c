// Contracts against plain executions: random ones with random schedules, and the table's collectives written
// as contracts.
#include <fmt/format.h>

#include <array>
#include <random>
#include <regex>

#include "dsl/elaboration/find.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/dsl/simulate.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Collective;
using dsl::Rank;

namespace {

// ---- Random contracts and schedules
// ------------------------------------------------------------------------

constexpr int most_ranks = 5;

// How often each rank's value of a chunk of the inputs is in a place.
struct Content {
    std::array<int, most_ranks> parts{};
    int chunk = 0;

    bool is_empty() const { return parts == std::array<int, most_ranks>{}; }
    friend bool operator==(const Content&, const Content&) = default;
};

struct Move {
    int chunk, from, to, target;
    bool combines;
};

struct Claim {
    int rank, chunk;
    Content content;
};

struct Job {
    int ranks = 2, chunks = 1;
    std::vector<std::vector<bool>> held;  // by rank and chunk
    std::vector<std::vector<Move>> phases;
    std::vector<Claim> claims;

    std::string place(int chunk, int rank) const {
        return chunks == 1 ? fmt::format("x : {}", rank) : fmt::format("x[{}] : {}", chunk, rank);
    }
};

class Random {
  public:
    explicit Random(unsigned seed) : engine_(seed) {}
    int below(int end) { return static_cast<int>(engine_() % static_cast<unsigned>(end)); }
    bool one_in(int times) { return below(times) == 0; }

  private:
    std::mt19937 engine_;
};

// Runs the moves without the compiler. Returns nothing if they break a rule of the language.
using State = std::vector<std::vector<Content>>;
bool run_phase(const std::vector<Move>& moves, State& state) {
    const State before = state;
    for (std::size_t i = 0; i < moves.size(); ++i) {
        const Move& move = moves[i];
        const Content& sent = before[move.from][move.chunk];
        Content& to = state[move.to][move.target];
        if (sent.is_empty()) return false;
        for (std::size_t j = 0; j < i; ++j)
            if (moves[j].to == move.to && moves[j].target == move.target &&
                !(moves[j].combines && move.combines))
                return false;
        if (!move.combines) {
            to = sent;
            continue;
        }
        if (to.is_empty() || to.chunk != sent.chunk) return false;
        for (int rank = 0; rank < most_ranks; ++rank)
            if ((to.parts[rank] += sent.parts[rank]) > 1) return false;
    }
    return true;
}

State start_of(const Job& job) {
    State state(job.ranks, std::vector<Content>(job.chunks));
    for (int rank = 0; rank < job.ranks; ++rank)
        for (int chunk = 0; chunk < job.chunks; ++chunk)
            if (job.held[rank][chunk]) state[rank][chunk].parts[rank] = 1, state[rank][chunk].chunk = chunk;
    return state;
}

bool is_right(const Job& job) {
    State state = start_of(job);
    for (const auto& phase : job.phases)
        if (!run_phase(phase, state)) return false;
    for (const Claim& claim : job.claims)
        if (!(state[claim.rank][claim.chunk] == claim.content)) return false;
    return true;
}

// Phases that break a rule are mostly drawn again.
void add_phases(Job& job, Random& random) {
    State state = start_of(job);
    for (int phase = random.below(4) + 1; phase > 0; --phase) {
        std::vector<Move> moves;
        for (int move = random.below(4) + 1; move > 0; --move) {
            const int chunk = random.below(job.chunks), from = random.below(job.ranks);
            moves.push_back({chunk, from, (from + 1 + random.below(job.ranks - 1)) % job.ranks,
                             random.one_in(8) ? random.below(job.chunks) : chunk, random.one_in(2)});
        }
        State next = state;
        const bool is_allowed = run_phase(moves, next);
        if (!is_allowed && !random.one_in(30)) continue;
        state = next;
        job.phases.push_back(moves);
    }
}

// Mostly what the moves bring about, or else another content that the inputs could make.
void add_claims(Job& job, Random& random) {
    State state = start_of(job);
    for (const auto& phase : job.phases) run_phase(phase, state);
    for (int rank = 0; rank < job.ranks; ++rank)
        for (int chunk = 0; chunk < job.chunks; ++chunk) {
            Content content = state[rank][chunk];
            if (random.one_in(2)) continue;
            if (random.one_in(12)) {
                content = {{}, random.below(job.chunks)};
                for (int other = 0; other < job.ranks; ++other)
                    content.parts[other] = job.held[other][content.chunk] && random.one_in(2);
            }
            for (const int times : content.parts)
                if (times > 1) content = {};
            if (!content.is_empty()) job.claims.push_back({rank, chunk, content});
        }
}

Job random_job(unsigned seed) {
    Random random(seed);
    Job job;
    job.ranks = 2 + random.below(most_ranks - 1);
    job.chunks = random.one_in(2) ? job.ranks : 1;
    job.held.assign(job.ranks, std::vector<bool>(job.chunks));
    for (auto& of_rank : job.held)
        for (int chunk = 0; chunk < job.chunks; ++chunk) of_rank[chunk] = !random.one_in(5);
    job.held[0][0] = true;
    add_phases(job, random);
    add_claims(job, random);
    return job;
}

std::string members_of(const Content& content) {
    std::string text;
    int only = 0, members = 0;
    for (int rank = 0; rank < most_ranks; ++rank)
        if (content.parts[rank]) {
            text += fmt::format("{}q == {}", text.empty() ? "" : " or ", rank);
            only = rank, ++members;
        }
    return members == 1 ? std::to_string(only) : "q in g where " + text;
}

std::string job_text(const Job& job) {
    std::string text = "collective random(x) over g {\n";
    for (int rank = 0; rank < job.ranks; ++rank)
        for (int chunk = 0; chunk < job.chunks; ++chunk)
            if (job.held[rank][chunk]) text += fmt::format("    before {}\n", job.place(chunk, rank));
    for (const Claim& claim : job.claims) {
        const std::string members = members_of(claim.content);
        const std::string from = job.chunks == 1 ? "x" : fmt::format("x[{}]", claim.content.chunk);
        text += fmt::format("    after {} = {}{} : {}\n", job.place(claim.chunk, claim.rank),
                            members.starts_with("q") ? "combined " : "", from, members);
    }
    text += "}\nalgorithm moves random(x) over g {\n";
    for (const auto& phase : job.phases) {
        text += "    each once in 0 ..< 1 {\n";
        for (const Move& move : phase)
            text += fmt::format(
                "        {} {} {}\n", job.place(move.chunk, move.from), move.combines ? "+>" : "->",
                move.target == move.chunk ? std::to_string(move.to) : job.place(move.target, move.to));
        text += "    }\n";
    }
    return text + "}\n";
}

std::uint64_t marked_by_rank(Rank rank, std::uint64_t element) {
    return (std::uint64_t{1} << (8 * rank)) + element * 1'000'003 * static_cast<std::uint64_t>(rank + 1);
}

// Returns the first difference between what the programs bring about with integers and the contract.
std::string difference(const Job& job, const dsl::CheckedSchedule& checked, std::uint64_t piece,
                       bool in_place) {
    std::vector<dsl::RankProgram> programs;
    for (Rank rank = 0; rank < job.ranks; ++rank) programs.push_back(checked.project(rank));
    std::vector<std::vector<std::uint64_t>> results;
    test::SimulationOptions options;
    options.count = piece * static_cast<std::uint64_t>(job.chunks), options.in_place = in_place;
    options.input = marked_by_rank, options.results = &results;
    options.fold = [](std::uint64_t a, std::uint64_t b) { return a + b; };
    if (std::string error = test::simulate(programs, options); !error.empty()) return error;
    for (const Claim& claim : job.claims)
        for (std::uint64_t i = 0; i < piece; ++i) {
            std::uint64_t wanted = 0;
            for (int rank = 0; rank < job.ranks; ++rank)
                if (claim.content.parts[rank])
                    wanted +=
                        marked_by_rank(rank, piece * static_cast<std::uint64_t>(claim.content.chunk) + i);
            if (results[claim.rank][piece * static_cast<std::uint64_t>(claim.chunk) + i] != wanted)
                return fmt::format("rank {}, chunk {}, element {}", claim.rank, claim.chunk, i);
        }
    return "";
}

// ---- The table's collectives as contracts
// --------------------------------------------------------------------

constexpr const char* definitions = R"(
collective own_all_reduce(x) over g {
    before each r in g  x : r
    after  each r in g  x : r = combined x : g
}
collective own_reduce_scatter(x) over g {
    before each r in g  x : r
    after  each r in g  x[r] : r = combined x[r] : g
}
collective own_all_gather(x) over g {
    before each r in g            x[r] : r
    after  each r in g, c in g    x[c] : r = x[c] : c
}
collective own_broadcast(x, root) over g {
    before              x : root
    after  each r in g  x : r = x : root
}
collective own_gather(x, root) over g {
    before each r in g  x[r] : r
    after  each c in g  x[c] : root = x[c] : c
}
collective own_reduce(x, root) over g {
    before each r in g  x : r
    after               x : root = combined x : g
}
collective own_scatter(x, root) over g {
    before              x : root
    after  each r in g  x[r] : r = x[r] : root
}
collective own_all_to_all(x) over g {
    before each r in g          x : r
    after  each r in g, s in g  x[s] : r = x[r] : s
}
)";

// Returns the text, and others in each of which one arrow is wrong or one destination is another.
std::vector<std::string> right_and_wrong(const std::string& text) {
    std::vector<std::string> all{text};
    const std::regex transfer(R"( ([+-])> ([^\n#]*[^\n# ]))");
    for (std::sregex_iterator match(text.begin(), text.end(), transfer), end; match != end; ++match) {
        const auto at = static_cast<std::size_t>(match->position());
        std::string flipped = text, elsewhere = text;
        flipped[at + 1] = text[at + 1] == '+' ? '-' : '+';
        elsewhere.insert(at + static_cast<std::size_t>(match->length()), " + 1");
        all.push_back(flipped);
        all.push_back(elsewhere);
    }
    return all;
}

// Returns the first line of the error, without the file and the prefix of the contracts' names.
std::string verdict_of(const std::string& text, Collective collective, const std::string& algorithm,
                       const std::string& topology, Rank root) {
    const test::TemporarySchedule file(text);
    const std::string error = test::error_of([&] {
        dsl::Library library({});
        library.load(file.path());
        const Collective own =
            text.starts_with(definitions)
                ? library.find_collective(fmt::format("own_{}", name_of(collective)))->collective
                : collective;
        dsl::PlanRequest request = test::request(own, file.path() + ":" + algorithm, topology, 0, root);
        request.search_path = {};
        dsl::check_schedule(request);
    });
    const std::string line = error.substr(0, error.find('\n'));
    const std::string message = line.substr(std::min(line.size(), line.find("error")));
    return std::regex_replace(std::regex_replace(message, std::regex("own_"), ""),
                              std::regex(" (from rank|to rank|with root) "), " root ");
}

}  // namespace

TEST_CASE("a random schedule is right by the proof exactly if it does what its random contract wants") {
    constexpr int each = 80;
    int right = 0, wrong = 0;
    for (unsigned seed = 0; right < each || wrong < each; ++seed) {
        const Job job = random_job(seed);
        if (job.claims.empty() || job.phases.empty()) continue;
        const bool wanted = is_right(job);
        if (++(wanted ? right : wrong) > each) continue;
        const std::string text = job_text(job);
        const test::TemporarySchedule file(text);
        INFO("seed " << seed << "\n" << text);
        std::unique_ptr<dsl::CheckedSchedule> checked;
        const std::string error = test::error_of([&] {
            dsl::Library library({});
            dsl::PlanRequest request = test::request(dsl::first_collective_of(library, file.path()),
                                                     file.path(), std::to_string(job.ranks));
            request.search_path = {};
            if (seed % 2) request.hosts.assign(job.ranks, 0);
            checked = dsl::check_schedule(request);
        });
        INFO(error);
        REQUIRE((error.empty()) == wanted);
        for (const bool in_place : {false, true})
            if (checked) REQUIRE(difference(job, *checked, 3, in_place) == "");
    }
}

TEST_CASE("the table's collectives, written as contracts, are proved and refused alike") {
    const std::regex header(R"(algorithm (\w+) (\w+)\()");
    int refused = 0;
    for (const char* name :
         {"ring.sched", "direct.sched", "halving.sched", "binomial.sched", "pairwise.sched"})
        for (const std::string& text : right_and_wrong(test::library_file(name)))
            for (std::sregex_iterator match(text.begin(), text.end(), header), end; match != end; ++match) {
                const auto collective =
                    std::find_if(std::begin(dsl::all_collectives), std::end(dsl::all_collectives),
                                 [&](Collective each) { return dsl::name_of(each) == (*match)[2].str(); });
                REQUIRE(collective != std::end(dsl::all_collectives));
                const std::string own =
                    definitions + std::regex_replace(text, header, "algorithm $1 own_$2(");
                for (const auto& [topology, root] : {std::pair("4", 0), {"4", 2}, {"2x2", 3}}) {
                    if (root > 0 && !contract_of(*collective).has_root()) continue;
                    INFO(name << " " << match->str() << " on " << topology << "\n" << text);
                    const std::string wanted =
                        verdict_of(text, *collective, (*match)[1], topology, static_cast<Rank>(root));
                    CHECK(verdict_of(own, *collective, (*match)[1], topology, static_cast<Rank>(root)) ==
                          wanted);
                    refused += !wanted.empty();
                }
            }
    CHECK(refused > 50);
}
