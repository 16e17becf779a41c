#include "capi/params/options.hpp"

#include <fmt/format.h>

#include "capi/errors.hpp"
#include "capi/vocabulary.hpp"
#include "runtime/base/environment.hpp"
#include "runtime/engine/job/own_options.hpp"

namespace hocket::capi {
namespace {

using std::chrono::milliseconds;

std::string from_environment(const char* name) {
    const Environment environment = process_environment();
    return EnvironmentReader(environment).text(name).value_or("");
}

std::vector<params::Tensor> tensors_of(const char* function, const GivenModel& model) {
    if (model.tensors == nullptr || model.count == 0)
        refuse(fmt::format("{}: no tensors given; the service needs at least one", function));
    std::vector<params::Tensor> tensors;
    for (std::size_t i = 0; i < model.count; ++i) {
        const hkt_params_tensor& given = model.tensors[i];
        if (given.name == nullptr || *given.name == '\0')
            refuse(fmt::format("{}: tensors[{}] has no name", function, i));
        const DataType type = type_of(given.type);
        if (!supports(ReduceOp::sum, type))
            refuse(fmt::format("{}: tensors[{}] is of {}, which cannot be added up", function, i,
                               name_of(type)));
        tensors.push_back({given.name, type, given.count});
    }
    return tensors;
}

std::vector<const std::byte*> weights_of(const char* function, const GivenModel& model) {
    std::vector<const std::byte*> weights;
    if (model.first_weights == nullptr) return weights;
    for (std::size_t i = 0; i < model.count; ++i) {
        if (model.first_weights[i] == nullptr)
            refuse(
                fmt::format("{}: first_weights[{}] is null; a worker gives all of the first weights, or "
                            "none of them",
                            function, i));
        weights.push_back(static_cast<const std::byte*>(model.first_weights[i]));
    }
    return weights;
}

params::Job job_of(const char* function, const GivenModel& model, const hkt_params_options& given) {
    params::Job job;
    job.tensors = tensors_of(function, model);
    if (given.staleness < HKT_UNBOUNDED)
        refuse(fmt::format("hkt_params_options.staleness is {}; it is a number of rounds, or HKT_UNBOUNDED",
                           given.staleness));
    job.staleness = given.staleness == HKT_UNBOUNDED
                        ? params::Staleness()
                        : params::Staleness(static_cast<params::Clock>(given.staleness));
    job.update = given.update == nullptr ? "sum" : given.update;
    if (given.tree != nullptr) job.tree = given.tree;
    if (given.chunk_bytes != 0) job.chunk_bytes = given.chunk_bytes;
    if (given.workers != 0)
        job.workers = static_cast<std::uint32_t>(
            check_range("hkt_params_options.workers", given.workers, 1, INT32_MAX));
    job.priority =
        static_cast<std::uint32_t>(check_range("hkt_params_options.priority", given.priority, 0, 255));
    if (given.longest_wait_ms < -1)
        refuse(fmt::format("hkt_params_options.longest_wait_ms is {}; it is a time, or -1 for ever",
                           given.longest_wait_ms));
    if (given.longest_wait_ms != 0)
        job.longest_wait_ms =
            given.longest_wait_ms == -1 ? 0 : static_cast<std::uint32_t>(given.longest_wait_ms);
    return job;
}

}  // namespace

params::WorkerOptions options_among_ranks(const char* function, const GivenModel& model,
                                          const hkt_params_options& given) {
    params::WorkerOptions options;
    options.job = job_of(function, model, given);
    options.first_weights = weights_of(function, model);
    options.rack = capi::text_of(given.rack);
    options.timeout = timeout_of("hkt_params_options.timeout_ms", given.timeout_ms);
    return options;
}

params::WorkerOptions options_of_worker(const char* function, const GivenModel& model,
                                        const hkt_params_options& given) {
    params::WorkerOptions options = options_among_ranks(function, model, given);
    const std::string address = given.address ? given.address : from_environment("HOCKET_PARAMS_ADDRESS");
    if (address.empty())
        refuse(
            fmt::format("{}: it is not known where the service is: set HOCKET_PARAMS_ADDRESS (or "
                        "hkt_params_options.address) to the address that `hocket-params serve` has printed",
                        function));
    options.server =
        endpoint_of(given.address ? "hkt_params_options.address" : "HOCKET_PARAMS_ADDRESS", address);
    options.secret = secret_of(given.secret);
    if (given.number < -1)
        refuse(fmt::format("hkt_params_options.number is {}; it is a worker's number, or -1 for any",
                           given.number));
    if (given.number >= 0) options.number = static_cast<params::Worker>(given.number);
    return options;
}

params::ServerOptions options_of_server(const hkt_params_server_options& given) {
    params::ServerOptions options;
    if (capi::text_of(given.listen).empty())
        refuse(
            "hkt_params_server_options.listen is not set: the address to listen at, such as [::]:7000, which "
            "is all of this host's");
    std::string listen = given.listen;
    if (listen.rfind(':') == 0) listen = "[::]" + listen;  // and not of "::1:7000"
    options.rack = capi::text_of(given.rack);
    options.listen = endpoint_of("hkt_params_server_options.listen", listen);
    if (!capi::text_of(given.join).empty())
        options.join = endpoint_of("hkt_params_server_options.join", given.join);
    options.secret = secret_of(given.secret);
    params::CheckpointOptions& checkpoints = options.checkpoints;
    checkpoints.folder = capi::text_of(given.checkpoints);
    if (given.checkpoint_every > UINT32_MAX)
        refuse(fmt::format("hkt_params_server_options.checkpoint_every is {}; it can be 1 to {} rounds",
                           given.checkpoint_every, UINT32_MAX));
    if (given.checkpoint_every != 0) checkpoints.every = given.checkpoint_every;
    checkpoints.restore = given.restore != 0;
    if (checkpoints.restore && checkpoints.folder.empty())
        refuse(
            "hkt_params_server_options.restore is set, but checkpoints is not: the folder to restore from");
    if ((given.round != 0 || given.accept_torn != 0) && !checkpoints.restore)
        refuse("hkt_params_server_options.round or accept_torn is set, but restore is not");
    if (given.round > params::most_clock)
        refuse(fmt::format("hkt_params_server_options.round is {}; no job gets there", given.round));
    if (given.round != 0) checkpoints.round = given.round;
    checkpoints.accepts_torn = given.accept_torn != 0;
    if (given.index != -1)
        checkpoints.index =
            static_cast<std::uint32_t>(check_range("hkt_params_server_options.index", given.index, 0, 65535));
    if (given.servers != 0)
        options.servers = static_cast<std::uint32_t>(
            check_range("hkt_params_server_options.servers", given.servers, 1, 65536));
    options.timeout = timeout_of("hkt_params_server_options.timeout_ms", given.timeout_ms);
    const auto time = [](const char* name, std::int64_t value, milliseconds& to) {
        if (value != 0) to = milliseconds(check_timeout(name, value, 1));
    };
    time("hkt_params_server_options.silence_ms", given.silence_ms, options.terms.silence);
    time("hkt_params_server_options.return_ms", given.return_ms, options.terms.return_for);
    return options;
}

std::string secret_of(const char* given) {
    return given != nullptr && *given != '\0' ? given : from_environment("HOCKET_SECRET");
}

milliseconds timeout_of(const char* name, std::int64_t given) {
    if (given != 0) return milliseconds(check_timeout(name, given, 1));
    return engine::own_options().timeout;
}

transport::Endpoint endpoint_of(const std::string& name, const std::string& text) {
    const auto endpoint = transport::Endpoint::parse(text);
    if (!endpoint)
        refuse(fmt::format("{} is \"{}\"; it must be an address such as 10.0.0.4:7000 or [fd00::4]:7000",
                           name, text));
    return *endpoint;
}

}  // namespace hocket::capi
