#include "runtime/engine/job/connections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "dsl/planning/compile.hpp"
#include "runtime/base/log.hpp"
#include "runtime/compute/program/dsl_errors.hpp"
#include "runtime/engine/job/link_probe.hpp"
#include "runtime/engine/job/open_fabric.hpp"
#include "runtime/engine/job/planning.hpp"
#include "runtime/engine/reports/notice.hpp"
#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/nics.hpp"
#include "runtime/transport/net/own_address.hpp"

namespace hocket::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto verdict_on_failure_within = 1s;  // time for rank 0 to say which failure was the first

// If the ranks meet at the loopback address, they are all on this host. Otherwise all of them reach the
// network where they meet, which need not be true of another one.
std::string address_for_recovery(const Options& options) {
    const std::string& rendezvous = options.master_addr;
    if (transport::means_loopback(rendezvous)) return transport::loopback_address();
    if (!transport::chosen_address().empty()) return transport::chosen_address();
    for (const transport::Nic& nic : transport::reachable_nics())
        if (transport::is_in_subnet(rendezvous, nic)) return nic.address;
    return transport::own_address();
}

std::string report_text(const transport::Report& report) {
    return fmt::format("rank {} reported: {}", report.rank, decode_notice(report.text).text);
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

std::string loss_text(const transport::Loss& loss) {
    return fmt::format("rank {} was lost: {}; look at the output of rank {} first", loss.rank, loss.reason,
                       loss.rank);
}

Connections::Connections(const Options& options) : options_(options) {
    const bool is_first = !options_.planning;  // a group is given its parent's planning
    const bool may_probe = is_first && !options_.is_newcomer && options_.newcomers == 0;
    if (is_first) options_.planning = std::make_shared<Planning>();
    // Several heartbeats must fit into the time after which a silent rank counts as lost.
    options_.heartbeat_interval = std::min(options_.heartbeat_interval, options_.heartbeat_timeout / 5);
    bootstrap_ = transport::Bootstrap::join(options_);
    options_.lobby.reset();
    options_.abandoned = {};
    options_.host_listens = false;
    options_.rank = bootstrap_->rank(), options_.world_size = bootstrap_->world_size();
    if (is_first && rank() == 0) warn_of_missing_folders(options_.schedule_path);
    // The launcher's numbers in a new process are those of another job, or of a process that it replaces.
    if (options_.is_newcomer) options_.job_rank = options_.rank;
    make_on_all([this, may_probe] {
        name_of(options_.executor);  // throws if an executor that was named does not exist
        meet();
        learn_links(may_probe);
    });
    // A communicator that has grown is one only if its new processes have come as far as this, too. And these
    // have it only if the ranks that were there have agreed that they do (grow).
    const bool is_newcomer = std::exchange(options_.is_newcomer, false);
    const bool has_newcomers = std::exchange(options_.newcomers, 0) > 0;
    first_barriers_ = is_newcomer ? 2 : has_newcomers ? 1 : 0;
}

void Connections::meet() {
    transport::WindowInvitation invitation;
    const bool is_group = options_.recovery != nullptr, has_recovery = is_group || size() == 1;
    if (!has_recovery)
        options_.recovery = std::make_shared<transport::Recovery>(address_for_recovery(options_));
    agreement_ = agree(*bootstrap_, options_, invitation.name(),
                       size() == 1 ? transport::Endpoint{} : options_.recovery->own());
    if (!has_recovery) {
        options_.recovery->settle(agreement_.recoveries, rank(), options_.secret);
        for (int rank = 0; rank < size(); ++rank) options_.numbers_in_recovery.push_back(rank);
    }
    host_ = agreement_.hosts[static_cast<std::size_t>(rank())];
    one_host_ = std::count(agreement_.hosts.begin(), agreement_.hosts.end(), 0) == size();
    // These checks follow the comparison of the options, so that they fail on all ranks alike.
    const dsl::Topology topology = in_dsl(
        [&] { return dsl::find_topology(options_.topology, options_.schedule_path, options_.world_size); });
    if (!is_group) check_schedule();  // a group has its parent's, whose file may be gone by now
    topology_is_found_ = options_.topology.empty();
    if (topology_is_found_)
        options_.topology =
            options_.provider_carries_all ? std::to_string(options_.world_size) : topology_of(agreement_);
    open_window(std::move(invitation));
    open_fabric(one_host_ ? std::vector<std::string>() : dsl::nics_with(topology, rank()));
}

// So a name that nothing has is refused where it was given, and not by whichever operation comes first.
void Connections::check_schedule() const {
    if (options_.schedule.empty()) return;
    const Planning::Turn turn = options_.planning->turn(options_.timeout);
    in_dsl([&] {
        dsl::Library library = turn.planner().library(options_.schedule_path);
        dsl::first_collective_of(library, options_.schedule);
    });
}

// No memory is shared if the options name a provider for all messages.
void Connections::open_window(transport::WindowInvitation invitation) {
    const auto host_of = [&](int rank) { return agreement_.hosts[static_cast<std::size_t>(rank)]; };
    const bool shares = !options_.provider_carries_all;
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
                                                agreement_.fences_others, options_.single_copy);
    if (options_.hand_over) local_peers_->hand_over_by(*options_.hand_over);
    provider_ = "memory";
}

// Opens this host's network card if all ranks have one with the same provider; else returns nullptr, on all
// ranks.
std::unique_ptr<transport::Fabric> Connections::open_card_of_all(
    const std::vector<std::string>& wanted_nics) {
    auto card = open_network_card(wanted_nics);
    const std::vector<std::string> all =
        gather_all(*bootstrap_, card ? card->provider() : "", patience_of(*bootstrap_, options_));
    const auto first = std::find_if(all.begin(), all.end(), [](const auto& its) { return !its.empty(); });
    if (first == all.end()) return nullptr;
    const auto other = std::find_if(all.begin(), all.end(), [&](const auto& its) { return its != *first; });
    if (other == all.end()) return card;
    provider_why_ = fmt::format(
        "not by the network card of rank {}'s host ({}), because rank {} {}", first - all.begin(), *first,
        other - all.begin(),
        other->empty() ? "has none that it can use" : fmt::format("has another one ({})", *other));
    static std::atomic<bool> said{false};  // the same of each communicator
    if (rank() == first - all.begin() && !said.exchange(true))
        log_line(
            "hocket: warning: messages between hosts go by tcp, {}; HOCKET_PROVIDER=tcp asks for no card",
            provider_why_);
    return nullptr;
}

// Opens the fabric, which carries messages to the ranks that share no memory with this one.
void Connections::open_fabric(const std::vector<std::string>& wanted_nics) {
    const int here = local_peers_ ? local_peers_->members() : 1;
    if (here == size()) return;
    const bool wants_card = options_.provider == card_provider && !options_.provider_carries_all;
    if (wants_card) fabric_ = open_card_of_all(wanted_nics);
    const bool is_unnamed = options_.provider.empty() || wants_card;
    if (!fabric_)
        fabric_ = engine::open_fabric(is_unnamed ? "tcp" : options_.provider,
                                      one_host_ ? transport::loopback_address() : "", wanted_nics);
    connect_all(*bootstrap_, *fabric_, patience_of(*bootstrap_, options_));
    provider_why_ += (provider_why_.empty() ? "" : "; ") + fabric_->why();
    provider_ = (local_peers_ ? provider_ + ", " : "") + fabric_->provider();
}

// A topology that was declared says what links can do. Ranks with ids of hosts may be on one machine, where
// there are no links. Communicators that others grow or shrink to measure nothing: they begin in the middle
// of the work.
void Connections::learn_links(bool may_probe) {
    planning_topology_ = options_.topology;
    const bool goes_by_tcp =
        fabric_ && (fabric_->provider() == "tcp" || fabric_->provider() == "encrypted tcp");
    const bool has_links = goes_by_tcp && !one_host_ && !options_.provider_carries_all;
    if (!has_links || !topology_is_found_ || !options_.host_id.empty()) return;
    if (may_probe && options_.probes_links)
        if (auto found =
                probe_links(*bootstrap_, *fabric_, agreement_.hosts, patience_of(*bootstrap_, options_)))
            options_.links = std::make_shared<const LinkFigures>(std::move(*found));
    links_text_ = options_.probes_links ? "not measured" : "not measured: HOCKET_PROBE=off";
    if (!options_.links) return;
    const std::string measured = options_.links->topology(options_.topology);
    if (measured.empty()) {
        links_text_ = "not all measured: " + options_.links->text();
        return;
    }
    planning_topology_ = measured;
    links_text_ = fmt::format("{}: {}", measured, options_.links->text());
}

// Returns the job's provider as rank 0 sees it, which every rank can derive: a rank that shares no memory
// would itself report another one.
JobShape Connections::shape() const {
    const bool shares =
        !options_.provider_carries_all && std::count(agreement_.hosts.begin(), agreement_.hosts.end(), 0) > 1;
    std::string provider = shares ? "memory" : "";
    if (fabric_) provider += (shares ? ", " : "") + fabric_->provider();
    return {options_.topology, provider, size()};
}

std::string Connections::own_address() const {
    return one_host_ && transport::chosen_address().empty() ? transport::loopback_address()
                                                            : transport::own_address();
}

// Rank 0 says which failure was the first.
Error Connections::told_to_all(const Error& own) {
    if (size() == 1) return own;
    transport::Bootstrap& bootstrap = *bootstrap_;
    if (own.status() != Status::peer_lost) bootstrap.report(encode({own.status(), -1, "", "", own.what()}));
    const auto until = transport::Clock::now() + verdict_on_failure_within;
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

}  // namespace hocket::engine
