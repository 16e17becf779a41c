#include "runtime/engine/communicator.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "dsl/planning/compile.hpp"
#include "dsl/planning/estimate.hpp"
#include "runtime/base/caught.hpp"
#include "runtime/base/log.hpp"
#include "runtime/compute/program/dsl_errors.hpp"
#include "runtime/engine/job/agreement.hpp"
#include "runtime/engine/job/open_fabric.hpp"
#include "runtime/transport/net/own_address.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::engine {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds goodbye_limit{500};
constexpr auto verdict_within = 1s;  // time for rank 0 to say which failure was the first

// Up to this size, a rank's part of the work costs less than waiting for the others once more.
constexpr std::uint64_t small_bytes = 16 * 1024;

std::string joined(const std::vector<std::string>& folders) {
    std::string path;
    for (const std::string& folder : folders) path += (path.empty() ? "" : ":") + folder;
    return path;
}

transport::BootstrapOptions bootstrap_options(const Options& options) {
    transport::BootstrapOptions result;
    result.rank = options.rank;
    result.world_size = options.world_size;
    result.master_addr = options.master_addr;
    result.master_port = options.master_port;
    result.listen_fd = options.listen_fd;
    result.lobby = options.lobby;
    result.is_newcomer = options.is_newcomer;
    result.newcomers = options.newcomers;
    result.newcomers_wait = options.newcomers_wait;
    result.host_listens = options.host_listens;
    result.abandoned = options.abandoned;
    result.secret = options.secret;
    result.join_timeout = options.join_timeout;
    result.heartbeat_timeout = options.heartbeat_timeout;
    // Several heartbeats must fit into the time after which a silent rank counts as lost.
    result.heartbeat_interval = std::min(result.heartbeat_interval, options.heartbeat_timeout / 5);
    return result;
}

// If the ranks meet at the loopback address, they are all on this host.
std::string address_for_recovery(const Options& options) {
    const std::string& rendezvous = options.master_addr;
    if (rendezvous.starts_with("127.") || rendezvous == "localhost") return "127.0.0.1";
    if (rendezvous == "::1") return rendezvous;
    return transport::own_address();
}

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

std::string report_text(const transport::Report& report) {
    return fmt::format("rank {} reported: {}", report.rank, decode_notice(report.text).text);
}

std::string loss_text(const transport::Loss& loss) {
    return fmt::format("rank {} was lost: {}; look at the output of rank {} first", loss.rank, loss.reason,
                       loss.rank);
}

// If one rank fails while a communicator is made, the others would wait for it. So all ranks fail, with the
// error that rank 0 received first.
Error told_to_all(transport::Bootstrap& bootstrap, const Error& own) {
    if (own.status() != Status::peer_lost) bootstrap.report(encode({own.status(), -1, "", "", own.what()}));
    const auto until = transport::Clock::now() + verdict_within;
    while (!bootstrap.reported() && !bootstrap.loss() && transport::Clock::now() < until)
        std::this_thread::sleep_for(1ms);
    if (const auto report = bootstrap.reported()) {
        const Notice notice = decode_notice(report->text);
        const bool is_own = report->rank == bootstrap.rank() || notice.text == own.what();
        return is_own ? own : Error(notice.status, report_text(*report));
    }
    if (const auto loss = bootstrap.loss(); loss && loss->rank != bootstrap.rank())
        return Error(Status::peer_lost, loss_text(*loss));
    return own;
}

// For meeting the other ranks: the wait ends as soon as one of them is known not to come.
transport::Patience patience_of(const transport::Bootstrap& bootstrap, const Options& options) {
    const auto bad_news = [&bootstrap]() -> std::optional<std::string> {
        if (const auto report = bootstrap.reported()) return report_text(*report);
        if (const auto loss = bootstrap.loss()) return loss_text(*loss);
        return std::nullopt;
    };
    return {transport::Clock::now() + options.join_timeout, bad_news};
}

void warn_of_missing_folders(const std::vector<std::string>& schedule_path) {
    std::error_code ignored;
    for (const std::string& folder : schedule_path)
        if (!std::filesystem::is_directory(folder, ignored))
            log_line(
                "hocket: warning: {}, which the schedule path (HOCKET_SCHEDULE_PATH) names, is no "
                "folder here: no schedules are read from it",
                folder);
}

}  // namespace

std::unique_ptr<Communicator> Communicator::create(const Options& options) {
    return std::unique_ptr<Communicator>(new Communicator(options));
}

Communicator::Communicator(const Options& options)
    : options_(options), schedule_path_(joined(options.schedule_path)), devices_(options.cuda_ipc) {
    const bool is_first = !options_.planning;  // a group is given its parent's planning
    if (is_first) options_.planning = std::make_shared<Planning>();
    device::find_driver();
    bootstrap_ = transport::Bootstrap::join(bootstrap_options(options_));
    options_.lobby.reset();
    options_.abandoned = {};
    options_.host_listens = false;
    options_.rank = bootstrap_->rank(), options_.world_size = bootstrap_->world_size();
    if (is_first && rank() == 0) warn_of_missing_folders(options_.schedule_path);
    // The launcher's numbers in a new process are those of another job, or of a process that it replaces.
    if (options_.is_newcomer) options_.job_rank = options_.rank;
    try {
        name_of(options_.executor);  // throws if an executor that was named does not exist
        meet();
    } catch (const std::exception& error) {
        throw size() > 1 ? told_to_all(*bootstrap_, error_of(error)) : error_of(error);
    }
}

void Communicator::meet() {
    transport::WindowInvitation invitation;
    const bool has_recovery = options_.recovery != nullptr || size() == 1;
    if (!has_recovery)
        options_.recovery = std::make_shared<transport::Recovery>(address_for_recovery(options_));
    agreement_ = agree(*bootstrap_, options_, invitation.name(),
                       size() == 1 ? transport::Endpoint{} : options_.recovery->own());
    if (!has_recovery) {
        options_.recovery->settle(agreement_.recoveries, rank(), options_.secret);
        for (int rank = 0; rank < size(); ++rank) options_.numbers_in_recovery.push_back(rank);
    }
    one_host_ = std::count(agreement_.hosts.begin(), agreement_.hosts.end(), 0) == size();
    // This check follows the comparison of the topologies, so that it fails on all ranks alike.
    in_dsl([&] { dsl::check_topology(options_.topology, options_.schedule_path, options_.world_size); });
    if (options_.topology.empty())
        options_.topology =
            options_.provider.empty() ? topology_of(agreement_) : std::to_string(options_.world_size);
    open_window(std::move(invitation));
    open_fabric();
    if (!agreement_.tuning.empty()) tuning_ = parse_tuning(agreement_.tuning)[shape()];
    progress_ = std::make_unique<Progress>(*bootstrap_, local_peers_.get(), fabric_.get(), options_.timeout);
    recorder_ = std::make_unique<Recorder>(
        origin(), Recorder::Options{options_.recordings, options_.recording_signal}, *progress_);
    progress_->call(record::name_of_communicator(recorder_->origin()));
    if (!options_.trace.empty()) {
        tracer_ = std::make_unique<Tracer>(options_.trace, recorder_->origin());
        progress_->trace(tracer_.get());
    }
    log_joining();
    // A communicator that has grown is one only if its new processes have come as far as this, too.
    // And these have it only if the ranks that were there have agreed that they do (grow).
    const bool is_newcomer = std::exchange(options_.is_newcomer, false);
    if (std::exchange(options_.newcomers, 0) > 0 || is_newcomer) barrier();
    if (is_newcomer) barrier();
    if (options_.has_background) background_ = std::make_unique<Background>(*progress_);
}

// A provider that was named in the options carries all messages; then no memory is shared.
void Communicator::open_window(transport::WindowInvitation invitation) {
    const auto host_of = [&](int rank) { return agreement_.hosts[static_cast<std::size_t>(rank)]; };
    const bool shares = options_.provider.empty();
    std::vector<dsl::Rank> members;
    std::vector<std::string> names;
    int self = 0;
    for (int other = 0; other < size(); ++other) {
        if (other != rank() && (!shares || host_of(other) != host_of(rank()))) continue;
        if (other == rank()) self = static_cast<int>(members.size());
        members.push_back(other);
        names.push_back(agreement_.invitations[static_cast<std::size_t>(other)]);
    }
    const transport::Patience patience = patience_of(*bootstrap_, options_);
    auto window = transport::Window::open(std::move(invitation), names, self,
                                          LocalPeers::reserved_bytes(static_cast<int>(members.size())),
                                          patience.deadline, patience.abandoned);
    window_ = window.get();
    if (!shares) agreement_.hosts.clear();
    if (members.size() == 1) {
        own_window_ = std::move(window);
        return;
    }
    local_peers_ = std::make_unique<LocalPeers>(std::move(window), std::move(members), agreement_.cores,
                                                agreement_.fences_others);
    if (options_.hand_over) local_peers_->hand_over_by(*options_.hand_over);
    provider_ = "memory";
}

// Opens the fabric, which carries messages to the ranks that share no memory with this one.
void Communicator::open_fabric() {
    const int here = local_peers_ ? local_peers_->members() : 1;
    if (here == size()) return;
    fabric_ = engine::open_fabric(options_.provider.empty() ? "tcp" : options_.provider,
                                  one_host_ ? "127.0.0.1" : "");
    connect_all(*bootstrap_, *fabric_, patience_of(*bootstrap_, options_));
    provider_why_ = fabric_->why();
    provider_ = (local_peers_ ? provider_ + ", " : "") + fabric_->provider();
}

record::Origin Communicator::origin() const {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    record::Origin origin;
    origin.communicator = agreement_.id;
    origin.rank = rank();
    origin.size = size();
    origin.job_ranks = agreement_.job_ranks;
    origin.topology = options_.topology;
    origin.provider = provider_;
    origin.host = host;
    origin.pid = getpid();
    origin.process_group = getpgrp();
    return origin;
}

void Communicator::log_joining() const {
    const record::Origin& own = recorder_->origin();
    const std::string why = !options_.provider.empty() ? "HOCKET_PROVIDER or the program asks for it"
                            : size() == 1              ? "there is no other rank"
                            : local_peers_ == nullptr  ? "no other rank is on this host"
                            : fabric_ == nullptr       ? "all ranks are on this host"
                                                       : "some ranks are on this host, and some are not";
    log(LogLevel::info, "joined {} rank{} as process {} on {}: topology {}, provider {} ({}{}{})", size(),
        size() == 1 ? "" : "s", own.pid, own.host, own.topology, own.provider, why,
        provider_why_.empty() ? "" : "; ", provider_why_);
    log(LogLevel::debug,
        "communicator {}: schedules from {}; schedule {}; tuning table {}; executor {}; progress {}; "
        "timeout {} ms",
        own.communicator, schedule_path_, options_.schedule.empty() ? "by size" : options_.schedule,
        !agreement_.tuning.empty()
            ? agreement_.tuning_file + (tuning_.empty() ? " (nothing for this shape)" : "")
            : "none",
        executor(), options_.has_background ? "thread" : "calls", options_.timeout.count());
}

// Returns the job's provider as rank 0 sees it, which every rank can derive: a rank that shares no memory
// would itself report another one.
JobShape Communicator::shape() const {
    const bool shares =
        options_.provider.empty() && std::count(agreement_.hosts.begin(), agreement_.hosts.end(), 0) > 1;
    std::string provider = shares ? "memory" : "";
    if (fabric_) provider += (shares ? ", " : "") + fabric_->provider();
    return {options_.topology, provider, size()};
}

Communicator::~Communicator() {
    background_.reset();
    const std::uint64_t started = progress_->started();
    if (size() > 1) say_goodbye();
    log(LogLevel::info, "leaves after {} collective operation{}{}", started, started == 1 ? "" : "s",
        progress_->failure() ? ", with an error" : "");
    recorder_.reset();
    progress_.reset();  // gives up what is still in flight
    if (size() > 1) bootstrap_->leave();
}

// A rank that has finished may still hold messages that others wait for, and they only move while it drives
// the fabric. So it stays for a while, until all ranks are here.
void Communicator::say_goodbye() {
    is_leaving_ = true;
    try {
        if (progress_->failure()) return;
        std::int32_t here = 1, all = 0;
        progress_->wait(
            progress_->start(make_rendezvous(leaving_rendezvous), 1, &here, &all, 1, goodbye_limit));
    } catch (const Error& error) {
        // No call is left that could return the error, but wrong results must not go unnoticed.
        if (error.status() == Status::mismatch) log_line("hocket: {}", error.what());
    } catch (const std::exception&) {  // no memory for the rendezvous: leave at once
    }
}

// Returns the communicator's schedule if it exists for the collective, otherwise "". "ring" has no broadcast,
// but a program that uses it for all_reduce may still broadcast. If the schedule exists for no collective,
// its name is returned, so that the error says where it was looked for.
std::string Communicator::own_schedule(dsl::Collective collective) const {
    using dsl::Collective;
    if (options_.schedule.empty()) return "";
    const Planning::Turn turn = options_.planning->turn(options_.timeout);
    if (!own_collectives_) {
        dsl::Library library = in_dsl([&] { return turn.planner().library(options_.schedule_path); });
        std::set<Collective> existing;
        for (const Collective which : dsl::all_collectives) {
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

std::shared_ptr<const dsl::Operator> Communicator::find_operator(const std::string& text) const {
    const Planning::Turn turn = options_.planning->turn(options_.timeout);
    return in_dsl([&] {
        dsl::Library library = turn.planner().library(options_.schedule_path);
        return std::make_shared<const dsl::Operator>(dsl::find_operator(library, text));
    });
}

std::unique_ptr<dsl::CheckedSchedule> Communicator::check(dsl::PlanRequest request) const {
    const Planning::Turn turn = options_.planning->turn(options_.timeout);
    request.deadline = dsl::Deadline(options_.timeout);  // without the other threads' planning
    return in_dsl([&] { return turn.planner().check(request); });
}

// Returns the schedule that was measured to be the fastest. Returns null if nothing was measured, or if that
// schedule no longer runs, which is then so on every rank.
std::unique_ptr<dsl::CheckedSchedule> Communicator::tuned_schedule(dsl::PlanRequest request,
                                                                   std::vector<std::string>& why) const {
    const TunedRange* tuned = find(tuning_, request.collective, request.bytes);
    if (!tuned) return nullptr;
    request.schedule = tuned->schedule;
    try {
        auto checked = check(request);
        why.push_back(fmt::format(
            "tuned: {} {} measured at {} ({})", tuned->schedule, dsl::text_of_time(tuned->us * 1e-6),
            dsl::text_of_size(static_cast<double>(tuned->bytes)), agreement_.tuning_file));
        return checked;
    } catch (const Error& error) {
        if (error.status() != Status::schedule && error.status() != Status::not_found) throw;
        // The measurement was of equal counts and of a sum: the schedule may not support other counts, or may
        // need more of an operator.
        if ((request.counts != dsl::Counts::alike || request.op) && error.status() == Status::schedule)
            return nullptr;
        if (rank() == 0 && !warned_.exchange(true))
            log_line(
                "hocket: warning: {} cannot be run by {}, as the tuning table {} says: {}\n"
                "  hint: run hocket-tune again, or set HOCKET_TUNING=off",
                dsl::name_of(request.collective), tuned->schedule, agreement_.tuning_file, error.what());
        return nullptr;
    }
}

// bytes: of x. Sizes for which the schedule is identical share a plan.
SizedPlans::Sized Communicator::make_plan(const PlanChoice& choice, std::uint64_t bytes,
                                          const SizedPlans::Made& made) const {
    device::find_driver();  // small starts don't look for the driver
    if (choice.root < 0 || choice.root >= size())
        throw Error(Status::invalid_argument,
                    fmt::format("the root is {}; it must be a rank, 0 to {}", choice.root, size() - 1));
    dsl::PlanRequest request;
    request.collective = choice.collective;
    request.schedule = choice.schedule ? *choice.schedule : own_schedule(choice.collective);
    const std::string named_by = request.schedule.empty() ? ""
                                 : choice.schedule        ? "the program names it"
                                                          : "the communicator's schedule";
    request.topology = options_.topology;
    request.search_path = options_.schedule_path;
    request.ranks = size();
    request.root = choice.root;
    request.hosts = agreement_.hosts;
    const bool counts_waits = local_peers_ && bytes <= small_bytes;
    request.protocol = counts_waits ? dsl::Protocol::latency : dsl::Protocol::bandwidth;
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
    dsl::RankProgram program = in_dsl([&] { return checked->project(rank()); });
    sized.plan = StartablePlan::make(
        std::move(program), choice.type, choice.op, executor_of(choice),
        {.is_uneven = choice.is_uneven, .compute = {choice.tensors, options_.kernel_threads}});
    log_choice(choice, sized, bytes, named_by, false);
    return sized;
}

void Communicator::log_choice(const PlanChoice& choice, const SizedPlans::Sized& sized, std::uint64_t bytes,
                              const std::string& named_by, bool is_there_already) const {
    const LogLevel level = choice.is_for_rendezvous || is_there_already ? LogLevel::debug : LogLevel::info;
    if (options_.log < level) return;
    const std::string why = !named_by.empty()       ? named_by
                            : sized.reasons.empty() ? "the only one there is"
                            : sized.is_measured     ? sized.reasons.front()
                                                    : "by estimate: " + in_short(sized.reasons.front());
    const dsl::Contract contract = contract_of(choice.collective);
    log(level, "{}{} of {}{}{}, up to {}: schedule {} ({}); executor {}{}", dsl::name_of(choice.collective),
        choice.is_uneven ? "_v" : "", name_of(choice.type), contract.combines() ? " " : "",
        contract.combines() ? choice.op.name() : "", dsl::text_of_size(static_cast<double>(bytes)),
        sized.schedule, why, sized.plan->executor().name(),
        choice.is_for_rendezvous ? "; for a barrier"
        : is_there_already       ? "; with a plan that is there already"
                                 : "");
    if (options_.log < LogLevel::debug) return;
    for (const std::string& reason : sized.reasons) log(LogLevel::debug, "  {}", reason);
}

std::unique_ptr<SizedPlans> Communicator::lazy_plans(const PlanChoice& choice) const {
    const bool is_by_rank = contract_of(choice.collective).is_by_rank();
    const std::uint64_t bytes_of_one =
        element_size(choice.type) * (is_by_rank ? static_cast<std::uint64_t>(size()) : 1);
    return std::make_unique<SizedPlans>(bytes_of_one,
                                        [this, choice](std::uint64_t bytes, const SizedPlans::Made& made) {
                                            return make_plan(choice, bytes, made);
                                        });
}

// The other ranks make this plan, too, and will start it: they must be told if it cannot be made here.
const SizedPlans::Sized& Communicator::made_for_all(SizedPlans& plans, std::uint64_t bytes) const {
    try {
        return plans.for_bytes(bytes);
    } catch (const std::exception& error) {
        if (!is_leaving_) progress_->cannot_start(error);
        throw;
    }
}

std::unique_ptr<SizedPlans> Communicator::make_plans(const PlanChoice& choice) const {
    auto plans = lazy_plans(choice);
    made_for_all(*plans, usual_bytes);
    return plans;
}

ExecutorKind Communicator::executor_of(const PlanChoice& choice) const {
    return choice.executor == ExecutorKind::automatic ? options_.executor : choice.executor;
}

SizedPlans& Communicator::cached_plans(const PlanChoice& choice) {
    const ExecutorKind executor = executor_of(choice);
    const bool is_usual = choice.root == 0 && !choice.schedule && executor == options_.executor &&
                          !choice.is_uneven && !choice.op.defined();
    auto& usual = usual_plans_[(static_cast<std::size_t>(choice.collective) * types +
                                static_cast<std::size_t>(choice.type)) *
                                   operators +
                               static_cast<std::size_t>(choice.op.built_in())];
    if (is_usual)
        if (SizedPlans* known = usual.load(std::memory_order_acquire)) return *known;
    const Key key{choice.collective, choice.type, choice.op,       choice.root,
                  choice.schedule,   executor,    choice.is_uneven};
    const std::lock_guard lock(plans_mutex_);
    std::unique_ptr<SizedPlans>& plans = plans_[key];
    if (!plans) plans = lazy_plans(choice);
    if (is_usual) usual.store(plans.get(), std::memory_order_release);
    return *plans;
}

void Communicator::check_message(const MessageStart& start) const {
    const bool is_from_any = start.direction == Direction::receive && start.peer == any_rank;
    if (!is_from_any && (start.peer < 0 || start.peer >= size()))
        throw Error(Status::invalid_argument,
                    fmt::format("the peer is {}; it must be a rank, 0 to {}", start.peer, size() - 1));
    if (start.tag < 0)
        throw Error(Status::invalid_argument, fmt::format("the tag is {}; it must be 0 or more", start.tag));
}

// ---- Memory of devices --------------------------------------------------------------------------

std::optional<device::Place> Communicator::place_of(const device::Driver& driver, const void* memory,
                                                    const char* name) const {
    if (window_->offset_of(memory, 1)) return std::nullopt;
    return device::place_of(driver, memory, name);
}

std::optional<device::Buffers> Communicator::buffers_on_device(const Plan& plan, const void* send,
                                                               const void* recv, const Extent& extent) {
    const device::Driver* driver = device::find_driver();
    if (!driver) return std::nullopt;
    const bool is_by_pair = plan.is_by_pair();
    const bool sends = is_by_pair ? extent.uneven->sent().count > 0
                                  : plan.input() != dsl::Share::none && extent.count > 0,
               receives = is_by_pair ? extent.uneven->received().count > 0
                                     : plan.output() != dsl::Share::none && extent.count > 0;
    std::optional<device::Place> from, to;
    try {
        if (sends) from = place_of(*driver, send, "send");
        if (receives) to = place_of(*driver, recv, "recv");
    } catch (const std::exception& error) {
        progress_->cannot_start(error);
        throw;
    }
    if (!from && !to) return std::nullopt;
    return device::Buffers{*driver, devices_, from, to, devices_.stream()};
}

std::optional<device::Buffers> Communicator::buffer_on_device(const MessageStart& message) {
    const device::Driver* driver =
        message.bytes > most_without_look ? device::find_driver() : device::known_driver();
    if (!driver || message.bytes == 0) return std::nullopt;
    try {
        const auto place = place_of(*driver, message.data, "buffer");
        if (!place) return std::nullopt;
        return device::Buffers{*driver, devices_, place, place, devices_.stream()};
    } catch (const std::exception& error) {
        progress_->cannot_start(error);
        throw;
    }
}

void Communicator::set_stream(device::Stream stream) {
    if (stream)
        device::require_driver();
    else
        device::find_driver();
    devices_.set_stream(stream);
}

std::vector<std::string> Communicator::exchange(const std::string& text, const std::string& purpose) {
    if (size() == 1) return {text};
    const std::lock_guard lock(exchanging_);
    progress_->finish_collectives();  // others may wait for this rank's part
    std::optional<std::uint64_t> number;
    if (!purpose.empty()) {
        const auto label = std::make_shared<record::Label>();
        label->purpose = purpose;
        label->ranks = size();
        number = progress_->begin_elsewhere(label);
    }
    const auto end = [&](Status status) {
        if (number) progress_->end_elsewhere(*number, status);
    };
    try {
        auto texts = bootstrap_->all_gather(text, options_.timeout, number);
        end(Status::success);
        return texts;
    } catch (const Error& error) {
        end(error.status());
        // After a failure, throws the communicator's failure, as every other call does.
        if (const auto failure = progress_->failure()) throw Error(failure->status, failure->text);
        if (error.status() != Status::timeout) throw;
        // Some ranks have called and others not, as in a collective that fails for this reason.
        const Error whole(error.status(), fmt::format("not all ranks make this call: {}", error.what()));
        progress_->cannot_start(whole);
        throw whole;
    }
}

std::vector<std::int64_t> Communicator::greatest(const std::vector<std::int64_t>& own,
                                                 const std::string& purpose) {
    std::vector<std::int64_t> all(own.size());
    progress_->run(make_rendezvous(purpose, DataType::int64, ReduceOp::max), own.size(), own.data(),
                   all.data());
    return all;
}

void Communicator::throw_if_aborted() {
    const auto failure = progress_->failure();
    if (failure && failure->status == Status::aborted) throw Error(failure->status, failure->text);
}

bool Communicator::was_given_up() const {
    const auto loss = bootstrap_->loss();
    return loss && loss->rank == rank();
}

std::set<int> Communicator::may_have_gone_on() const {
    const auto since = bootstrap_->bad_news_since();
    if (!since || transport::Clock::now() - *since <= options_.timeout) return {};
    // A rank whose loss was the first to be reported has not survived the failure.
    const auto loss = bootstrap_->reported() ? std::nullopt : bootstrap_->loss();
    std::set<int> numbers;
    for (int other = 0; other < size(); ++other)
        if (other != rank() && !(loss && loss->rank == other))
            numbers.insert(options_.numbers_in_recovery[static_cast<std::size_t>(other)]);
    return numbers;
}

std::vector<int> Communicator::lost() {
    if (size() == 1) return {};
    const std::vector<int>& numbers = options_.numbers_in_recovery;
    if (const auto loss = bootstrap_->loss())
        options_.recovery->note_lost(numbers[static_cast<std::size_t>(loss->rank)]);
    const std::set<int> all = options_.recovery->lost();
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); ++rank)
        if (all.contains(numbers[static_cast<std::size_t>(rank)])) ranks.push_back(rank);
    return ranks;
}

std::optional<std::string> Communicator::loss_among(const std::vector<int>& ranks) const {
    const auto loss = bootstrap_->loss();
    const bool is_one = loss && std::find(ranks.begin(), ranks.end(), loss->rank) != ranks.end();
    return is_one ? std::optional(loss_text(*loss)) : std::nullopt;
}

std::string Communicator::own_address() const {
    return one_host_ && transport::chosen_address().empty() ? "127.0.0.1" : transport::own_address();
}

// Runs over the fabric, as an all_reduce of one element: no rank has the result before all have contributed.
// It does not use the bootstrap, because a rank that waits there would not drive the operations in flight
// that others wait for.
void Communicator::barrier() {
    progress_->run(barrier_plan(), 1, &here_, &all_here_);
}

Execution& Communicator::start_barrier() {
    return progress_->start(barrier_plan(), 1, &here_, &all_here_);
}

// Runs over the bootstrap, so that it takes no place in the order of collectives, and nothing fails with it.
// Meanwhile this rank makes progress on operations that others may wait for.
void Communicator::barrier_monitored(std::chrono::milliseconds timeout) {
    const std::lock_guard lock(rendezvous_);
    const auto until = Progress::Clock::now() + timeout;
    bootstrap_->come();
    for (;;) {
        if (const auto failure = progress_->failure()) throw Error(failure->status, failure->text);
        const bool is_idle = progress_->move_until(std::min(until, Progress::Clock::now() + 10ms));
        if (bootstrap_->all_have_come(is_idle ? std::min(until, Progress::Clock::now() + 100ms)
                                              : Progress::Clock::now()))
            return;
        if (Progress::Clock::now() >= until) break;
    }
    const auto absent = bootstrap_->absent(verdict_within);
    if (absent && absent->empty()) return;  // the last rank has come meanwhile
    throw Error(Status::timeout,
                fmt::format("not all ranks came to the monitored barrier within {} ms; absent: {}\n"
                            "  hint: see what these ranks are doing; the communicator is as it was, and "
                            "another call goes on with the same barrier",
                            timeout.count(),
                            absent ? fmt::format("{} ({} of {})", transport::all_ranks_text(*absent),
                                                 absent->size(), size())
                                   : "not known, as rank 0 does not answer"));
}

const std::shared_ptr<StartablePlan>& Communicator::barrier_plan() {
    std::call_once(barrier_made_, [this] { barrier_ = make_rendezvous("barrier"); });
    return barrier_;
}

// Uses the library's own choice of schedule, whatever schedule the communicator has.
std::shared_ptr<StartablePlan> Communicator::make_rendezvous(const std::string& purpose, DataType type,
                                                             compute::Reduction op) {
    const auto& plan = cached_plan({.type = type,
                                    .op = std::move(op),
                                    .schedule = "",
                                    .executor = ExecutorKind::interpreter,
                                    .is_for_rendezvous = true},
                                   1);
    return StartablePlan::make(plan->program(), plan->type(), plan->op(), ExecutorKind::interpreter,
                               {.purpose = purpose});
}

}  // namespace hocket::engine
