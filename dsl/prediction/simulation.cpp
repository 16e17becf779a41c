#include "dsl/prediction/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsl/base/diagnostic.hpp"
#include "dsl/prediction/flows.hpp"
#include "dsl/prediction/streams.hpp"
#include "dsl/prediction/worker_trees.hpp"

namespace hocket::dsl {
namespace {

constexpr double most_edges = 50e6;  // of all trees, with all chunks of all iterations
constexpr const char* simulating = "simulating jobs of parameter servers";

[[noreturn]] void refuse(const Job& job, const std::string& what, const std::string& hint) {
    throw DiagnosticError(Span(), fmt::format("job {}: {}", job.name, what), hint);
}

void check_numbers(const Job& job) {
    const auto is_time = [](double seconds) { return seconds >= 0 && std::isfinite(seconds); };
    if (!(job.bytes > 0) || !std::isfinite(job.bytes))
        refuse(job, fmt::format("a model of {} bytes", job.bytes), "a size is finite and more than 0");
    if (!is_time(job.compute) || !is_time(job.start))
        refuse(job, fmt::format("{} s of computation from {} s on", job.compute, job.start),
               "times are finite, and 0 or more");
    if (job.iterations < 1) refuse(job, fmt::format("{} iterations", job.iterations), "at least 1");
    if (const std::optional<std::string> why = why_no_plan(job))
        refuse(job, *why, "sizes and times are finite, and batches are consecutive layers, all of them");
    if (job.data == 0) return;
    if (!(job.data > 0 && job.slowest > 0 && job.fastest >= job.slowest && job.compute > 0) ||
        !std::isfinite(job.data) || !std::isfinite(job.fastest))
        refuse(job,
               fmt::format("{} bytes of data at {} to {} bytes a second, {} s an iteration", job.data,
                           job.slowest, job.fastest, job.compute),
               "all are finite and more than 0, the slower rate first");
}

void check(const Job& job, Rank hosts) {
    check_numbers(job);
    if (job.workers < 1 || job.servers < 1)
        refuse(job, fmt::format("{} workers, {} servers", job.workers, job.servers), "at least one of each");
    if (job.placement == Job::Placement::random && std::max(job.workers, job.servers) > hosts)
        refuse(job, fmt::format("{} workers, {} servers, {} hosts", job.workers, job.servers, hosts),
               "workers are drawn on different hosts, and servers are; \"order\" puts several on a host");
    if (job.tree.kind == WorkerTree::Kind::degree && job.tree.degree < 1)
        refuse(job, fmt::format("a tree of degree {}", job.tree.degree), "at least 1");
}

// Returns the edges of the job's trees, for pushes and for pulls, with all their chunks.
double edges_of(const Job& job) {
    const double edges = double(job.workers) * job.servers;
    const bool is_fluid = job.chunks == 0 && job.tree.kind != WorkerTree::Kind::direct;
    const double batches = static_cast<double>(TrainingLoop(job).batches());
    return is_fluid ? 2 * edges : edges * batches * std::max(job.chunks, 1u) * job.iterations;
}

void check(const Workload& workload, const Network& network) {
    double edges = 0;
    for (const Job& job : workload.jobs) {
        check(job, network.ranks());
        edges += edges_of(job);
        if (edges > most_edges)
            refuse(job,
                   fmt::format("with it the workload has {} edges of trees, more than {}", edges, most_edges),
                   "each worker is an edge for each server, in each direction, and with chunks for each "
                   "chunk of "
                   "each iteration; with data, the last iteration stands for all");
    }
    for (const Job& job : workload.jobs)
        if (!job.overlap.combines.empty() && workload.jobs.size() > 1)
            refuse(job, "it combines gradients without servers, beside other jobs",
                   "how such a job shares links is not simulated: simulate it alone");
    if (workload.rack < 1)
        throw DiagnosticError(Span(), fmt::format("racks of {} hosts", workload.rack), "at least 1");
}

std::vector<double> rates_of(const Network& network) {
    std::vector<double> rates;
    for (const NetworkLink& link : network.links()) rates.push_back(link.rate);
    return rates;
}

class Simulation {
  public:
    Simulation(const Workload& workload, const Network& network, bool certifies, const Deadline& deadline)
        : workload_(workload),
          deadline_(deadline),
          flows_(rates_of(network), certifies, deadline),
          maker_(network, flows_, deadline_) {
        times_.link_bytes.resize(network.links().size());
        for (std::size_t i = 0; i < workload.jobs.size(); ++i) add(i, network);
    }

    WorkloadTimes run() {
        for (std::uint32_t i = 0; i < jobs_.size(); ++i) go_on(i);
        while (true) {
            deadline_.check(simulating, 1 + work_);
            double time = flows_.next();
            for (const Running& job : jobs_) time = std::min(time, job.loop.next());
            if (time == no_event) break;
            for (Running& job : jobs_) job.loop.pass(time - flows_.now());
            for (const FlowId flow : flows_.advance(time)) end_chunk(owners_[flow]);
            for (std::uint32_t i = 0; i < jobs_.size(); ++i) go_on(i);
        }
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            times_.jobs[i].exchanges = jobs_[i].loop.exchanges();
            require_end(i);
            count_data(i);
        }
        times_.flows = owners_.size();
        times_.solutions = flows_.solutions();
        return std::move(times_);
    }

    WorkloadTimes loads() { return std::move(times_); }

  private:
    using Way = TrainingLoop::Way;
    struct StreamState {
        std::uint32_t sent = 0;  // chunks
        bool sends = false;
    };
    // What a job sends in one direction.
    struct Exchange {
        std::vector<Stream> streams;
        std::vector<StreamState> states;  // of the streams of this batch
        std::size_t open = 0;             // streams that have not sent all
        double share = 0;                 // of the streams' bytes
    };
    struct Running {
        TrainingLoop loop;
        PlacedJob placed = {};
        Exchange push = {}, pull = {};

        Exchange& exchange(Way way) { return way == Way::push ? push : pull; }
    };
    struct Owner {
        std::uint32_t job, stream;
        Way way;
    };

    void add(std::size_t number, const Network& network) {
        const Job& spec = workload_.jobs[number];
        Running& job = jobs_.emplace_back(Running{TrainingLoop(spec)});
        JobTimes& times = times_.jobs.emplace_back();
        work_ += job.loop.layers();
        job.placed = place(spec, number, workload_.seed, workload_.rack, network.ranks());
        if (!spec.overlap.combines.empty()) return;
        for (const bool pulls : {false, true}) {
            (pulls ? job.pull : job.push).streams = maker_.streams_of(spec, job.placed, pulls);
            const std::vector<double> loads = maker_.take_loads();
            const double scale = pulls ? 1 : spec.overlap.gradients;
            double& most = pulls ? times.pull_load : times.push_load;
            for (std::size_t link = 0; link < loads.size(); ++link) {
                most = std::max(most, scale * loads[link] / network.links()[link].rate);
                times_.link_bytes[link] += scale * loads[link];
            }
        }
    }

    void begin(std::uint32_t number, const TrainingLoop::Batch& batch) {
        Exchange& exchange = jobs_[number].exchange(batch.way);
        exchange.open = exchange.streams.size();
        exchange.states.assign(exchange.open, {});
        exchange.share =
            batch.share * (batch.way == Way::push ? workload_.jobs[number].overlap.gradients : 1);
        for (std::uint32_t i = 0; i < exchange.states.size(); ++i) send({number, i, batch.way});
    }

    bool may_send(const Exchange& exchange, std::uint32_t stream) {
        const StreamState& state = exchange.states[stream];
        const Stream& its = exchange.streams[stream];
        deadline_.check(simulating, 1 + its.needs.size());
        const auto has_sent = [&](std::uint32_t need) { return exchange.states[need].sent > state.sent; };
        return !state.sends && state.sent < its.chunks &&
               std::all_of(its.needs.begin(), its.needs.end(), has_sent);
    }

    // Sends the next chunk of a stream, if there is one, and what can go because it went in no time.
    void send(Owner first) {
        Exchange& exchange = jobs_[first.job].exchange(first.way);
        waiting_.push_back(first.stream);
        while (!waiting_.empty()) {
            const std::uint32_t stream = waiting_.back();
            waiting_.pop_back();
            if (!may_send(exchange, stream)) continue;
            const Stream& its = exchange.streams[stream];
            if (its.is_local) {
                count_chunk(exchange, stream);
                continue;
            }
            exchange.states[stream].sends = true;
            owners_.push_back({first.job, stream, first.way});
            flows_.start(its.route, its.bytes * exchange.share);
        }
    }

    void count_chunk(Exchange& exchange, std::uint32_t stream) {
        const Stream& its = exchange.streams[stream];
        if (++exchange.states[stream].sent == its.chunks) --exchange.open;
        waiting_.push_back(stream);
        waiting_.insert(waiting_.end(), its.feeds.begin(), its.feeds.end());
    }

    void end_chunk(Owner owner) {
        Running& job = jobs_[owner.job];
        Exchange& exchange = job.exchange(owner.way);
        exchange.states[owner.stream].sends = false;
        count_chunk(exchange, owner.stream);
        send(owner);
        if (exchange.open == 0) job.loop.arrived(owner.way, flows_.now());
    }

    // Takes a job as far as it can go now.
    void go_on(std::uint32_t number) {
        Running& job = jobs_[number];
        if (job.loop.is_over()) return;
        while (const std::optional<TrainingLoop::Batch> batch = job.loop.advance(flows_.now())) {
            begin(number, *batch);
            if (job.exchange(batch->way).open == 0) job.loop.arrived(batch->way, flows_.now());
        }
        if (job.loop.is_over()) times_.jobs[number].end = flows_.now();
    }

    // A flow without a rate, or one of more bytes than times can tell, never ends.
    void require_end(std::size_t number) const {
        if (!jobs_[number].loop.is_over() || !std::isfinite(times_.jobs[number].end))
            refuse(workload_.jobs[number], "it takes longer than can be said",
                   "its bytes, or the network's rates, are out of any range");
    }

    void count_data(std::size_t number) {
        const Job& spec = workload_.jobs[number];
        if (spec.data == 0) return;
        JobTimes& times = times_.jobs[number];
        const ExchangeTimes& last = times.exchanges.back();
        times.rounds = std::ceil(spec.data / (jobs_[number].placed.slowest * spec.compute));
        times.all_data = times.rounds * last.iteration;
        if (!std::isfinite(times.all_data))
            refuse(spec, "all its data take longer than can be said",
                   "its data or rates are out of any range");
    }

    const Workload& workload_;
    DeadlineCounter deadline_;
    Flows flows_;
    StreamMaker maker_;
    std::vector<Running> jobs_;
    std::size_t work_ = 0;                // layers of all jobs
    std::vector<Owner> owners_;           // by flow
    std::vector<std::uint32_t> waiting_;  // streams that may be able to send
    WorkloadTimes times_;
};

}  // namespace

WorkloadTimes simulate(const Workload& workload, const Network& network, bool certifies,
                       const Deadline& deadline) {
    check(workload, network);
    return Simulation(workload, network, certifies, deadline).run();
}

WorkloadTimes loads_of(const Workload& workload, const Network& network, const Deadline& deadline) {
    check(workload, network);
    return Simulation(workload, network, false, deadline).loads();
}

}  // namespace hocket::dsl
