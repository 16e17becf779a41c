#include "tools/schedc/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/named_file.hpp"
#include "dsl/base/quantities.hpp"
#include "dsl/base/readable.hpp"
#include "dsl/prediction/simulation.hpp"
#include "tools/schedc/predict.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;
using Json = nlohmann::ordered_json;

constexpr std::size_t most_text = std::size_t{16} << 20;  // bytes of a workload

struct SeedRun {
    std::uint64_t seed;
    std::vector<Job> jobs;  // with layers and batches
    WorkloadTimes times;
};

ClusterWorkload read_workload(const std::string& path) {
    try {
        return parse_workload(path, read_text(path, most_text));
    } catch (const UnreadableFile& error) {
        throw NotFoundError(fmt::format("cannot read the workload {}: {}", path, error.what()));
    }
}

// Draws all with the seeds that come `step` after the file's.
SeedRun run_once(const ClusterWorkload& cluster, const std::string& network, std::uint64_t step,
                 const SimulateRequest& request, const Deadline& deadline) {
    const Topology topology = flat_topology(cluster.hosts);
    NetworkSpec spec = find_network(network, topology).spec();
    spec.routing.seed += step;
    Workload workload = cluster.workload;
    workload.seed += step;
    const Network links(topology, spec);
    workload = with_models(cluster, std::move(workload), links, request.search_path, deadline);
    WorkloadTimes times = simulate(workload, links, request.certify, deadline);
    return {workload.seed, std::move(workload.jobs), std::move(times)};
}

// "1.25 s", or over several runs "1.25 s (1.2 s to 1.5 s)": the median, and the spread.
template <typename Of>
std::string over_runs(const std::vector<SeedRun>& runs, Of of) {
    std::vector<double> values;
    for (const SeedRun& run : runs) values.push_back(of(run.times));
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    const double median = values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
    if (values.size() == 1) return text_of_time(median);
    return fmt::format("{} ({} to {})", text_of_time(median), text_of_time(values.front()),
                       text_of_time(values.back()));
}

// A row, of a job's last exchange or of all of it.
template <typename Of>
std::string row_of(const std::vector<SeedRun>& runs, std::size_t job, const char* what, Of of) {
    return fmt::format("  {:<22} {}\n", what,
                       over_runs(runs, [&](const WorkloadTimes& times) { return of(times.jobs[job]); }));
}

std::string layers_text(const std::vector<SeedRun>& runs, std::size_t job) {
    const Job& first = runs.front().jobs[job];
    const auto last = [&](const char* what, double ExchangeTimes::*member) {
        return row_of(runs, job, what, [&](const JobTimes& times) { return times.exchanges.back().*member; });
    };
    return fmt::format("  {} layers, {} batches of gradients, {} of weights{}\n", first.layers.size(),
                       first.overlap.pushes.size(), first.overlap.pulls.size(),
                       runs.size() > 1 ? " with the first seed" : "") +
           last("iteration", &ExchangeTimes::iteration) + last("  computation", &ExchangeTimes::computation) +
           last("  communication", &ExchangeTimes::communication) + last("  both", &ExchangeTimes::overlap);
}

std::string workload_text(const ClusterWorkload& cluster, const std::string& network,
                          const std::vector<SeedRun>& runs) {
    std::string text = fmt::format(
        "{} jobs on {} hosts{}, seeds {} to {}: {} flows, {} solutions\n", cluster.workload.jobs.size(),
        cluster.hosts,
        network.empty() ? "" : fmt::format(", network \"{}\"", readable(network.substr(0, 80))),
        runs.front().seed, runs.back().seed, runs.front().times.flows, runs.front().times.solutions);
    for (std::size_t i = 0; i < cluster.workload.jobs.size(); ++i) {
        const Job& job = cluster.workload.jobs[i];
        const auto row = [&](const char* what, auto of) { text += row_of(runs, i, what, of); };
        const bool has_servers = runs.front().jobs[i].overlap.combines.empty();
        text += fmt::format("\njob {}: {} workers, {} servers\n", job.name, job.workers,
                            has_servers ? job.servers : 0);
        if (!runs.front().jobs[i].layers.empty()) text += layers_text(runs, i);
        row(has_servers ? "push" : "all_reduce",
            [](const JobTimes& times) { return times.exchanges.back().push; });
        if (has_servers) {
            row("  its busiest link", [](const JobTimes& times) { return times.push_load; });
            row("pull", [](const JobTimes& times) { return times.exchanges.back().pull; });
            row("  its busiest link", [](const JobTimes& times) { return times.pull_load; });
        }
        row(job.iterations == 1 ? "end" : "end of all iterations",
            [](const JobTimes& times) { return times.end; });
        if (job.data > 0) row("all data", [](const JobTimes& times) { return times.all_data; });
    }
    return text;
}

Json job_json(const Job& job, const JobTimes& times) {
    Json json = {{"job", job.name},
                 {"end", times.end},
                 {"push_load", times.push_load},
                 {"pull_load", times.pull_load},
                 {"exchanges", Json::array()}};
    for (const ExchangeTimes& exchange : times.exchanges)
        json["exchanges"].push_back({{"begin", exchange.begin},
                                     {"push", exchange.push},
                                     {"pull", exchange.pull},
                                     {"iteration", exchange.iteration},
                                     {"computation", exchange.computation},
                                     {"communication", exchange.communication},
                                     {"overlap", exchange.overlap}});
    if (!job.layers.empty()) {
        json["pushes"] = job.overlap.pushes;
        json["pulls"] = job.overlap.pulls;
    }
    if (job.data > 0) {
        json["rounds"] = times.rounds;
        json["all_data"] = times.all_data;
    }
    return json;
}

std::string workload_json(const ClusterWorkload& cluster, const std::string& network,
                          const std::vector<SeedRun>& runs) {
    Json json = {{"hosts", cluster.hosts}, {"network", network}, {"runs", Json::array()}};
    for (const SeedRun& run : runs) {
        Json one = {{"seed", run.seed},
                    {"flows", run.times.flows},
                    {"solutions", run.times.solutions},
                    {"jobs", Json::array()},
                    {"link_bytes", run.times.link_bytes}};
        for (std::size_t i = 0; i < run.times.jobs.size(); ++i)
            one["jobs"].push_back(job_json(run.jobs[i], run.times.jobs[i]));
        json["runs"].push_back(std::move(one));
    }
    return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

int run_simulate(const SimulateRequest& request) try {
    const ClusterWorkload cluster = read_workload(request.workload);
    const std::string network = request.network.empty() ? cluster.network : request.network;
    const Deadline deadline{std::chrono::duration<double>(request.timeout)};
    std::vector<SeedRun> runs;
    for (int step = 0; step < request.seeds; ++step)
        runs.push_back(run_once(cluster, network, static_cast<std::uint64_t>(step), request, deadline));
    fmt::print("{}", request.json ? workload_json(cluster, network, runs) + "\n"
                                  : workload_text(cluster, network, runs));
    return 0;
} catch (const DeadlineError&) {
    throw DeadlineError(
        fmt::format("the simulation was not done within {:g} s\n"
                    "  hint: give it more time (--timeout), or fewer jobs, iterations, chunks, "
                    "priorities or seeds",
                    request.timeout));
}

}  // namespace hocket::tools
