// The thread of a worker of the parameter service, and what it shares with the threads that call.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/params/service/call.hpp"
#include "runtime/params/service/note.hpp"
#include "runtime/params/worker/joining.hpp"
#include "runtime/params/worker/options.hpp"
#include "runtime/params/worker/pulls.hpp"
#include "runtime/params/worker/request.hpp"
#include "runtime/params/worker/requests.hpp"
#include "runtime/params/worker/staging.hpp"
#include "runtime/params/worker/stats.hpp"
#include "runtime/params/worker/upstream.hpp"
#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/mailbox.hpp"

namespace hocket::params {

using Json = nlohmann::json;
using Time = transport::Clock;
using transport::ProtocolError;

class WorkerService final : private Link::Owner {
  public:
    explicit WorkerService(WorkerOptions options);
    ~WorkerService();

    Worker number() const { return self_.number; }
    Clock clock() const { return clock_; }
    const Job& job() const { return *job_; }
    const Layout& layout() const { return *layout_; }

    ParameterRequest* push(std::uint32_t first, std::span<const std::byte* const> gradients);
    ParameterRequest* push(std::uint32_t tensor, const SparseUpdate& gradient);
    ParameterRequest* pull(std::uint32_t first, std::span<std::byte* const> weights, Clock staleness);
    ParameterRequest* pull_ahead(std::span<const Chunk> chunks, std::span<std::byte* const> weights,
                                 Clock staleness);
    std::vector<ParameterRequest*> pull_in_turn(std::span<const std::vector<Chunk>> batches,
                                                std::span<std::byte* const> weights, Clock staleness);
    ParameterRequest* checkpoint();
    Clock tick();
    std::optional<Time::time_point> wait(ParameterRequest* request, Time::time_point until);
    void give_up(ParameterRequest* request);
    void start_deadline(ParameterRequest* request) { requests_.start_deadline(*request); }
    WorkerStats stats();

  private:
    void run(transport::Socket front);
    void serve();
    void look_at_time();
    void end_late_requests(Time::time_point now);
    void wait_until_joined();
    void leave();
    bool has_nothing_on_its_way() const;
    void flush();

    void opened(const Json& note);
    void begin(Clock first);
    void server_says(const Json& note);
    Value first_weights(Chunk chunk);

    void full(Chunk chunk, Value gradient);
    Clock least_clock(Clock round, Clock staleness) const;
    std::shared_ptr<Wanted> ask(Wanted wanted, Clock least, const std::string& what);
    ParameterRequest* pull(Wanted wanted, Clock least, const std::string& what);
    bool in_thread(const std::function<void()>& call);
    void news(std::uint32_t server);
    void fail(Status status, const std::string& why);
    ParameterRequest* make_room_request(std::string text);
    void require_tensors(std::uint32_t first, std::size_t count) const;
    std::string likely_cause() const;  // why something may be late
    Clock covered() const;

    void received(Link& link, const Json& note) override;
    void received(Link& link, Message message) override;
    void broke(Link& link, const std::string& why) override;
    void drop(Link& link, const std::string& why);
    ChunkShape shape_of(const Link&, Chunk) const override {
        throw ProtocolError("it sent elements too early");
    }
    Bounds bounds(const Link&) const override { return {}; }
    PriorityGate* gate() const override { return gate_.get(); }

    WorkerOptions options_;
    const Time::time_point deadline_;  // until when it must have joined
    const std::shared_ptr<const Job> job_;
    const std::shared_ptr<const Calculator> calculator_;
    const std::shared_ptr<Memory> memory_ = Memory::make();
    const std::unique_ptr<PriorityGate> gate_;
    WorkerSelf self_{options_};
    std::shared_ptr<const Layout> layout_;
    std::unique_ptr<Staging> staging_;
    std::atomic<Clock> clock_ = 0;
    std::atomic<Clock> covered_ = 0;  // the last result of covered()
    Clock first_ = 0;                 // the worker's first round

    transport::Socket listener_;
    transport::SocketLoop loop_{transport::SocketLoop::Way::epoll};
    transport::Mailbox mailbox_;
    std::unique_ptr<transport::Admission> admission_;
    std::unique_ptr<Link> front_;               // to the first server, until a shard takes it over
    std::list<std::unique_ptr<Link>> unknown_;  // from workers that have not said yet whose children they are
    std::vector<std::unique_ptr<Upstream>> upstreams_;  // by server
    Requests requests_{options_.timeout};
    CheckpointRequests checkpoints_{requests_, [this](std::uint64_t number) {
                                        for (const auto& upstream : upstreams_)
                                            upstream->ask_for_checkpoint(number);
                                    }};
    Joining joining_{loop_, requests_, upstreams_, [this](Clock first) { begin(first); },
                     [this](const std::string& why) { fail(Status::mismatch, why); }};
    Pulls pulls_{job_->staleness.has_value(), layout_, requests_, upstreams_};
    Time::time_point next_look_{}, looked_ = Time::now();

    std::atomic<bool> is_leaving_ = false;
    std::thread thread_;
};

}  // namespace hocket::params
