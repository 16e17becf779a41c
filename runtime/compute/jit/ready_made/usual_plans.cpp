#include "runtime/compute/jit/ready_made/usual_plans.hpp"

#include <fmt/format.h>

#include <set>

#include "dsl/planning/compile.hpp"
#include "runtime/compute/jit/device_program.hpp"

namespace hocket::jit {

// tests/runtime/compute/jit/ready_made_test.cpp shows that what is chosen is among them.
const std::vector<UsualPlan>& usual_plans() {
    using enum dsl::Collective;
    using enum dsl::Protocol;
    static const std::vector<UsualPlan> plans = [] {
        std::vector<UsualPlan> all = {{all_reduce, "butterfly", 2, latency},
                                      {all_reduce, "direct", 2, bandwidth},
                                      {reduce_scatter, "bruck", 2, bandwidth},
                                      {reduce, "binary(0)", 2, latency},
                                      {reduce, "rabenseifner", 2, bandwidth}};
        for (const dsl::Rank ranks : {4, 8}) {
            all.push_back({all_reduce, "exchange", ranks, latency});
            all.push_back({all_reduce, "direct", ranks, latency});
            all.push_back({all_reduce, "direct", ranks, bandwidth});
            all.push_back({reduce_scatter, "direct", ranks, bandwidth});
            all.push_back({reduce, "direct", ranks, latency});
            all.push_back({reduce, "rabenseifner", ranks, latency});
            all.push_back({reduce, "rabenseifner", ranks, bandwidth});
        }
        for (const dsl::Protocol protocol : {latency, bandwidth}) {
            all.insert(all.end(), {{all_gather, "bruck", 2, protocol},
                                   {broadcast, "binary(0)", 2, protocol},
                                   {gather, "binomial", 2, protocol},
                                   {scatter, "binomial", 2, protocol},
                                   {all_to_all, "bruck", 2, protocol},
                                   {all_to_all, "direct", 2, protocol}});
            for (const dsl::Rank ranks : {4, 8})
                for (const dsl::Collective moves : {all_gather, broadcast, gather, scatter, all_to_all})
                    all.push_back({moves, "direct", ranks, protocol});
        }
        return all;
    }();
    return plans;
}

const std::vector<UsualPair>& usual_pairs(dsl::Collective collective) {
    using enum DataType;
    using enum ReduceOp;
    // A type of each size: copies move bits.
    static const std::vector<UsualPair> moved = {
        {uint8, sum}, {bfloat16, sum}, {float32, sum}, {float64, sum}};
    static const std::vector<UsualPair> reduced = {
        {float32, sum},      {bfloat16, sum},    {float16, sum}, {float32, average},
        {bfloat16, average}, {float16, average}, {float64, sum}, {int64, sum},
        {int32, sum},        {float32, max},     {float32, min}};
    return contract_of(collective).combines() ? reduced : moved;
}

std::vector<dsl::RankProgram> programs_of(const UsualPlan& plan, dsl::Rank root,
                                          const std::vector<std::string>& search_path) {
    dsl::PlanRequest request;
    request.collective = plan.collective;
    request.schedule = plan.schedule;
    request.search_path = search_path;
    // The choices that schedules leave open are made for this.
    request.topology = fmt::format("{}m", plan.ranks);
    request.bytes = plan.protocol == dsl::Protocol::latency ? 8 << 10 : 1 << 20;
    request.ranks = plan.ranks;
    request.root = root;
    request.hosts.assign(static_cast<std::size_t>(plan.ranks), 0);
    request.protocol = plan.protocol;
    const auto checked = dsl::check_schedule(request);
    std::vector<dsl::RankProgram> programs;
    for (dsl::Rank rank = 0; rank < plan.ranks; ++rank) programs.push_back(checked->project(rank));
    return programs;
}

std::vector<DeviceShape> usual_device_shapes(const std::vector<std::string>& search_path) {
    std::set<DeviceShape> shapes;
    for (const UsualPlan& plan : usual_plans())
        for (const dsl::RankProgram& program : programs_of(plan, 0, search_path))
            for (const auto& [type, op] : usual_pairs(plan.collective))
                shapes.insert(without_numbers(device_shape_of(program, type, op, {})));
    return {shapes.begin(), shapes.end()};
}

}  // namespace hocket::jit
