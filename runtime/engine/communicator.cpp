#include "runtime/engine/communicator.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "dsl/compile.hpp"
#include "dsl/diagnostic.hpp"
#include "runtime/engine/agreement.hpp"

namespace hocket::engine {
namespace {

constexpr std::chrono::milliseconds goodbye_limit{500};

// The language's errors in the runtime's terms.
template <typename Call>
auto in_dsl(Call call) {
    try {
        return call();
    } catch (const dsl::NotFoundError& error) {
        throw Error(Status::not_found, error.what());
    } catch (const dsl::DiagnosticError& error) {
        throw Error(Status::schedule, error.what());
    }
}

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
    result.secret = options.secret;
    result.join_timeout = options.timeout;
    result.heartbeat_timeout = options.heartbeat_timeout;
    // Several beats must fit into the time after which silence is a loss.
    result.heartbeat_interval = std::min(result.heartbeat_interval, options.heartbeat_timeout / 5);
    return result;
}

// What fails here on one rank would leave the others waiting for it. Where it failed because of another's
// report, that is the error.
void tell_others(transport::Bootstrap& bootstrap, const Error& error) {
    const auto report = bootstrap.reported();
    if (report && error.status() == Status::bootstrap) {
        const Notice notice = decode_notice(report->text);
        throw Error(notice.status, fmt::format("rank {} reported: {}", report->rank, notice.text));
    }
    if (error.status() != Status::peer_lost) bootstrap.report(encode({error.status(), -1, "", error.what()}));
}

}  // namespace

std::unique_ptr<Communicator> Communicator::create(const Options& options) {
    return std::unique_ptr<Communicator>(new Communicator(options));
}

Communicator::Communicator(const Options& options)
    : options_(options), schedule_path_(joined(options.schedule_path)), executor_(name_of(options.executor)) {
    bootstrap_ = transport::Bootstrap::join(bootstrap_options(options_));
    const bool one_host = agree(*bootstrap_, options_);
    try {
        // After the topologies were compared, so that it fails on all ranks alike.
        in_dsl([&] { dsl::check_topology(options_.topology, options_.schedule_path, options_.world_size); });
        if (options_.topology.empty()) options_.topology = std::to_string(options_.world_size);
        if (options_.world_size > 1) open_fabric(one_host);
    } catch (const Error& error) {
        tell_others(*bootstrap_, error);
        throw;
    }
    progress_ = std::make_unique<Progress>(*bootstrap_, fabric_.get(), options_.timeout);
}

void Communicator::open_fabric(bool one_host) {
    const std::string by_hosts = one_host ? "shm" : "tcp";
    fabric_ = transport::Fabric::open(options_.provider.empty() ? by_hosts : options_.provider,
                                      one_host ? "127.0.0.1" : "");
    connect_all(*bootstrap_, *fabric_, options_);
    provider_ = fabric_->provider();
}

Communicator::~Communicator() {
    if (fabric_) say_goodbye();
    progress_.reset();  // gives up what is still in flight
    if (fabric_) bootstrap_->leave();
}

// A rank that is done may still hold what others wait for: messages that only move while it drives the
// fabric. So it stays until all are here, for a while.
void Communicator::say_goodbye() {
    try {
        if (progress_->failure()) return;
        std::int32_t here = 1, all = 0;
        progress_->wait(progress_->start(meeting("destroy"), 1, &here, &all, goodbye_limit));
    } catch (const Error& error) {
        // The caller can be told no more, but wrong results must not pass unseen.
        if (error.status() == Status::mismatch) std::fprintf(stderr, "hocket: %s\n", error.what());
    } catch (const std::exception&) {  // no memory for it: leave at once
    }
}

// The communicator's schedule, for the collectives that it exists for: "ring" has no broadcast, and a program
// that all_reduces by it may broadcast all the same.
std::string Communicator::own_schedule(dsl::Collective collective) const {
    using dsl::Collective;
    if (options_.schedule.empty()) return "";
    dsl::Library library(options_.schedule_path);
    const auto exists_for = [&](Collective which) {
        try {
            dsl::find_runnable(library, options_.schedule, which);
            return true;
        } catch (const dsl::NotFoundError&) {
            return false;
        }
    };
    if (in_dsl([&] { return exists_for(collective); })) return options_.schedule;
    for (const auto other :
         {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather, Collective::broadcast})
        if (in_dsl([&] { return exists_for(other); })) return "";
    return options_.schedule;  // exists for none: an error that says where it was looked for
}

std::shared_ptr<Plan> Communicator::make_plan(const PlanChoice& choice) const {
    if (choice.root < 0 || choice.root >= size())
        throw Error(Status::invalid_argument,
                    fmt::format("the root is {}; it must be a rank, 0 to {}", choice.root, size() - 1));
    dsl::PlanRequest request;
    request.collective = choice.collective;
    request.schedule = choice.schedule ? *choice.schedule : own_schedule(choice.collective);
    request.topology = options_.topology;
    request.search_path = options_.schedule_path;
    request.ranks = size();
    request.root = choice.root;
    auto program = in_dsl([&] { return dsl::check_schedule(request)->project(rank()); });
    const auto executor = choice.executor == ExecutorKind::automatic ? options_.executor : choice.executor;
    return Plan::make(std::move(program), choice.type, choice.op, executor, choice.purpose);
}

std::shared_ptr<Plan> Communicator::cached_plan(const PlanChoice& choice) {
    const Key key{choice.collective, choice.type,     choice.op,     choice.root,
                  choice.schedule,   choice.executor, choice.purpose};
    const std::lock_guard lock(plans_mutex_);
    std::shared_ptr<Plan>& plan = plans_[key];
    if (!plan) plan = make_plan(choice);
    return plan;
}

Execution& Communicator::start(const std::shared_ptr<Plan>& plan, const void* send, void* recv,
                               std::uint64_t count) {
    return progress_->start(plan, count, send, recv);
}

// Over the fabric, by an all_reduce of one element: no rank has the result before all have given their part.
// Not over the bootstrap: that would pass through rank 0, and a rank that waits there would not drive the
// operations in flight that others wait for.
void Communicator::barrier() {
    std::int32_t here = 1, all = 0;
    progress_->wait(progress_->start(meeting("barrier"), 1, &here, &all));
}

// By the library's own choice, whatever the communicator's is.
std::shared_ptr<Plan> Communicator::meeting(std::string purpose) {
    return cached_plan({.type = DataType::int32,
                        .schedule = "",
                        .executor = ExecutorKind::interpreter,
                        .purpose = std::move(purpose)});
}

}  // namespace hocket::engine
