#include "runtime/engine/communicator.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <atomic>

#include "runtime/base/environment.hpp"
#include "runtime/base/error.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/transport/window/shared_by_use.hpp"

namespace hocket::engine {
namespace {

std::string joined(const std::vector<std::string>& folders) {
    std::string path;
    for (const std::string& folder : folders) path += (path.empty() ? "" : ":") + folder;
    return path;
}

record::Origin origin_of(const Connections& connections) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    record::Origin origin;
    origin.communicator = connections.agreement().id;
    origin.rank = connections.rank();
    origin.size = connections.size();
    origin.job_ranks = connections.agreement().job_ranks;
    origin.topology = connections.options().topology;
    origin.provider = connections.provider();
    origin.host = host;
    origin.pid = getpid();
    origin.process_group = getpgrp();
    return origin;
}

}  // namespace

std::unique_ptr<Communicator> Communicator::create(const Options& options) {
    device::find_driver();  // small starts don't look for it
    const auto connections = std::make_shared<Connections>(options);
    return connections->make_on_all(
        [&] { return std::unique_ptr<Communicator>(new Communicator(connections)); });
}

Communicator::Communicator(std::shared_ptr<Connections> connections)
    : connections_(std::move(connections)),
      rank_(connections_->rank()),
      size_(connections_->size()),
      schedule_path_(joined(options().schedule_path)),
      progress_(std::make_unique<Progress>(connections_->bootstrap(), connections_->local_peers(),
                                           connections_->fabric(), options().timeout)),
      recorder_(std::make_unique<Recorder>(origin_of(*connections_), options().recording, *progress_)),
      log_(options().log, record::name_of(recorder_->origin())),
      plans_(*connections_, log_, *progress_, [this](const Plan& plan) { devices_.load_kernel(plan); }),
      devices_(options(), log_, connections_->window(), *progress_),
      exchanges_(*connections_, plans_, *progress_) {
    progress_->call(record::name_of_communicator(recorder_->origin()));
    if (!options().trace.empty()) {
        tracer_ = std::make_unique<Tracer>(options().trace, recorder_->origin());
        progress_->trace(tracer_.get());
    }
    log_joining();
    if (options().shares_buffers) share_buffers();
    for (int i = 0; i < connections_->first_barriers(); ++i) exchanges_.barrier();
    if (options().has_background) background_ = std::make_unique<Background>(*progress_);
}

Communicator::~Communicator() {
    progress_->finish_on_stream();
    background_.reset();
    const std::uint64_t started = progress_->started();
    if (size() > 1) exchanges_.say_goodbye();
    log_.log(LogLevel::info, "leaves after {} collective operation{}{}", started, started == 1 ? "" : "s",
             progress_->failure() ? ", with an error" : "");
    recorder_.reset();
    progress_.reset();  // gives up what is still in flight
    if (size() > 1) connections_->bootstrap().leave();
}

void Communicator::share_buffers() {
    const std::string obstacle = transport::obstacle_to_sharing_by_use();
    if (obstacle.empty()) return progress_->share_buffers();
    static std::atomic<bool> said = false;
    if (log_.has(LogLevel::info) && !said.exchange(true))
        log_.log(LogLevel::info, "private buffers stay private, although HOCKET_SHARE_BUFFERS is on: {}",
                 obstacle);
}

void Communicator::log_joining() const {
    const Options& options = this->options();
    const Agreement& agreement = connections_->agreement();
    const record::Origin& own = recorder_->origin();
    const std::string why = size() == 1                              ? "there is no other rank"
                            : options.provider_carries_all           ? "HOCKET_PROVIDER_FOR_ALL asks for it"
                            : connections_->local_peers() == nullptr ? "no other rank is on this host"
                            : connections_->fabric() == nullptr
                                ? "all ranks are on this host"
                                : "some ranks are on this host, and some are not";
    log_.log(LogLevel::info, "joined {} rank{} as process {} on {}: topology {}, provider {} ({}{}{})",
             size(), size() == 1 ? "" : "s", own.pid, own.host, own.topology, own.provider, why,
             connections_->provider_why().empty() ? "" : "; ", connections_->provider_why());
    // The other ranks of a host mostly have the same variables.
    const LocalPeers* const local_peers = connections_->local_peers();
    warn_of_misspelt_variables(record::name_of(own), local_peers == nullptr || local_peers->self() == 0);
    if (!connections_->links_text().empty())
        log_.log(LogLevel::info, "links: {}", connections_->links_text());
    log_.log(LogLevel::debug,
             "communicator {}: schedules from {}; schedule {}; tuning table {}; executor {}; progress {}; "
             "timeout {} ms",
             own.communicator, schedule_path_, options.schedule.empty() ? "by size" : options.schedule,
             !agreement.tuning.empty()
                 ? agreement.tuning_file + (plans_.maker().is_tuned() ? "" : " (nothing for this shape)")
                 : "none",
             name_of(options.executor), options.has_background ? "thread" : "calls", options.timeout.count());
}

void Communicator::check_message(const MessageStart& start) const {
    const bool is_from_any = start.direction == Direction::receive && start.peer == any_rank;
    if (!is_from_any && (start.peer < 0 || start.peer >= size()))
        throw Error(Status::invalid_argument,
                    fmt::format("the peer is {}; it must be a rank, 0 to {}", start.peer, size() - 1));
    if (start.tag < 0)
        throw Error(Status::invalid_argument, fmt::format("the tag is {}; it must be 0 or more", start.tag));
}

}  // namespace hocket::engine
