#include "tools/bench/runner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>

namespace hocket::bench {

hkt_status call_function(const Layout& layout, hkt_op op, const void* send, void* recv, hkt_comm* comm,
                         hkt_request** request) {
    const hkt_type type = layout.type;
    const int root = layout.root;
    const std::size_t count = layout.count;
    const std::size_t* counts = layout.subject.has_counts() ? layout.counts.data() : nullptr;
    switch (layout.subject.collective) {
        case HKT_ALL_REDUCE:
            return hkt_all_reduce(send, recv, count, type, op, comm, request);
        case HKT_REDUCE_SCATTER:
            return counts ? hkt_reduce_scatter_v(send, recv, counts, type, op, comm, request)
                          : hkt_reduce_scatter(send, recv, count, type, op, comm, request);
        case HKT_ALL_GATHER:
            return counts ? hkt_all_gather_v(send, recv, counts, type, comm, request)
                          : hkt_all_gather(send, recv, count, type, comm, request);
        case HKT_BROADCAST:
            return hkt_broadcast(send, recv, count, type, root, comm, request);
        case HKT_REDUCE:
            return hkt_reduce(send, recv, count, type, op, root, comm, request);
        case HKT_GATHER:
            return counts ? hkt_gather_v(send, recv, counts, type, root, comm, request)
                          : hkt_gather(send, recv, count, type, root, comm, request);
        case HKT_SCATTER:
            return counts ? hkt_scatter_v(send, recv, counts, type, root, comm, request)
                          : hkt_scatter(send, recv, count, type, root, comm, request);
        case HKT_ALL_TO_ALL:  // two ranks send each other equal amounts
            return counts
                       ? hkt_all_to_all_v(send, counts, nullptr, recv, counts, nullptr, type, comm, request)
                       : hkt_all_to_all(send, recv, count, type, comm, request);
    }
    throw std::logic_error(fmt::format("{} has no function here yet", layout.subject.name()));
}

namespace {

// Returns the values in the order of the schedule's header. Throws std::runtime_error.
std::vector<double> parameters_of(hkt_plan* plan, const std::map<std::string, double>& given) {
    std::vector<std::string> names;
    while (const char* name = hkt_plan_parameter(plan, names.size())) names.emplace_back(name);
    for (const auto& [name, value] : given)
        if (std::ranges::count(names, name) == 0)
            throw std::runtime_error(
                names.empty() ? fmt::format("--parameter {}: the schedule takes no number at a start", name)
                              : fmt::format("--parameter {}: the schedule takes other numbers at a start: {}",
                                            name, fmt::join(names, ", ")));
    std::vector<double> values;
    std::string missing;
    for (const std::string& name : names) {
        const auto value = given.find(name);
        if (value == given.end())
            missing += fmt::format(" --parameter {}=NUMBER", name);
        else
            values.push_back(value->second);
    }
    if (!missing.empty())
        throw std::runtime_error("the schedule takes further numbers at each start: give" + missing);
    return values;
}

template <typename T>
std::vector<std::byte> ones(std::size_t count) {
    const std::vector<T> elements(count, 1);
    const auto bytes = std::as_bytes(std::span(elements));
    return {bytes.begin(), bytes.end()};
}

}  // namespace

Runner::Runner(hkt_comm* comm, const Options& options, hkt_type type, hkt_op op, int root,
               hkt_executor executor)
    : comm_(comm), subject_(options.subject), asked_schedule_(options.schedule), op_(comm, op) {
    if (subject_.has_plans())
        plan_ = make_plan(comm, options, type, op, root, executor);
    else if (!asked_schedule_.empty())  // the collective has no such schedule: then functions use another
        make_plan(comm, options, type, op, root, executor);
    if (plan_) parameters_ = parameters_of(plan_.get(), options.parameters);
    buffers_.resize(options.further_buffers);
}

void Runner::run(const Layout& layout, const void* send, void* recv) const {
    if (subject_.is_messages()) return exchange_messages(layout, send, recv);
    if (!plan_) return check(call_function(layout, op_.given(), send, recv, comm_, nullptr), comm_, "failed");
    std::vector<const void*> buffers;
    for (const std::vector<std::byte>& buffer : buffers_) buffers.push_back(buffer.data());
    hkt_start_options with = HKT_START_OPTIONS_INIT;
    with.parameters = parameters_.data();
    with.parameter_count = parameters_.size();
    with.buffers = buffers.data();
    with.buffer_count = buffers.size();
    check(hkt_plan_start_with(plan_.get(), send, recv, layout.count, &with, nullptr), comm_, "failed");
}

void Runner::prepare(const Layout& layout) {
    for (std::vector<std::byte>& buffer : buffers_)
        buffer = layout.type == HKT_FLOAT64 ? ones<double>(layout.larger_count())
                                            : ones<float>(layout.larger_count());
    if (plan_) check(hkt_plan_reset_state(plan_.get()), comm_, "resetting the state failed");
}

void Runner::exchange_messages(const Layout& layout, const void* send, void* recv) const {
    hkt_request* sent = nullptr;
    check(hkt_send(send, layout.count, layout.type, layout.next_rank(), 0, comm_, &sent), comm_,
          "sending failed");
    check(hkt_recv(recv, layout.count, layout.type, layout.rank_before(), 0, comm_, nullptr), comm_,
          "receiving failed");
    check(hkt_wait(sent), comm_, "sending failed");
}

std::string Runner::steps() const {
    return plan_ ? hkt_plan_explain(plan_.get()) : "";
}

std::string Runner::schedule(const Layout& layout) const {
    return plan_ ? hkt_plan_schedule(plan_.get(), layout.count) : asked_schedule_;
}

std::string Runner::usual_schedule() const {
    if (plan_) return schedule_of(plan_.get());
    if (subject_.is_messages()) return "none";
    return asked_schedule_.empty() ? "as chosen" : asked_schedule_;
}

}  // namespace hocket::bench
