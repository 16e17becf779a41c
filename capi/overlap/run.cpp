// hkt_overlap: checks and translates the arguments, nothing more.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "capi/growth.hpp"
#include "capi/handles.hpp"
#include "capi/overlap/methods.hpp"
#include "capi/ranges.hpp"
#include "capi/vocabulary.hpp"
#include "capi/waiting.hpp"
#include "runtime/overlap/among_ranks/exchange_among_ranks.hpp"
#include "runtime/overlap/among_ranks/exchange_with_service.hpp"
#include "runtime/overlap/run.hpp"

using namespace hocket;

struct hkt_overlap : hocket::capi::Handle {
    std::unique_ptr<overlap::Run> run;
    capi::Interruption interruption;
    hkt_comm* comm = nullptr;  // null unless it runs among ranks; also keeps the error texts
};

namespace {

thread_local std::string plan_json;  // the calling thread's copy

overlap::Run& opened(hkt_overlap* handle, const char* function) {
    if (handle == nullptr) capi::refuse(fmt::format("{}: overlap is null", function));
    handle->require_own("overlap");
    return *handle->run;
}

void check_place(const char* function, hkt_overlap** overlap) {
    if (overlap == nullptr)
        capi::refuse(fmt::format("{}: overlap is null; pass the address of an hkt_overlap*", function));
    *overlap = nullptr;
}

overlap::RunOptions run_options_of(const hkt_overlap_run_options& given) {
    overlap::RunOptions options;
    options.method = capi::method_of("hkt_overlap_run_options", given.method);
    options.pulls = capi::pulls_of(given.pulls);
    options.planning.limit_bytes = given.limit_bytes;
    if (given.bucket_bytes != 0) options.planning.bucket_bytes = given.bucket_bytes;
    if (given.measure != 0) {
        if (given.measure < static_cast<std::int32_t>(overlap::least_to_measure))
            capi::refuse(fmt::format("hkt_overlap_run_options.measure is {}; it must be {} or more, or 0",
                                     given.measure, overlap::least_to_measure));
        options.measure = static_cast<std::size_t>(given.measure);
    }
    if (given.look_every < -1)
        capi::refuse(fmt::format("hkt_overlap_run_options.look_every is {}; it must be 1 or more, 0 or -1",
                                 given.look_every));
    if (given.look_every == -1) options.look_every.reset();
    if (given.look_every > 0) options.look_every = static_cast<std::size_t>(given.look_every);
    if (given.profile == nullptr) return options;
    try {
        options.profile = overlap::parse_profile(given.profile);
    } catch (const Error& error) {
        capi::refuse(fmt::format("hkt_overlap_run_options.profile: {}", error.what()));
    }
    return options;
}

// The layers that a call was given.
struct Layers {
    std::vector<std::string> names;
    std::vector<std::size_t> tensors;
};

Layers layers_of(const char* function, const hkt_overlap_layer* layers, std::size_t count,
                 std::size_t tensors) {
    if (count < 1 || count > overlap::most_layers)
        capi::refuse(fmt::format("{}: layer_count is {}; it must be from 1 to {}", function, count,
                                 overlap::most_layers));
    if (layers == nullptr) capi::refuse(fmt::format("{}: layers is null", function));
    Layers made;
    std::size_t all = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string name = layers[i].name == nullptr ? "" : layers[i].name;
        made.names.push_back(overlap::is_name(name) ? name : fmt::format("layer {}", i + 1));
        made.tensors.push_back(layers[i].tensors);
        if (__builtin_add_overflow(all, layers[i].tensors, &all) || all > tensors)
            capi::refuse(
                fmt::format("{}: the layers up to layers[{}] have more tensors than the {} of the "
                            "model",
                            function, i, tensors));
    }
    if (all != tensors)
        capi::refuse(fmt::format("{}: the layers have {} tensors in all, and the model has {}", function, all,
                                 tensors));
    return made;
}

template <typename From>
std::vector<capi::Range> memory_of(const char* function, const char* name, From* const* given,
                                   const std::vector<params::Tensor>& tensors) {
    if (given == nullptr) capi::refuse(fmt::format("{}: {} is null", function, name));
    std::vector<capi::Range> memory;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        memory.push_back({name, given[i], tensors[i].count, element_size(tensors[i].type), i});
        if (tensors[i].count > 0) capi::refuse_device(function, memory.back().words(), given[i]);
    }
    return memory;
}

template <typename To>
std::vector<To*> places_of(const std::vector<capi::Range>& memory) {
    std::vector<To*> places;
    for (const capi::Range& range : memory)
        places.push_back(static_cast<To*>(const_cast<void*>(static_cast<const void*>(range.begin))));
    return places;
}

// Returns the gradients that the ranks combine: tensors of one type.
overlap::RankedGradients gradients_of(const char* function, hkt_comm& comm, const hkt_params_tensor* tensors,
                                      std::size_t count, void* const* gradients,
                                      const hkt_overlap_run_options& given) {
    if (tensors == nullptr || count == 0) capi::refuse(fmt::format("{}: no tensors given", function));
    overlap::RankedGradients made{.type = capi::type_of(tensors[0].type),
                                  .counts = {},
                                  .memory = {},
                                  .layer_tensors = {},
                                  .op = ReduceOp::sum,
                                  .schedule = "reproducible"};
    std::vector<params::Tensor> all_tensors;
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (tensors[i].type != tensors[0].type)
            capi::refuse(
                fmt::format("{}: tensors[{}] is of {}, and tensors[0] of {}; they must have one type: "
                            "make an hkt_overlap for those of each",
                            function, i, name_of(capi::type_of(tensors[i].type)), name_of(made.type)));
        if (tensors[i].count > (overlap::most_bytes - all) / element_size(made.type))
            capi::refuse(fmt::format("{}: the tensors up to tensors[{}] have more than {} bytes", function, i,
                                     overlap::most_bytes));
        all += tensors[i].count * element_size(made.type);
        made.counts.push_back(tensors[i].count);
        all_tensors.push_back({"", made.type, tensors[i].count});
    }
    const std::vector<capi::Range> memory = memory_of(function, "gradients", gradients, all_tensors);
    capi::check_ranges(function, memory, {});
    made.memory = places_of<std::byte>(memory);
    auto combined = capi::operator_of(given.op, made.type, comm.operators);
    made.op = std::move(combined.op);
    made.factor = combined.factor;
    if (given.schedule != nullptr) made.schedule = given.schedule;
    return made;
}

overlap::ServedModel model_of(const char* function, const hkt_params& params, const void* const* gradients,
                              void* const* weights, const hkt_overlap_run_options& given) {
    overlap::ServedModel model;
    const std::vector<params::Tensor>& tensors = params.client->job().tensors;
    for (const params::Tensor& tensor : tensors)
        model.tensor_bytes.push_back(tensor.count * element_size(tensor.type));
    const std::vector<capi::Range> read = memory_of(function, "gradients", gradients, tensors),
                                   written = memory_of(function, "weights", weights, tensors);
    capi::check_ranges(function, written, read);
    model.gradients = places_of<const std::byte>(read);
    model.weights = places_of<std::byte>(written);
    if (given.staleness < HKT_UNBOUNDED || (given.staleness == HKT_UNBOUNDED && !params.is_unbounded))
        capi::refuse(
            fmt::format("hkt_overlap_run_options.staleness is {}; it is a number of rounds, or, if "
                        "the service was opened so, HKT_UNBOUNDED",
                        given.staleness));
    model.staleness = static_cast<params::Clock>(given.staleness);
    return model;
}

hkt_overlap* overlap_handle_of(std::unique_ptr<overlap::Run> run, const capi::Interruption& interruption) {
    auto made = std::make_unique<hkt_overlap>();
    made->run = std::move(run);
    made->interruption = interruption;
    return made.release();
}

// A rank's run, and the values that must be alike on all ranks.
struct Brought {
    std::unique_ptr<overlap::Run> run;
    overlap::Description description;
};

Brought bring(const char* function, hkt_comm& comm, const hkt_params_tensor* tensors, std::size_t count,
              void* const* gradients, const hkt_overlap_layer* layers, std::size_t layer_count,
              const hkt_overlap_run_options* options) {
    const hkt_overlap_run_options given = capi::read_options(options);
    overlap::RankedGradients made = gradients_of(function, comm, tensors, count, gradients, given);
    Layers named = layers_of(function, layers, layer_count, count);
    overlap::RunOptions run_options = run_options_of(given);
    made.layer_tensors = std::move(named.tensors);
    auto exchange = std::make_unique<overlap::ExchangeAmongRanks>(*comm.engine, std::move(made));
    overlap::Description description = exchange->description();
    for (auto& one : overlap::described(run_options)) description.push_back(std::move(one));
    description.emplace_back("names of layers", fmt::format("{}", fmt::join(named.names, "\n")));
    return {
        std::make_unique<overlap::Run>(std::move(exchange), std::move(named.names), std::move(run_options)),
        std::move(description)};
}

// Tells the other ranks, which would otherwise wait for this one. If they cannot be told, they report that
// error themselves; this rank does not.
void tell_that_this_one_is_refused(hkt_comm& comm) {
    try {
        overlap::difference_among_ranks(*comm.engine, nullptr);
    } catch (const std::exception&) {
    }
}

// Runs the call. An error's text is also kept for hkt_comm_last_error if there is a communicator.
template <typename Call>
hkt_status noting(hkt_comm* comm, const Call& call) {
    try {
        return call();
    } catch (const std::exception& error) {
        if (comm != nullptr) comm->last_error.keep(error.what());
        throw;
    }
}

// Runs a step of an iteration that may wait.
template <typename Step>
hkt_status step(hkt_overlap* handle, const char* function, const Step& take) {
    return capi::guarded([&] {
        overlap::Run& run = opened(handle, function);
        return noting(handle->comm, [&] {
            capi::wait_unless_interrupted(
                function, handle->interruption, overlap::Clock::time_point::max(),
                [&](overlap::Clock::time_point until) { return take(run, until); },
                "the exchange goes on, and the call can be made again; hkt_comm_abort ends it");
            return HKT_SUCCESS;
        });
    });
}

hkt_status give_batches(const char* function, const overlap::Batches& planned, size_t* ends,
                        size_t* batches) {
    if (ends == nullptr || batches == nullptr)
        capi::refuse(fmt::format("{}: ends or batches is null", function));
    std::copy(planned.begin(), planned.end(), ends);
    *batches = planned.size();
    return HKT_SUCCESS;
}

}  // namespace

extern "C" {

hkt_status hkt_overlap_with_ranks(hkt_comm* comm, const hkt_params_tensor* tensors, size_t count,
                                  void* const* gradients, const hkt_overlap_layer* layers, size_t layer_count,
                                  const hkt_overlap_run_options* options, hkt_overlap** overlap) {
    return capi::guarded([&] {
        const char* const function = "hkt_overlap_with_ranks";
        check_place(function, overlap);
        if (comm == nullptr) capi::refuse(fmt::format("{}: comm is null", function));
        comm->require_own("communicator");
        return noting(comm, [&] {
            Brought brought;
            try {
                brought = bring(function, *comm, tensors, count, gradients, layers, layer_count, options);
            } catch (...) {
                tell_that_this_one_is_refused(*comm);
                throw;
            }
            const std::string difference =
                overlap::difference_among_ranks(*comm->engine, &brought.description);
            if (!difference.empty())
                throw Error(Status::mismatch,
                            fmt::format("{}: the ranks give different {}; all must give the same", function,
                                        difference));
            *overlap = overlap_handle_of(std::move(brought.run), comm->interruption);
            (*overlap)->comm = comm;
            return HKT_SUCCESS;
        });
    });
}

hkt_status hkt_overlap_with_params(hkt_params* params, const void* const* gradients, void* const* weights,
                                   const hkt_overlap_layer* layers, size_t layer_count,
                                   const hkt_overlap_run_options* options, hkt_overlap** overlap) {
    return capi::guarded([&] {
        const char* const function = "hkt_overlap_with_params";
        check_place(function, overlap);
        if (params == nullptr) capi::refuse(fmt::format("{}: params is null", function));
        params->require_own("parameter worker");
        const hkt_overlap_run_options given = capi::read_options(options);
        overlap::ServedModel model = model_of(function, *params, gradients, weights, given);
        Layers named = layers_of(function, layers, layer_count, model.tensor_bytes.size());
        overlap::RunOptions run_options = run_options_of(given);
        model.layer_tensors = named.tensors;
        auto exchange = std::make_unique<overlap::ExchangeWithService>(*params->client, std::move(model));
        capi::wait_unless_interrupted(
            function, params->interruption, overlap::Clock::time_point::max(),
            [&](overlap::Clock::time_point until) { return exchange->has_first_weights(until); },
            "nothing was opened");
        *overlap = overlap_handle_of(std::make_unique<overlap::Run>(
                                         std::move(exchange), std::move(named.names), std::move(run_options)),
                                     params->interruption);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_overlap_forward(hkt_overlap* overlap, size_t layer) {
    return step(overlap, "hkt_overlap_forward",
                [&](overlap::Run& run, auto until) { return run.forward(layer, until); });
}

hkt_status hkt_overlap_begin_backward(hkt_overlap* overlap) {
    return step(overlap, "hkt_overlap_begin_backward",
                [](overlap::Run& run, auto until) { return run.begin_backward(until); });
}

hkt_status hkt_overlap_backward(hkt_overlap* overlap, size_t layer) {
    return capi::guarded([&] {
        overlap::Run& run = opened(overlap, "hkt_overlap_backward");
        return noting(overlap->comm, [&] {
            run.backward(layer);
            return HKT_SUCCESS;
        });
    });
}

hkt_status hkt_overlap_finish(hkt_overlap* overlap) {
    return step(overlap, "hkt_overlap_finish",
                [](overlap::Run& run, auto until) { return run.finish(until); });
}

hkt_status hkt_overlap_get_stats(hkt_overlap* overlap, hkt_overlap_run_stats* stats, size_t size) {
    return capi::guarded([&] {
        const overlap::Run& of = opened(overlap, "hkt_overlap_get_stats");
        const capi::Place place(stats, size);
        const overlap::RunStats now = of.stats();
        place.write({.iterations = now.iterations,
                     .plans = now.plans,
                     .batches = now.batches,
                     .predicted_seconds = now.predicted_seconds,
                     .measured_seconds = now.measured.seconds,
                     .computation = now.measured.computation,
                     .communication = now.measured.communication,
                     .overlap = now.measured.overlap,
                     .pull_batches = now.pull_batches});
        return HKT_SUCCESS;
    });
}

hkt_status hkt_overlap_batches(hkt_overlap* overlap, size_t* ends, size_t* batches) {
    return capi::guarded([&] {
        const overlap::Run& of = opened(overlap, "hkt_overlap_batches");
        return give_batches("hkt_overlap_batches", of.plan().backward, ends, batches);
    });
}

hkt_status hkt_overlap_pull_batches(hkt_overlap* overlap, size_t* ends, size_t* batches) {
    return capi::guarded([&] {
        const overlap::Run& of = opened(overlap, "hkt_overlap_pull_batches");
        return give_batches("hkt_overlap_pull_batches", of.plan().forward, ends, batches);
    });
}

hkt_status hkt_overlap_profile(hkt_overlap* overlap, const char** json) {
    return capi::guarded([&] {
        const overlap::Run& of = opened(overlap, "hkt_overlap_profile");
        if (json == nullptr)
            capi::refuse("hkt_overlap_profile: json is null; pass the address of a const char*");
        if (of.profile() == nullptr)
            capi::refuse(
                "hkt_overlap_profile: there is no profile yet: it is made after "
                "hkt_overlap_run_options.measure iterations");
        plan_json = overlap::json_of(*of.profile());
        *json = plan_json.c_str();
        return HKT_SUCCESS;
    });
}

void hkt_overlap_close(hkt_overlap* overlap) {
    if (overlap != nullptr && overlap->is_of_a_parent()) capi::give_up(overlap->run);
    delete overlap;
}

}  // extern "C"
