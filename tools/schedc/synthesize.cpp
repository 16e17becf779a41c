#include "tools/schedc/synthesize.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/quantities.hpp"
#include "dsl/base/runs.hpp"
#include "dsl/elaboration/find.hpp"
#include "dsl/planning/choose.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/planning/predictable.hpp"
#include "dsl/synthesis/synthesize.hpp"
#include "tools/result_place.hpp"
#include "tools/schedc/predict.hpp"
#include "tools/tool.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;

constexpr std::size_t most_quoted = 200;    // letters of a network
constexpr std::size_t most_named = 8;       // ranks and links of a cut that are printed
constexpr std::size_t most_of_library = 8;  // schedules of the library that are predicted,
constexpr double most_for_library = 10;     // and the seconds that this may take

volatile std::sig_atomic_t is_interrupted = 0;

// Ends the search at the first Ctrl-C. A second one ends the process, as always.
class Interruptible final : public Watcher {
  public:
    explicit Interruptible(Watcher* behind) : behind_(behind) {
        struct sigaction action = {};
        action.sa_handler = [](int) { is_interrupted = 1; };
        action.sa_flags = SA_RESETHAND;
        sigaction(SIGINT, &action, nullptr);
    }

    void look(std::string_view doing, std::uint64_t done, std::uint64_t all) override {
        if (is_interrupted) throw DeadlineError(fmt::format("interrupted, while {}", doing));
        if (behind_) behind_->look(doing, done, all);
    }

  private:
    Watcher* behind_;
};

// all: the number of those that the texts name.
std::string listed(const std::vector<std::string>& texts, std::size_t all) {
    std::string text;
    for (std::size_t i = 0; i < std::min(texts.size(), most_named); ++i)
        text += fmt::format("{}{}", i > 0 ? ", " : "", texts[i]);
    return texts.size() > most_named ? fmt::format("{}, ... ({} in all)", text, all) : text;
}

std::string bound_text(const SynthesisBound& bound, const SynthesizeRequest& request,
                       const std::string& topology) {
    std::string text = fmt::format(
        "bound: {} for {} of {}{} on {}, without latency\n", text_of_time(bound.seconds),
        text_of_size(static_cast<double>(request.bytes)), request.collective,
        request.collective == "all_reduce" ? " (a reduce_scatter, then an all_gather)" : "", topology);
    if (!bound.leaving.empty())
        text +=
            fmt::format("the worst cut is around rank{} {}\n{} by {}\n", bound.inside.size() == 1 ? "" : "s",
                        listed(runs_of(bound.inside), bound.inside.size()),
                        bound.comes_in ? "whose results need what comes in" : "whose data leave it",
                        listed(bound.leaving, bound.leaving.size()));
    return text;
}

// The head of the file.
std::string comment(const SynthesizeRequest& request, const Synthesized& found, const std::string& topology) {
    const std::string network = request.network.empty() ? ""
                                : request.network.size() > most_quoted
                                    ? ", on a network of its own"
                                    : fmt::format(", network {}", request.network);
    std::string text =
        fmt::format("Synthesized for {} of {} on {}{}: {}.", request.collective,
                    text_of_size(static_cast<double>(request.bytes)), topology, network, found.way);
    for (char& c : text)
        if (c == '\n' || c == '\r') c = ' ';
    return "# " + text + "\n\n";
}

std::string share(double part, double whole) {
    if (whole <= 0) return "";
    const double times = part / whole;
    return fmt::format(" ({:.{}f} times the bound)", times, times < 10 ? 2 : 0);
}

struct LibrarysBest {
    std::string name;
    double seconds = 0;
    std::size_t predicted = 0, candidates = 0;
};

// Predicts schedules of the library on the network: those first that the topology's estimate ranks first, as
// far as the time allows. watcher: what it throws ends the comparison.
LibrarysBest best_of_library(const SynthesisRequest& synthesis, const Topology& topology, Watcher& watcher) {
    PlanRequest plan;
    plan.collective = synthesis.collective;
    plan.topology = synthesis.topology;
    plan.ranks = synthesis.ranks;
    plan.search_path = synthesis.search_path;
    plan.root = synthesis.root;
    plan.bytes = synthesis.bytes;
    plan.deadline = Deadline(std::chrono::duration<double>(most_for_library), &watcher);
    const auto network_of = [&](const Topology& levels) {
        return std::make_shared<const Network>(find_network(synthesis.network, levels));
    };
    LibrarysBest best;
    const auto predict = [&](Planner& planner, const std::string& name) {
        plan.schedule = name;
        PredictableSchedule laid_out(planner.to_predict(plan, network_of, WhoseSteps::by_size),
                                     {.deadline = plan.deadline});
        const double seconds = laid_out.predict(static_cast<double>(plan.bytes), plan.deadline).seconds;
        ++best.predicted;
        if (best.predicted == 1 || seconds < best.seconds) best.name = name, best.seconds = seconds;
    };
    try {
        Planner planner;
        Library library = planner.library(synthesis.search_path);
        const std::vector<std::string> names =
            candidate_names(library, topology, plan.collective, plan.root, plan.bytes, plan.deadline);
        best.candidates = names.size();
        for (std::size_t i = 0; i < std::min(names.size(), most_of_library); ++i) try {
                predict(planner, names[i]);
            } catch (const DiagnosticError&) {  // too large to be predicted
            }
    } catch (const DeadlineError&) {    // the best so far
    } catch (const DiagnosticError&) {  // the library has none for it
    }
    return best;
}

std::string library_text(const LibrarysBest& best, double synthesized) {
    if (best.predicted == 0) return "the library's best: none could be predicted\n";
    std::string text = fmt::format("the library's best: {}, by {} ({} of {} predicted)",
                                   text_of_time(best.seconds), best.name, best.predicted, best.candidates);
    if (best.seconds < synthesized)
        text += "; it is faster than what was synthesized, so prefer it for this size";
    return text + "\n";
}

int synthesize(const SynthesizeRequest& request) {
    if (!request.output.empty() && !request.only_bound) check_place(request.output);
    Interruptible watcher(request.waiting);
    SynthesisRequest synthesis;
    synthesis.collective = find_collective(request.collective, "", request.search_path);
    synthesis.topology = request.topology;
    synthesis.network = request.network;
    synthesis.search_path = request.search_path;
    synthesis.ranks = request.ranks;
    synthesis.root = request.root;
    synthesis.bytes = request.bytes;
    synthesis.name = request.name;
    synthesis.seconds = request.seconds;
    synthesis.deadline = Deadline(std::chrono::duration<double>(request.seconds), &watcher);
    if (request.topology.empty() && request.ranks == 0)
        throw NotFoundError(
            "the number of ranks is missing: give --topology (levels, innermost first: 2x3) or --ranks");
    Synthesizer synthesizer(synthesis);
    const std::string topology = synthesizer.topology().name;
    const SynthesisBound bound = synthesizer.bound();
    if (request.only_bound) {
        if (request.waiting) request.waiting->end();
        fmt::print("{}", bound_text(bound, request, topology));
        return 0;
    }
    const Synthesized found = synthesizer.synthesize();
    if (request.waiting) request.waiting->end();
    const std::string text = comment(request, found, topology) + found.text;
    if (request.output.empty())
        fmt::print("{}", text);
    else
        write_result(request.output, text);
    if (!found.in_time)
        say("note: {}; this is the best so far",
            is_interrupted
                ? "interrupted before all was tried"
                : fmt::format("some searches did not end in their share of {:g} s", request.seconds));
    if (found.left_out > 0)
        say("note: {} of what was tried could not be had, at first: {}", found.left_out, found.why_left_out);
    fmt::print(stderr, "{}{}\nbusiest link: {}{}\npredicted: {}{}; {} schedules tried\n",
               bound_text(bound, request, topology), found.way, text_of_time(found.busiest),
               share(found.busiest, bound.seconds), text_of_time(found.seconds),
               share(found.seconds, bound.seconds), found.tried);
    if (is_interrupted) return 0;
    const LibrarysBest best = best_of_library(synthesis, synthesizer.topology(), watcher);
    if (request.waiting) request.waiting->end();
    fmt::print(stderr, "{}", library_text(best, found.seconds));
    return 0;
}

}  // namespace

int run_synthesize(const SynthesizeRequest& request) {
    try {
        return synthesize(request);
    } catch (const DeadlineError& error) {
        // The hint of planning speaks of schedules that somebody has written.
        const std::string text = error.what();
        const auto hint = text.find("\n  hint:");
        if (hint == std::string::npos) throw;
        throw DeadlineError(text.substr(0, hint) +
                            "\n  hint: there is no schedule yet: give it more time with --seconds, or take "
                            "fewer ranks");
    }
}

}  // namespace hocket::tools
