#include "runtime/engine/plan_maker.hpp"

#include <fmt/format.h>

#include <utility>

#include "dsl/base/quantities.hpp"
#include "runtime/base/log.hpp"
#include "runtime/compute/program/dsl_errors.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/engine/plan/small_starts.hpp"

namespace hocket::engine {
namespace {

// Returns the first three of the estimates in "all_reduce of 4 KiB on 2m (2 ranks): ring 1 us, direct 2 us,
// flat 3 us, tree 4 us (estimates)". Names may have arguments.
std::string in_short(const std::string& estimates) {
    const std::size_t colon = estimates.find(": ");
    const std::size_t begin = colon == std::string::npos ? 0 : colon + 2;
    int open = 0, shown = 0;
    for (std::size_t at = begin; at < estimates.size(); ++at) {
        open += estimates[at] == '(' ? 1 : estimates[at] == ')' ? -1 : 0;
        if (estimates[at] == ',' && open == 0 && ++shown == 3)
            return estimates.substr(begin, at - begin) + ", ...";
    }
    return estimates.substr(begin);
}

}  // namespace

PlanMaker::PlanMaker(const Connections& connections, const RankLog& log)
    : connections_(connections), options_(connections.options()), log_(log), executor_(options_.executor) {
    const std::string& tuning = connections.agreement().tuning;
    if (!tuning.empty()) tuning_ = parse_tuning(tuning)[connections.shape()];
}

// Returns the communicator's schedule if it exists for the collective, otherwise "". "ring" has no broadcast,
// but a program that uses it for all_reduce may still broadcast. If the schedule exists for no collective,
// its name is returned, so that the error says where it was looked for.
std::string PlanMaker::own_schedule(dsl::Collective collective) const {
    using dsl::Collective;
    if (options_.schedule.empty()) return "";
    const Planning::Turn turn = options_.planning->turn(options_.timeout);
    if (!own_collectives_) {
        dsl::Library library = in_dsl([&] { return turn.planner().library(options_.schedule_path); });
        std::set<Collective> existing;
        for (const Collective which :
             in_dsl([&] { return dsl::collectives_for(library, options_.schedule); })) {
            try {
                in_dsl([&] { return dsl::find_runnable(library, options_.schedule, which); });
                existing.insert(which);
            } catch (const Error& error) {
                if (error.status() != Status::not_found) throw;
            }
        }
        own_collectives_ = std::move(existing);
    }
    return own_collectives_->empty() || own_collectives_->contains(collective) ? options_.schedule : "";
}

std::shared_ptr<const dsl::Operator> PlanMaker::find_operator(const std::string& text) const {
    const Planning::Turn turn = options_.planning->turn(options_.timeout);
    return in_dsl([&] {
        dsl::Library library = turn.planner().library(options_.schedule_path);
        return std::make_shared<const dsl::Operator>(dsl::find_operator(library, text));
    });
}

dsl::Collective PlanMaker::find_collective(const std::string& text, const std::string& schedule) const {
    const Planning::Turn turn = options_.planning->turn(options_.timeout);
    return in_dsl([&] {
        dsl::Library library = turn.planner().library(options_.schedule_path);
        return dsl::find_collective(library, text, schedule);
    });
}

// Says it on one rank, once for all groups.
void PlanMaker::warn_of(const std::vector<std::string>& passed_over, const Planning::Turn& turn) const {
    if (options_.job_rank != 0 || passed_over.empty() || !turn.warns_for_the_first_time()) return;
    for (const std::string& text : passed_over)
        log_line("hocket: warning: not all that lies in the folders of the schedule path can run: {}", text);
}

std::unique_ptr<dsl::CheckedSchedule> PlanMaker::check(dsl::PlanRequest request) const {
    const Planning::Turn turn = options_.planning->turn(options_.timeout);
    request.deadline = dsl::Deadline(options_.timeout);  // without the other threads' planning
    return in_dsl([&] {
        warn_of(turn.planner().library(request.search_path).passed_over(), turn);
        return turn.planner().check(request);
    });
}

// Returns the schedule that was measured to be the fastest. Returns null if nothing was measured, or if that
// schedule no longer runs, which is then so on every rank.
std::unique_ptr<dsl::CheckedSchedule> PlanMaker::tuned_schedule(dsl::PlanRequest request,
                                                                std::vector<std::string>& why) const {
    const TunedRange* tuned = find(tuning_, request.collective, request.bytes);
    if (!tuned) return nullptr;
    request.schedule = tuned->schedule;
    try {
        auto checked = check(request);
        why.push_back(fmt::format(
            "tuned: {} {} measured at {} ({})", tuned->schedule, dsl::text_of_time(tuned->us * 1e-6),
            dsl::text_of_size(static_cast<double>(tuned->bytes)), connections_.agreement().tuning_file));
        return checked;
    } catch (const Error& error) {
        if (error.status() != Status::schedule && error.status() != Status::not_found) throw;
        // The measurement was of equal counts and of a sum: the schedule may not support other counts, or may
        // need more of an operator.
        if ((request.counts != dsl::Counts::alike || request.op) && error.status() == Status::schedule)
            return nullptr;
        if (connections_.rank() == 0 && !warned_.exchange(true))
            log_line(
                "hocket: warning: {} cannot be run by {}, as the tuning table {} says: {}\n"
                "  hint: run hocket-tune again, or set HOCKET_TUNING=off",
                dsl::name_of(request.collective), tuned->schedule, connections_.agreement().tuning_file,
                error.what());
        return nullptr;
    }
}

// bytes: of x. Sizes for which the schedule is identical share a plan.
SizedPlans::Sized PlanMaker::make(const PlanChoice& choice, std::uint64_t bytes,
                                  const SizedPlans::Made& made) const {
    device::find_driver();  // small starts don't look for the driver
    if (choice.root < 0 || choice.root >= connections_.size())
        throw Error(Status::invalid_argument, fmt::format("the root is {}; it must be a rank, 0 to {}",
                                                          choice.root, connections_.size() - 1));
    dsl::PlanRequest request;
    request.collective = choice.collective;
    request.schedule = choice.schedule ? *choice.schedule : own_schedule(choice.collective);
    const std::string named_by = request.schedule.empty() ? ""
                                 : choice.schedule        ? "the program names it"
                                                          : "the communicator's schedule";
    request.topology = connections_.planning_topology();
    request.search_path = options_.schedule_path;
    request.ranks = connections_.size();
    request.root = choice.root;
    request.hosts = connections_.agreement().hosts;
    const LocalPeers* local_peers = connections_.local_peers();
    const bool in_turns = local_peers != nullptr && local_peers->members() == connections_.size() &&
                          local_peers->ranks_per_core() > 1 && !contract_of(choice.collective).combines();
    request.protocol = protocol_of(bytes, local_peers != nullptr, in_turns);
    request.bytes = bytes;
    request.op = choice.op.defined();
    if (choice.is_uneven)
        request.counts =
            contract_of(choice.collective).exchanges() ? dsl::Counts::by_pair : dsl::Counts::by_rank;
    SizedPlans::Sized sized;
    std::unique_ptr<dsl::CheckedSchedule> checked;
    if (request.schedule.empty()) checked = tuned_schedule(request, sized.reasons);
    sized.is_measured = checked != nullptr;
    if (!checked) checked = check(request);
    sized.schedule = checked->name();
    sized.reasons.insert(sized.reasons.end(), checked->choices().begin(), checked->choices().end());
    sized.text = sized.schedule;
    for (const std::string& reason : sized.reasons) sized.text += "\n" + reason;
    for (const SizedPlans::Sized& known : made)
        if (known.plan->program().fingerprint == checked->fingerprint() &&
            known.plan->program().protocol == request.protocol)
            sized.plan = known.plan;
    if (sized.plan) {
        log_choice(choice, sized, bytes, named_by, true);
        return sized;
    }
    dsl::RankProgram program = in_dsl([&] { return checked->project(connections_.rank()); });
    sized.plan = StartablePlan::make(std::move(program), choice.type, choice.op, executor_of(choice),
                                     {.is_uneven = choice.is_uneven,
                                      .runs_on_devices = options_.cuda_plans,
                                      .compute = {choice.tensors, options_.kernel_threads}});
    log_choice(choice, sized, bytes, named_by, false);
    return sized;
}

void PlanMaker::log_choice(const PlanChoice& choice, const SizedPlans::Sized& sized, std::uint64_t bytes,
                           const std::string& named_by, bool is_there_already) const {
    const LogLevel level = choice.is_for_rendezvous || is_there_already ? LogLevel::debug : LogLevel::info;
    if (!log_.has(level)) return;
    const std::string why = !named_by.empty()       ? named_by
                            : sized.reasons.empty() ? "the only one there is"
                            : sized.is_measured     ? sized.reasons.front()
                                                    : "by estimate: " + in_short(sized.reasons.front());
    const dsl::Contract contract = contract_of(choice.collective);
    log_.log(level, "{}{} of {}{}{}, up to {}: schedule {} ({}); executor {}{}",
             dsl::name_of(choice.collective), choice.is_uneven ? "_v" : "", name_of(choice.type),
             contract.combines() ? " " : "", contract.combines() ? choice.op.name() : "",
             dsl::text_of_size(static_cast<double>(bytes)), sized.schedule, why,
             sized.plan->executor().name(),
             choice.is_for_rendezvous ? "; for a barrier"
             : is_there_already       ? "; with a plan that is there already"
                                      : "");
    if (!log_.has(LogLevel::debug)) return;
    for (const std::string& reason : sized.reasons) log_.log(LogLevel::debug, "  {}", reason);
}

}  // namespace hocket::engine
