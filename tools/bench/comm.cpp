#include "tools/bench/comm.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace hocket::bench {
namespace {

const char* null_if_empty(const std::string& text) {
    return text.empty() ? nullptr : text.c_str();
}

}  // namespace

void check(hkt_status status, hkt_comm* comm, const char* what) {
    if (status != HKT_SUCCESS)
        throw std::runtime_error(fmt::format("{}: {}", what, hkt_comm_last_error(comm)));
}

Operator::Operator(hkt_comm* comm, hkt_op op) : comm_(comm), given_(op), is_made_(multiplies(op)) {
    if (is_made_)
        check(hkt_premul_sum_create(factor_of(hkt_comm_rank(comm)), comm, &given_), comm,
              "no operator could be made");
}

Operator::~Operator() {
    if (is_made_) hkt_op_destroy(given_, comm_);
}

Comm join(const Options& options) {
    hkt_comm_options how = HKT_COMM_OPTIONS_INIT;
    how.topology = null_if_empty(options.topology);
    how.provider = null_if_empty(options.provider);
    if (!options.subject.has_plans()) how.schedule = null_if_empty(options.schedule);
    if (options.executors.size() == 1) how.executor = options.executors[0];
    if (!options.provider_for_all.empty())
        setenv("HOCKET_PROVIDER_FOR_ALL", options.provider_for_all.c_str(), 1);
    hkt_comm* comm = nullptr;
    check(hkt_comm_create(&how, &comm), nullptr, "cannot join the job");
    return Comm(comm);
}

Plan make_plan(hkt_comm* comm, const Options& options, hkt_type type, hkt_op op, int root,
               hkt_executor executor) {
    hkt_plan_options how = HKT_PLAN_OPTIONS_INIT;
    how.schedule = null_if_empty(options.schedule);
    how.root = root;
    how.executor = executor;
    hkt_plan* plan = nullptr;
    check(hkt_plan_create(comm, options.subject.collective, type, Operator(comm, op).given(), &how, &plan),
          comm, "cannot make the plan");
    return Plan(plan);
}

void combine(hkt_comm* comm, void* numbers, std::size_t count, hkt_type type, hkt_op op, const char* what) {
    hkt_plan_options how = HKT_PLAN_OPTIONS_INIT;
    how.schedule = "";  // and not null, which would be the communicator's
    hkt_plan* made = nullptr;
    check(hkt_plan_create(comm, HKT_ALL_REDUCE, type, op, &how, &made), comm, what);
    const Plan plan(made);
    check(hkt_plan_start(made, numbers, numbers, count, nullptr), comm, what);
}

bool all_agree(hkt_comm* comm, bool holds) {
    std::int32_t all = holds;
    combine(comm, &all, 1, HKT_INT32, HKT_MIN, "the all_reduce by which the ranks agree failed");
    return all == 1;
}

void on_rank_0(hkt_comm* comm, const std::function<void()>& call) {
    std::string problem;
    try {
        if (hkt_comm_rank(comm) == 0) call();
    } catch (const std::exception& error) {
        problem = error.what();
    }
    if (!all_agree(comm, problem.empty()))
        throw std::runtime_error(problem.empty() ? "rank 0 could not do its part: it says why" : problem);
}

std::string info(hkt_comm* comm, const char* key) {
    const char* value = hkt_comm_info(comm, key);
    return value != nullptr ? value : "?";
}

std::vector<std::string> schedule_folders(hkt_comm* comm) {
    std::istringstream path(info(comm, "schedule_path"));
    std::vector<std::string> folders;
    for (std::string folder; std::getline(path, folder, ':');) folders.push_back(folder);
    return folders;
}

// An explanation begins like "rank 0 of 4: all_reduce by ring on 4, ...".
std::string schedule_of(hkt_plan* plan) {
    std::cmatch match;
    const std::regex first_line("^rank \\d+ of \\d+: \\w+ by ([^\n]+?) on [^\n]*");
    return std::regex_search(hkt_plan_explain(plan), match, first_line) ? match[1].str() : "?";
}

}  // namespace hocket::bench
