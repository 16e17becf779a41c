#include "runtime/params/among_ranks/roles.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsl/graph/topology.hpp"
#include "runtime/base/caught.hpp"
#include "runtime/params/among_ranks/update_options.hpp"

namespace hocket::params {
namespace {

using Json = nlohmann::json;
using transport::Endpoint;

// Collective. Runs `part`, a rank's share of the work, which returns what the other ranks need to know;
// returns all ranks' results. Throws on all ranks if it failed on one.
std::vector<Json> together(engine::Communicator& communicator, const std::function<Json()>& part) {
    std::optional<Error> own;
    Json said;
    try {
        said = {{"says", part()}};
    } catch (const std::exception& caught) {
        own = error_of(caught);
        said = {{"status", static_cast<int>(own->status())}, {"why", own->what()}};
    }
    std::vector<Json> all;
    std::optional<Error> failure = own;
    for (const std::string& text : communicator.exchanges().exchange(
             said.dump(-1, ' ', false, Json::error_handler_t::replace), "hkt_params_open")) {
        const Json one = Json::parse(text);
        if (!failure && one.contains("why"))
            failure.emplace(static_cast<Status>(one.at("status").get<int>()),
                            fmt::format("rank {} could not open the parameter service: {}", all.size(),
                                        one.at("why").get<std::string>()));
        all.push_back(one.contains("says") ? one.at("says") : Json());
    }
    if (failure) throw *failure;
    return all;
}

// Ranks exchange a hash of the tensors because there may be many of them.
Json description_of(const Job& job) {
    Job rest = job;
    rest.tensors.resize(1);
    const std::string whole = encode(job);
    return {{"job", encode(rest)}, {"hash", XXH3_64bits(whole.data(), whole.size())}};
}

void compare_roles(const std::vector<Json>& said) {
    for (std::size_t rank = 1; rank < said.size(); ++rank) {
        const int there = said[rank].at("servers"), here = said[0].at("servers");
        if (there != here)
            throw Error(Status::mismatch,
                        fmt::format("the ranks open the parameter service differently: servers is {} on rank "
                                    "{}, and {} on rank 0; pass the same on all ranks",
                                    there, rank, here));
        if (said[rank].at("hash") == said[0].at("hash")) continue;
        const std::string why = difference(decode_job(said[rank].at("job").get<std::string>()),
                                           decode_job(said[0].at("job").get<std::string>()));
        throw Error(Status::mismatch,
                    fmt::format("rank {} (\"there\") and rank 0 (\"here\") open the parameter service "
                                "differently: {}; pass the same arguments on all ranks",
                                rank, why.empty() ? "their lists of tensors differ" : why));
    }
}

std::string rack_of(const engine::Communicator& communicator) {
    const dsl::Topology grid = dsl::grid_topology(communicator.options().topology);
    if (grid.levels.size() > 1 && grid.ranks() == communicator.size())
        return fmt::format("{} {}", grid.name, communicator.rank() / grid.levels[0].size);
    return fmt::format("host {}", communicator.connections().host());
}

std::unique_ptr<params::Server> serve(const engine::Communicator& communicator, std::optional<Endpoint> first,
                                      int servers, const WorkerOptions& as_worker) {
    ServerOptions options;
    options.listen = {communicator.connections().own_address(), 0};
    options.join = std::move(first);
    options.servers = static_cast<std::uint32_t>(servers);
    options.secret = communicator.options().secret;
    options.rack = as_worker.rack;
    options.timeout = as_worker.timeout;
    options.make_calculator = calculate_updates(own_update_options());
    return std::make_unique<params::Server>(std::move(options));
}

}  // namespace

ParameterRole take_roles(engine::Communicator& communicator, int servers,
                         const std::function<params::WorkerOptions()>& make) {
    const bool is_possible = servers >= 1 && servers < communicator.size();
    const int workers = is_possible ? communicator.size() - servers : 0, rank = communicator.rank();
    ParameterRole role;
    WorkerOptions options;
    const auto introductions = together(communicator, [&] {
        if (!is_possible)
            throw Error(Status::invalid_argument,
                        fmt::format("{} of {} ranks are to serve: there must be a server and a worker",
                                    servers, communicator.size()));
        options = make();
        options.job.workers = static_cast<std::uint32_t>(workers);
        if (options.rack.empty()) options.rack = rack_of(communicator);
        check(options.job);
        settle_update(options.job, own_update_options());
        Json said = description_of(options.job);
        said["servers"] = servers;
        if (rank == workers) {
            role.server = serve(communicator, std::nullopt, servers, options);
            said["at"] = role.server->endpoint().text();
        }
        return said;
    });
    compare_roles(introductions);
    const auto first =
        Endpoint::parse(introductions[static_cast<std::size_t>(workers)].at("at").get<std::string>()).value();
    together(communicator, [&] {
        if (rank > workers) role.server = serve(communicator, first, servers, options);
        if (rank >= workers) return Json();
        options.server = first;
        options.secret = communicator.options().secret;
        options.number = static_cast<params::Worker>(rank);
        options.make_calculator = calculate_updates(own_update_options());
        role.client = std::make_unique<params::Client>(std::move(options));
        return Json();
    });
    return role;
}

}  // namespace hocket::params
