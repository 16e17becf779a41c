#include "dsl/planning/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/quantities.hpp"
#include "dsl/elaboration/find.hpp"
#include "dsl/planning/estimate.hpp"
#include "dsl/syntax/parse.hpp"

namespace hocket::dsl {
namespace {

constexpr double alike = 1.12;  // ratio of estimates that count as equal: the model's own error is larger
constexpr std::uint64_t usual_bytes = 1 << 20;
// The largest graph that is laid out for an estimate; this takes a fraction of a second.
constexpr double step_limit = 1 << 17;

using Algorithms = std::vector<const ast::Algorithm*>;

using Graph = std::shared_ptr<const StepGraph>;

// Laying out the steps of all ranks would take too long; the root's own then stand for them.
// own_steps: the root's.
bool is_for_one(std::size_t own_steps, Rank ranks) {
    return double(own_steps) * ranks / 2 > step_limit;
}

// Numbers of tiles: the most that is tried, and the most that is followed on so many ranks. Of larger ones
// those are followed whose graphs are small.
constexpr std::int64_t most_chosen_tiles = 1024, most_followed_tiles = 16;
constexpr std::size_t most_followed_moves = 1 << 15;
constexpr std::int64_t followed_tiles(Rank ranks) {
    const auto with_so_many_moves = most_followed_moves / static_cast<std::size_t>(ranks);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_floor(with_so_many_moves)), 2,
                                    most_followed_tiles);
}
// No number is chosen whose graph has more moves: to prove so many takes about a second.
constexpr std::size_t most_chosen_moves = 1 << 21;

// Estimates a schedule or algorithm on a topology. `own` is the graph of the root's steps. The estimate is
// made from the steps of all ranks, which are stored in `whole` if that is not null; if those would be too
// many, from the root's own.
Estimate estimate_of(const StepGraph& own, const Runnable& runnable, const Library& library,
                     const Topology& topology, Rank root, const Chooser& chooser, const Deadline& deadline,
                     Graph* whole = nullptr) {
    if (is_for_one(own.steps.size(), topology.ranks())) return {own, topology, root, deadline};
    auto graph = std::make_shared<const StepGraph>(
        elaborate(runnable, library, topology, {root, std::nullopt, chooser, {}, deadline}));
    Estimate estimate(*graph, topology, std::nullopt, deadline);
    if (whole) *whole = std::move(graph);
    return estimate;
}

}  // namespace

// ---- An algorithm for a group ------------------------------------------------------------------

// Finds the best algorithm for each group, once.
class Choices::ForGroups {
  public:
    struct Found {
        const ast::Algorithm* algorithm = nullptr;  // null: no algorithm is right
        std::string text;
    };

    ForGroups(const Library& library, const Topology& topology, const Deadline& deadline)
        : library_(library), topology_(topology), deadline_(deadline) {}

    const Library& library() const { return library_; }
    const Topology& topology() const { return topology_; }
    const Deadline& deadline() const { return deadline_; }

    const Found& find(Collective collective, const Group& group, double bytes) {
        const auto key = std::tuple(collective, group.levels, bytes);
        auto found = known_.find(key);
        if (found == known_.end()) found = known_.emplace(key, search(collective, group, bytes)).first;
        return found->second;
    }

  private:
    struct Candidate {
        const ast::Algorithm* algorithm;
        Estimate estimate;
    };

    // Returns the algorithms that can run on the group.
    const std::vector<Candidate>& candidates(Collective collective, const Group& group) {
        const auto [entry, is_new] = candidates_.try_emplace({collective, group.levels});
        if (!is_new) return entry->second;
        // If data come from a root, only one of the groups over these levels has them at a time.
        const Topology levels = restricted_to(group, topology_, !contract_of(collective).spreads());
        for (const ast::Algorithm* algorithm : library_.algorithms(collective, Library::Which::for_choice)) {
            try {
                const Runnable runnable = runnable_of(*algorithm);
                if (!is_allowed(runnable, group)) continue;
                const StepGraph own = elaborate(runnable, library_, levels, {0, 0, {}, {}, deadline_});
                entry->second.push_back(
                    {algorithm, estimate_of(own, runnable, library_, levels, 0, {}, deadline_)});
            } catch (const DiagnosticError&) {  // it cannot even be laid out, so it is never a choice
            }
        }
        return entry->second;
    }

    bool is_right(const ast::Algorithm& algorithm, Rank size) {
        const auto [entry, is_new] = right_.emplace(std::pair(&algorithm, size), false);
        if (!is_new) return entry->second;
        try {
            // Few roots suffice here, because the plan is later proved with its own root.
            verify_algorithm(runnable_of(algorithm), library_, size, ends_and_middle(size), deadline_);
            entry->second = true;
        } catch (const DiagnosticError&) {
        }
        return entry->second;
    }

    struct Rated {
        const ast::Algorithm* algorithm;
        double seconds;
        std::size_t peers;
        double stretches;  // of a message, on average

        auto key() const { return std::tuple(std::llround(seconds * 1e9), stretches); }
    };

    // Returns the algorithms, the best first. If estimates are almost equal, those with fewer peers come
    // first, because effects that the estimate leaves out (other streams on the link, the time until a
    // connection is fast again) grow with the number of peers.
    std::vector<Rated> ranked(Collective collective, const Group& group, double bytes) {
        std::vector<Rated> all;
        for (const Candidate& candidate : candidates(collective, group))
            all.push_back({candidate.algorithm, candidate.estimate.seconds(bytes, deadline_),
                           candidate.estimate.most_peers(), candidate.estimate.stretches()});
        std::stable_sort(all.begin(), all.end(),
                         [](const Rated& a, const Rated& b) { return a.key() < b.key(); });
        const auto is_alike = [&](const Rated& rated) { return rated.seconds <= all[0].seconds * alike; };
        std::stable_sort(all.begin(), std::find_if_not(all.begin(), all.end(), is_alike),
                         [](const Rated& a, const Rated& b) { return a.peers < b.peers; });
        return all;
    }

    Found search(Collective collective, const Group& group, double bytes) {
        Found found;
        found.text =
            fmt::format("{} over {} ({} ranks):", name_of(collective), name_of(topology_, group), group.size);
        const std::vector<Rated> all = ranked(collective, group, bytes);
        const bool by_peers = !std::is_sorted(
            all.begin(), all.end(), [](const Rated& a, const Rated& b) { return a.key() < b.key(); });
        for (const auto& [algorithm, seconds, peers, stretches] : all) {
            const bool chosen = !found.algorithm && is_right(*algorithm, group.size);
            found.text += fmt::format(" {} {}{},", algorithm->name.text, text_of_time(seconds),
                                      chosen || found.algorithm ? "" : " (wrong on this group)");
            if (chosen) found.algorithm = algorithm;
        }
        found.text.back() = ' ';
        found.text +=
            fmt::format("({}estimates at {})", by_peers ? "the fewest peers of those within 12 %; " : "",
                        text_of_size(bytes));
        return found;
    }

    const Library& library_;
    const Topology& topology_;
    const Deadline& deadline_;
    std::map<std::pair<Collective, std::vector<int>>, std::vector<Candidate>> candidates_;
    std::map<std::tuple<Collective, std::vector<int>, double>, Found> known_;
    std::map<std::pair<const ast::Algorithm*, Rank>, bool> right_;
};

namespace {

// Finds the part of x that each statement without `using` works on, in the order in which the statements are
// laid out. For this it lays the schedule out with each algorithm replaced by a transfer of everything that
// its group works on.
class Parts {
  public:
    std::vector<double> find(const Runnable& runnable, const Library& library, const Topology& topology,
                             Rank root, const Deadline& deadline) {
        const Chooser mark = [this](Collective collective, const Group&, Span,
                                    std::vector<Choice>&) -> const ast::Algorithm& {
            return add_mark(collective);
        };
        const StepGraph graph = elaborate(runnable, library, topology, {root, root, mark, {}, deadline});
        std::vector<double> parts(marks_.size(), 0.0);
        for (const Step& step : graph.steps)
            for (std::size_t i = 0; i < marks_.size(); ++i)
                if (graph.origins[step.origin].transfer.file == &marks_[i].source)
                    parts[i] = share_of(graph, graph.regions[step.region], usual_value_bytes);
        return parts;
    }

  private:
    struct Mark {
        SourceFile source;
        ast::File tree;
    };

    const ast::Algorithm& add_mark(Collective collective) {
        Mark& mark = marks_.emplace_back();
        const Contract contract = contract_of(collective);
        // A composition of a collective that a file defines has neither root nor chunks.
        const std::string_view name = contract.own ? name_of(Collective::all_reduce) : contract.name;
        mark.source = {"",
                       fmt::format("algorithm mark {}(x{}) over g {{ each r in g  x : r -> {}r + 1 }}", name,
                                   contract.has_root()    ? ", root"
                                   : contract.exchanges() ? ", y"
                                                          : "",
                                   contract.exchanges() ? "y : " : "")};
        mark.tree = parse(mark.source);
        return mark.tree.algorithms[0];
    }

    std::deque<Mark> marks_;  // a deque, so marks stay at their addresses
};

}  // namespace

// Facts about a schedule or algorithm, for one root, by its name with arguments.
struct Choices::Known {
    std::map<std::string, std::vector<double>> parts;  // see Parts
    std::map<std::string, std::size_t> strands;        // their number, where nothing has to be chosen
    std::map<std::pair<std::string, Algorithms>, Estimate> estimates;  // also by the chosen algorithms
};

Chooser Choices::chooser(const Runnable& runnable, Rank root, double bytes, std::shared_ptr<Known> known) {
    return [groups = groups_, known = std::move(known), runnable, root, bytes](
               Collective collective, const Group& group, Span call,
               std::vector<Choice>& choices) -> const ast::Algorithm& {
        auto parts = known->parts.find(runnable.name);
        if (parts == known->parts.end())
            parts = known->parts
                        .emplace(runnable.name, Parts().find(runnable, groups->library(), groups->topology(),
                                                             root, groups->deadline()))
                        .first;
        // Every statement that gets here adds one choice, so the number of choices is the statement's index.
        const auto& found = groups->find(collective, group, bytes * parts->second[choices.size()]);
        if (!found.algorithm)
            throw DiagnosticError(call,
                                  fmt::format("there is no algorithm for {} on a group of {} ranks",
                                              name_of(collective), group.size),
                                  groups->library().where_looked());
        choices.push_back({call, found.algorithm, found.text});
        return *found.algorithm;
    };
}

Chooser Choices::chooser(const Runnable& runnable, Rank root, std::uint64_t bytes) {
    return chooser(runnable, root, double(bytes ? bytes : usual_bytes), std::make_shared<Known>());
}

// ---- A schedule for the topology ---------------------------------------------------------------

struct Choices::Entrant {
    Runnable runnable;
    std::shared_ptr<Known> known;
};

// All schedules and algorithms of a collective that may be chosen.
struct Choices::Field {
    Rank root;
    std::vector<Entrant> entrants;
    std::map<std::pair<std::uint64_t, Demands>, Chosen> chosen;  // by bytes
};

struct Choices::Candidate {
    Runnable runnable;
    Chooser chooser;
    std::size_t detours = 0;  // number of strands and choices; ties go to the smaller one
    double seconds = 0, busiest_link = 0;
    // Of a message, on average; and the ranks from which one gets messages. Ties go to the smaller ones, too.
    double stretches = 0;
    std::size_t peers = 0;
    bool is_for_one = false;  // the estimate is made from the root's steps
    std::size_t moves = 0;    // of all ranks; if the estimate is for one, about as many
    Graph whole = nullptr;    // for the proof, if it has just been laid out
};

Choices::Choices(Library& library, const Topology& topology, Proofs& proofs, const Deadline& deadline)
    : library_(library),
      topology_(topology),
      proofs_(proofs),
      deadline_(deadline),
      groups_(std::make_shared<ForGroups>(library, topology, deadline)) {}

Choices::~Choices() = default;

// Keeps only the last root's field of each collective.
Choices::Field& Choices::field(Collective collective, Rank root) {
    std::unique_ptr<Field>& field = fields_[collective];
    if (field && field->root == root) return *field;
    field = std::make_unique<Field>();
    field->root = root;
    std::set<std::string> names;  // in the form that PlanRequest::schedule takes
    for (const ast::Schedule* schedule : library_.schedules(collective, Library::Which::for_choice))
        names.insert(schedule->name.text);
    for (const ast::Algorithm* algorithm : library_.algorithms(collective, Library::Which::for_choice))
        if (!library_.find_schedule(algorithm->name.text, collective)) names.insert(algorithm->name.text);
    for (const std::string& name : names) {
        try {
            field->entrants.push_back({find_runnable(library_, name, collective), std::make_shared<Known>()});
        } catch (const DiagnosticError&) {  // it needs arguments
        }
    }
    return *field;
}

// Returns the runnable with its estimate; nullopt if it is no choice here.
std::optional<Choices::Candidate> Choices::candidate_of(const Runnable& runnable,
                                                        const std::shared_ptr<Known>& known, Rank root,
                                                        double bytes) {
    try {
        Candidate candidate{.runnable = runnable, .chooser = chooser(runnable, root, bytes, known)};
        const auto fixed = known->strands.find(runnable.name);
        if (fixed != known->strands.end()) {
            candidate.detours = fixed->second;
            rate(candidate, known->estimates.at({runnable.name, {}}), bytes);
            return candidate;
        }
        const StepGraph own =
            elaborate(runnable, library_, topology_, {root, root, candidate.chooser, {}, deadline_});
        // A schedule that computes does more than its collective promises, so it runs only if it is named.
        if (!own.computations.empty() || !own.extras.empty() || !own.parameters.empty()) return std::nullopt;
        candidate.detours = own.strands.size() + own.choices.size();
        std::pair<std::string, Algorithms> key{runnable.name, {}};
        for (const Choice& choice : own.choices) key.second.push_back(choice.algorithm);
        auto estimate = known->estimates.find(key);
        if (estimate == known->estimates.end()) {
            Estimate made = estimate_of(own, runnable, library_, topology_, root, candidate.chooser,
                                        deadline_, &candidate.whole);
            estimate = known->estimates.emplace(std::move(key), std::move(made)).first;
        }
        if (own.choices.empty()) known->strands.emplace(runnable.name, own.strands.size());
        rate(candidate, estimate->second, bytes);
        return candidate;
    } catch (const DiagnosticError&) {  // it doesn't run on this topology
        return std::nullopt;
    }
}

void Choices::rate(Candidate& candidate, const Estimate& estimate, double bytes) {
    candidate.seconds = estimate.seconds(bytes, deadline_);
    candidate.busiest_link = estimate.busiest_link();
    candidate.is_for_one = estimate.is_for_one();
    candidate.moves = estimate.moves() *
                      (candidate.is_for_one ? static_cast<std::size_t>(topology_.ranks()) : std::size_t{1});
    candidate.stretches = estimate.stretches();
    candidate.peers = estimate.most_peers();
}

// ---- Tiles -------------------------------------------------------------------------------------

// A pipeline takes its time for the first tiles, and then as long for each as for the one before. So where
// there are many, the estimate follows two numbers of tiles of the same size, and goes on from there.
std::optional<Choices::Candidate> Choices::in_tiles_of_size(const Runnable& automatic,
                                                            const std::shared_ptr<Known>& known, Rank root,
                                                            double bytes, std::int64_t tiles) {
    const auto followed = [&](std::int64_t count, double size) {
        return candidate_of(dsl::in_tiles(automatic, count), known, root, size);
    };
    try {
        const std::int64_t many = followed_tiles(topology_.ranks());
        if (tiles <= many) return followed(tiles, bytes);
        const std::int64_t few = many / 2;
        const double tile = bytes / double(tiles);
        const auto after_many = followed(many, tile * double(many));
        if (!after_many) return std::nullopt;
        const std::size_t moves = after_many->moves / std::size_t(many) * std::size_t(tiles);
        if (moves <= most_followed_moves) return followed(tiles, bytes);
        const auto after_few = followed(few, tile * double(few));
        if (!after_few) return std::nullopt;
        Candidate result = *after_many;
        result.runnable = dsl::in_tiles(automatic, tiles);
        result.chooser = chooser(result.runnable, root, bytes, known);
        result.whole = nullptr;
        result.moves = moves;
        result.seconds +=
            (after_many->seconds - after_few->seconds) / double(many - few) * double(tiles - many);
        return result;
    } catch (const DiagnosticError&) {  // a default or a condition has no value for this number
        return std::nullopt;
    }
}

// Returns the schedule in the number of tiles with the lowest estimate. The first numbers may be none that it
// runs in.
std::optional<Choices::Candidate> Choices::in_best_tiles(const Runnable& automatic,
                                                         const std::shared_ptr<Known>& known, Rank root,
                                                         double bytes) {
    std::optional<Candidate> best;
    std::size_t moves = 0;  // of the number before
    for (std::int64_t tiles = 1; tiles <= (best ? most_chosen_tiles : most_followed_tiles); tiles *= 2) {
        if (best && (double(tiles) * usual_value_bytes > bytes || 2 * moves > most_chosen_moves)) break;
        std::optional<Candidate> next = in_tiles_of_size(automatic, known, root, bytes, tiles);
        if (!next && !best) continue;
        // Estimates from one rank's steps are not to be compared with those from all ranks'.
        if (!next || (best && next->is_for_one != best->is_for_one)) break;
        if (best && next->seconds > best->seconds * alike) break;  // more only take longer
        moves = next->moves;
        if (!best || next->seconds < best->seconds) best = std::move(next);
    }
    return best;
}

Runnable Choices::in_tiles(const Runnable& runnable, Rank root, std::uint64_t bytes) {
    if (!runnable.automatic) return runnable;
    auto& [known_root, known] = named_[runnable.schedule];
    if (!known || known_root != root) known = std::make_shared<Known>();
    known_root = root;
    const auto best = in_best_tiles(runnable, known, root, double(bytes ? bytes : usual_bytes));
    return best ? best->runnable : runnable;
}

// Returns the schedules that can run on the topology, the best first.
std::vector<Choices::Candidate> Choices::candidates(const Field& field, double bytes) {
    std::vector<Candidate> result;
    double best = std::numeric_limits<double>::infinity();
    for (const Entrant& entrant : field.entrants) {
        const auto& [runnable, known] = entrant;
        std::optional<Candidate> next = runnable.automatic ? in_best_tiles(runnable, known, field.root, bytes)
                                                           : candidate_of(runnable, known, field.root, bytes);
        if (!next) continue;
        best = std::min(best, next->seconds);
        result.push_back(std::move(*next));
        // Drop the graphs of candidates that can no longer be chosen, to save memory.
        for (Candidate& known : result)
            if (known.seconds > best * alike) known.whole = nullptr;
    }
    sort_best_first(result);
    return result;
}

void Choices::sort_best_first(std::vector<Candidate>& candidates) {
    const auto key = [](const Candidate& candidate) {
        return std::tuple(std::llround(candidate.seconds * 1e9), candidate.detours, candidate.stretches,
                          candidate.peers, candidate.runnable.name);
    };
    std::sort(candidates.begin(), candidates.end(),
              [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
    // Links may be slower than assumed, so of candidates with almost equal estimates those that load links
    // least come first.
    const auto is_alike = [&](const Candidate& c) { return c.seconds <= candidates[0].seconds * alike; };
    const auto load = [](const Candidate& c) { return std::llround(c.busiest_link * 1e9); };
    std::stable_sort(candidates.begin(), std::find_if_not(candidates.begin(), candidates.end(), is_alike),
                     [&](const Candidate& a, const Candidate& b) { return load(a) < load(b); });
}

std::optional<Proofs::Proof> Choices::proof_if_right(const Candidate& candidate, Rank root) {
    try {
        return proofs_.prove(candidate.runnable, root, candidate.chooser, candidate.whole);
    } catch (const DiagnosticError&) {
        return std::nullopt;
    }
}

// Returns the reason why a correct schedule does not meet the demands, such as "not direct"; null if it does.
const char* Choices::fault_of(const Proofs::Proof& proof, const Demands& demands) {
    if (!allows(*proof.graph, demands.counts))
        return demands.counts == Counts::by_pair ? "not direct" : "moves pieces to other places";
    if (!demands.keeps_order && !demands.keeps_grouping) return nullptr;
    const OrderNeeds& needs = proofs_.order_needs_of(proof);
    if (demands.keeps_order && needs.commutative) return "needs a commutative operator";
    if (demands.keeps_grouping && needs.associative) return "needs an associative operator";
    return nullptr;
}

const Chosen& Choices::schedule(Collective collective, Rank root, std::uint64_t bytes,
                                std::optional<Proofs::Proof>* proof, const Demands& demands) {
    if (bytes == 0) bytes = usual_bytes;
    Field& field = this->field(collective, root);
    if (const auto known = field.chosen.find({bytes, demands}); known != field.chosen.end())
        return known->second;
    Chosen chosen;
    chosen.why = fmt::format("{} of {} on {} ({} ranks):", name_of(collective), text_of_size(double(bytes)),
                             topology_.name, topology_.ranks());
    const std::vector<Candidate> all = candidates(field, double(bytes));
    const bool by_link = !std::is_sorted(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
        return std::llround(a.seconds * 1e9) < std::llround(b.seconds * 1e9);
    });
    for (const Candidate& candidate : all) {
        auto proved = chosen.name.empty() ? proof_if_right(candidate, root) : std::nullopt;
        const char* const fault = proved ? fault_of(*proved, demands) : "wrong here";
        const bool first = proved && !fault;
        chosen.why += fmt::format(" {} {}{},", candidate.runnable.name, text_of_time(candidate.seconds),
                                  first || !chosen.name.empty() ? "" : fmt::format(" ({})", fault));
        if (first) {
            chosen.name = candidate.runnable.name;
            chosen.seconds = candidate.seconds;
            if (proof) *proof = std::move(proved);
        }
    }
    if (chosen.name.empty())
        throw DiagnosticError(Span(),
                              fmt::format("there is no {}schedule for {} that runs on topology {}{}",
                                          demands.counts == Counts::by_pair ? "direct " : "",
                                          name_of(collective), topology_.name,
                                          demands.keeps_order || demands.keeps_grouping
                                              ? " and needs no more of the operator than it promises"
                                              : ""),
                              library_.where_looked());
    chosen.why.back() = ' ';
    chosen.why += by_link ? "(the least on the busiest link of those within 12 %; estimates)" : "(estimates)";
    return field.chosen.emplace(std::pair(bytes, demands), std::move(chosen)).first->second;
}

std::vector<std::string> Choices::names(Collective collective, Rank root, std::uint64_t bytes) {
    std::vector<std::string> names;
    std::set<std::uint64_t> known;
    for (const Candidate& candidate :
         candidates(field(collective, root), double(bytes ? bytes : usual_bytes)))
        if (const auto proof = proof_if_right(candidate, root);
            proof && known.insert(proof->fingerprint).second)
            names.push_back(candidate.runnable.name);
    return names;
}

Chosen choose_schedule(Library& library, const Topology& topology, Collective collective, Rank root,
                       std::uint64_t bytes, const Deadline& deadline) {
    Proofs proofs(library, topology, deadline);
    return Choices(library, topology, proofs, deadline).schedule(collective, root, bytes);
}

double estimate_as_candidate(const StepGraph& graph, const Topology& topology, double bytes,
                             const Deadline& deadline, double value_bytes) {
    const auto is_others = [&](const Step& step) {
        return step.source != graph.root && step.destination != graph.root;
    };
    const auto others = std::count_if(graph.steps.begin(), graph.steps.end(), is_others);
    if (!is_for_one(graph.steps.size() - static_cast<std::size_t>(others), graph.ranks))
        return Estimate(graph, topology, std::nullopt, deadline, value_bytes).seconds(bytes, deadline);
    StepGraph own = graph;
    std::erase_if(own.steps, is_others);
    return Estimate(own, topology, graph.root, deadline, value_bytes).seconds(bytes, deadline);
}

std::vector<std::string> candidate_names(Library& library, const Topology& topology, Collective collective,
                                         Rank root, std::uint64_t bytes) {
    Proofs proofs(library, topology);
    return Choices(library, topology, proofs).names(collective, root, bytes);
}

}  // namespace hocket::dsl
