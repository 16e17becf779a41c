// Plans and their states.
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <vector>

#include "capi/growth.hpp"
#include "capi/handles.hpp"
#include "capi/plans/starts.hpp"
#include "capi/plans/tensor_lists.hpp"
#include "capi/ranges.hpp"
#include "capi/vocabulary.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/projection/explain.hpp"

using namespace hocket;

namespace {

using capi::check_comm;
using capi::start;

hkt_status start(hkt_plan& plan, const void* send, void* recv, std::size_t count,
                 std::shared_ptr<const compute::Arguments> arguments, hkt_request** request) {
    if (request != nullptr) *request = nullptr;
    const auto& made = plan.comm->engine->plans().plan_for(*plan.plans, count).plan;
    engine::Extent extent(count);
    extent.arguments = std::move(arguments);
    if (!made->state()) return start(plan.comm, made, send, recv, plan.factor, extent, request);
    if (count > 0) {
        const std::lock_guard lock(plan.state_mutex);
        if (plan.state_count.value_or(count) != count)
            capi::refuse(fmt::format(
                "this plan keeps a state for a count of {} and is started with {}; make a plan for "
                "each tensor, or reset this one's state (hkt_plan_reset_state)",
                *plan.state_count, count));
    }
    const hkt_status status = start(plan.comm, made, send, recv, plan.factor, extent, request);
    const std::lock_guard lock(plan.state_mutex);
    if (count > 0)
        plan.state_count = count;
    else
        plan.has_empty_state = true;
    return status;
}

// A further buffer must not overlap recv, which is written before the buffer is read for the last time.
void check_further_buffer(hkt_plan& plan, std::size_t index, const void* buffer, const void* recv,
                          std::size_t count) {
    const auto& made = *plan.comm->engine->plans().plan_for(*plan.plans, count).plan;
    const std::uint64_t all = made.elements_of_x(count),
                        received = made.output() == dsl::Share::none  ? 0
                                   : made.output() == dsl::Share::own ? count
                                                                      : all,
                        element = element_size(compute::working_type(made.type()));
    const auto begin = reinterpret_cast<std::uintptr_t>(buffer), to = reinterpret_cast<std::uintptr_t>(recv);
    if (begin % element != 0)
        capi::refuse(
            fmt::format("hkt_plan_start_with: buffers[{}] is {}, which is not a multiple of {}, the bytes "
                        "of an element",
                        index, buffer, element));
    if (recv != nullptr && received > 0 && begin < to + received * made.element() &&
        to < begin + all * element)
        capi::refuse(
            fmt::format("hkt_plan_start_with: buffers[{}] overlaps recv, which is written while the "
                        "buffer is still read: give recv memory of its own",
                        index));
}

// Calls the action on the state for starts with this count, while no operation is in flight.
template <typename Action>
void with_state(hkt_plan& plan, std::uint64_t count, Action action) {
    const auto& made = plan.comm->engine->plans().plan_for(*plan.plans, count).plan;
    if (!made->state()) capi::refuse(fmt::format("schedule {} keeps no state", made->program().schedule));
    plan.comm->engine->progress().while_still([&] {
        if (made->state()->is_busy())
            capi::refuse("a start of this plan is in flight; wait for it before its state is touched");
        action(*made->state());
    });
}

}  // namespace

extern "C" {

hkt_status hkt_plan_create(hkt_comm* comm, hkt_collective collective, hkt_type type, hkt_op op,
                           const hkt_plan_options* options, hkt_plan** plan) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_plan_create");
        if (plan == nullptr) capi::refuse("hkt_plan_create: plan is null; pass the address of an hkt_plan*");
        *plan = nullptr;
        const hkt_plan_options given = capi::read_options(options);
        engine::PlanChoice choice{.type = capi::type_of(type)};
        const std::string own = capi::text_of(given.collective);
        if (given.collective != nullptr && own.empty())
            capi::refuse(
                "hkt_plan_options.collective is empty; it must be the name of a collective, or null");
        choice.collective =
            own.empty() ? capi::collective_of(collective)
                        : comm->engine->plans().maker().find_collective(own, capi::text_of(given.schedule));
        double factor = 1;
        if (contract_of(choice.collective).combines()) {
            const auto given_op = capi::operator_of(op, choice.type, comm->operators);
            choice.op = given_op.op;
            factor = given_op.factor;
        }
        if (given.executor < HKT_EXECUTOR_DEFAULT || given.executor > HKT_EXECUTOR_INTERPRETER)
            capi::refuse(
                fmt::format("hkt_plan_options.executor is {}; it must be an hkt_executor", given.executor));
        if (given.schedule != nullptr) choice.schedule = given.schedule;
        choice.root = given.root;
        choice.executor = static_cast<engine::ExecutorKind>(given.executor);
        if (given.tensors > 0 && given.tensor_counts == nullptr)
            capi::refuse(fmt::format("hkt_plan_options.tensor_counts is null, but has to have {} numbers",
                                     given.tensors));
        choice.tensors.assign(given.tensor_counts, given.tensor_counts + given.tensors);
        auto made = std::make_unique<hkt_plan>();
        made->tensor_counts = choice.tensors;
        made->gather_memory = std::make_shared<engine::GatherMemory>(comm->engine->connections().window());
        made->comm = comm;
        made->factor = factor;
        if (contract_of(choice.collective).is_by_rank())
            made->pieces = static_cast<std::uint64_t>(comm->engine->size());
        made->plans = comm->engine->plans().make(choice);
        *plan = made.release();
        return HKT_SUCCESS;
    });
}

hkt_status hkt_plan_extents(hkt_plan* plan, size_t count, size_t* send, size_t* recv) {
    return capi::guarded(capi::comm_of(plan), [&] {
        if (plan == nullptr) capi::refuse("hkt_plan_extents: the plan is null");
        if (send == nullptr || recv == nullptr)
            capi::refuse("hkt_plan_extents: send or recv is null; pass the addresses of two size_t");
        const auto& made = plan->comm->engine->plans().plan_for(*plan->plans, count).plan;
        const auto all = static_cast<std::size_t>(made->elements_of_x(count));  // refuses too large a count
        const auto extent = [&](dsl::Share share) {
            return share == dsl::Share::none ? 0 : share == dsl::Share::own ? count : all;
        };
        *send = extent(made->input());
        *recv = extent(made->output());
        return HKT_SUCCESS;
    });
}

hkt_status hkt_plan_start(hkt_plan* plan, const void* send, void* recv, size_t count, hkt_request** request) {
    return capi::guarded(capi::comm_of(plan), [&] {
        if (plan == nullptr) capi::refuse("hkt_plan_start: the plan is null");
        return start(*plan, send, recv, count, nullptr, request);
    });
}

hkt_status hkt_plan_start_with(hkt_plan* plan, const void* send, void* recv, size_t count,
                               const hkt_start_options* options, hkt_request** request) {
    return capi::guarded(capi::comm_of(plan), [&] {
        if (request != nullptr) *request = nullptr;
        if (plan == nullptr) capi::refuse("hkt_plan_start_with: the plan is null");
        const hkt_start_options given = capi::read_options(options);
        if (given.parameter_count > 0 && given.parameters == nullptr)
            capi::refuse("hkt_start_options.parameters is null, but parameter_count is not 0");
        if (given.buffer_count > 0 && given.buffers == nullptr)
            capi::refuse("hkt_start_options.buffers is null, but buffer_count is not 0");
        auto arguments = std::make_shared<compute::Arguments>();
        arguments->parameters.assign(given.parameters, given.parameters + given.parameter_count);
        capi::StartBuffers buffers{send, recv, {}};
        for (std::size_t i = 0; i < given.buffer_count; ++i)
            buffers.given.push_back(static_cast<const std::byte*>(given.buffers[i]));
        if (given.tensors > 0) buffers = capi::gather(*plan, buffers, given.tensors, count);
        for (std::size_t i = 0; i < given.buffer_count && count > 0; ++i)
            check_further_buffer(*plan, i, buffers.given[i], buffers.recv, count);
        arguments->given = std::move(buffers.given);
        const hkt_status status =
            start(*plan, buffers.send, buffers.recv, count, std::move(arguments), request);
        if (!buffers.gathered) return status;
        if (request == nullptr)
            buffers.gathered->finish();
        else
            static_cast<engine::Execution&>(capi::request_of(*request)).add(std::move(buffers.gathered));
        return status;
    });
}

const char* hkt_plan_parameter(hkt_plan* plan, size_t index) {
    if (plan == nullptr || plan->is_of_a_parent()) return nullptr;
    try {
        const auto& names = plan->plans->for_bytes(1 << 20).plan->program().parameters;
        return index < names.size() ? names[index].c_str() : nullptr;
    } catch (...) {
        return nullptr;
    }
}

hkt_status hkt_plan_save_state(hkt_plan* plan, void* memory, size_t room, size_t* bytes) {
    return capi::guarded(capi::comm_of(plan), [&] {
        if (plan == nullptr) capi::refuse("hkt_plan_save_state: the plan is null");
        if (bytes == nullptr)
            capi::refuse("hkt_plan_save_state: bytes is null; pass the address of a size_t");
        const std::lock_guard lock(plan->state_mutex);
        if (!plan->state_count) with_state(*plan, 0, [](compute::KeptState&) {});  // refuses if there is none
        if (!plan->state_count && !plan->has_empty_state)
            capi::refuse("hkt_plan_save_state: there is no state: the plan has not been started");
        with_state(*plan, plan->state_count.value_or(0), [&](compute::KeptState& state) {
            const std::vector<std::byte> saved = state.save();
            *bytes = saved.size();
            if (memory != nullptr && room >= saved.size()) std::memcpy(memory, saved.data(), saved.size());
        });
        return HKT_SUCCESS;
    });
}

hkt_status hkt_plan_load_state(hkt_plan* plan, const void* const* saved, const size_t* bytes, size_t count) {
    return capi::guarded(capi::comm_of(plan), [&] {
        if (plan == nullptr) capi::refuse("hkt_plan_load_state: the plan is null");
        if (saved == nullptr || bytes == nullptr || count == 0)
            capi::refuse(
                "hkt_plan_load_state: no saved state is given; give those of all ranks of the job that saved "
                "them");
        std::vector<std::span<const std::byte>> all;
        for (std::size_t i = 0; i < count; ++i) {
            if (saved[i] == nullptr) capi::refuse(fmt::format("hkt_plan_load_state: saved[{}] is null", i));
            all.push_back({static_cast<const std::byte*>(saved[i]), bytes[i]});
        }
        const std::lock_guard lock(plan->state_mutex);
        const std::uint64_t elements = compute::KeptState::elements_in(all.front()),
                            starts_with = elements / plan->pieces;
        if (elements % plan->pieces != 0)
            capi::refuse(
                fmt::format("hkt_plan_load_state: the state was saved for {} elements, which are no {} "
                            "pieces of one count",
                            elements, plan->pieces));
        const std::uint64_t before = plan->state_count.value_or(starts_with);
        with_state(*plan, starts_with, [&](compute::KeptState& state) { state.load(all); });
        // Two counts may share a plan and therefore a state.
        const auto plan_for = [&](std::uint64_t count) {
            return plan->comm->engine->plans().plan_for(*plan->plans, count).plan.get();
        };
        if (plan_for(before) != plan_for(starts_with))
            with_state(*plan, before, [](compute::KeptState& state) { state.reset(); });
        plan->state_count.reset();
        if (starts_with > 0) plan->state_count = starts_with;
        plan->has_empty_state = starts_with == 0;
        return HKT_SUCCESS;
    });
}

hkt_status hkt_plan_reset_state(hkt_plan* plan) {
    return capi::guarded(capi::comm_of(plan), [&] {
        if (plan == nullptr) capi::refuse("hkt_plan_reset_state: the plan is null");
        const std::lock_guard lock(plan->state_mutex);
        if (plan->state_count)
            with_state(*plan, *plan->state_count, [](compute::KeptState& state) { state.reset(); });
        else if (plan->has_empty_state)
            with_state(*plan, 0, [](compute::KeptState& state) { state.reset(); });
        plan->state_count.reset();
        plan->has_empty_state = false;
        return HKT_SUCCESS;
    });
}

const char* hkt_plan_explain(hkt_plan* plan) {
    if (plan == nullptr || plan->is_of_a_parent()) return "";
    try {
        std::call_once(plan->explained, [&] {
            plan->explanation = dsl::explain(plan->plans->for_bytes(1 << 20).plan->program());
        });
    } catch (...) {
        return "";
    }
    return plan->explanation.c_str();
}

const char* hkt_plan_schedule(hkt_plan* plan, size_t count) {
    if (plan == nullptr || plan->is_of_a_parent()) return "";
    try {
        return plan->plans->for_bytes(plan->plans->bytes_of(count)).text.c_str();
    } catch (...) {
        return "";
    }
}

void hkt_plan_destroy(hkt_plan* plan) {
    if (plan != nullptr && plan->is_of_a_parent()) {
        capi::give_up(plan->plans);
        capi::give_up(plan->gather_memory);
    }
    delete plan;
}

}  // extern "C"
