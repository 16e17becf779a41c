// hkt_schedule_*: schedules are checked and explained without a communicator.
#include <fmt/format.h>

#include <chrono>
#include <string>

#include "capi/errors.hpp"
#include "capi/vocabulary.hpp"
#include "dsl/planning/check_files.hpp"
#include "dsl/planning/compile.hpp"
#include "runtime/base/error.hpp"
#include "runtime/compute/program/dsl_errors.hpp"
#include "runtime/engine/job/own_options.hpp"

using namespace hocket;

namespace {

// Returns the text through `to` and keeps a copy of it for the calling thread.
void give(std::string text, const char** to) {
    thread_local std::string own_text;
    own_text = std::move(text);
    if (to != nullptr) *to = own_text.c_str();
}

double seconds(const engine::Options& options) {
    return std::chrono::duration<double>(options.timeout).count();
}

// Returns the given collective, or else the first one for which the schedule exists.
dsl::Collective collective_of(int32_t given, const std::string& schedule,
                              const std::vector<std::string>& search_path) {
    if (given != -1) return capi::collective_of(static_cast<hkt_collective>(given));
    return dsl::first_collective_of(schedule, search_path);
}

}  // namespace

extern "C" {

hkt_status hkt_schedule_check(const char* file, const char* topology, const char** text) {
    return capi::guarded([&] {
        if (text != nullptr) *text = "";
        if (file == nullptr || *file == '\0') capi::refuse("hkt_schedule_check: file is not set");
        const engine::Options job = engine::own_options();
        dsl::CheckOptions options;
        options.files = {file}, options.search_path = job.schedule_path, options.timeout = seconds(job);
        options.warns = false;
        if (topology != nullptr) options.topologies = {topology};
        in_dsl([&] { dsl::Library(options.search_path).load(file); });  // throws if unreadable
        std::string right, wrong;
        const dsl::CheckListener listener{
            [&](const dsl::RightDefinition& definition) { right += text_of(definition) + "\n"; },
            [&](const dsl::Report& report) { wrong += render(report) + "\n"; }};
        if (dsl::check_files(options, listener).wrong > 0) throw Error(Status::schedule, wrong);
        give(std::move(right), text);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_schedule_explain(const char* schedule, int32_t collective, const char* topology, int32_t rank,
                                const char** text) {
    return capi::guarded([&] {
        if (text == nullptr) capi::refuse("hkt_schedule_explain: text is null");
        *text = "";
        if (topology == nullptr || *topology == '\0')
            capi::refuse("hkt_schedule_explain: topology is not set: levels, innermost first, such as 2x3");
        const engine::Options job = engine::own_options();
        dsl::PlanRequest request;
        request.schedule = capi::text_of(schedule), request.topology = topology, request.ranks = 0;
        request.search_path = job.schedule_path;
        request.deadline = dsl::Deadline(std::chrono::duration<double>(seconds(job)));
        const auto checked = in_dsl([&] {
            request.collective = collective_of(collective, request.schedule, request.search_path);
            return dsl::check_schedule(request);
        });
        const dsl::Rank ranks = checked->levels().ranks();
        if (rank < 0 || rank >= ranks)
            capi::refuse(
                fmt::format("hkt_schedule_explain: there is no rank {}: ranks are 0 to {}", rank, ranks - 1));
        const dsl::RankProgram program = checked->project(rank);
        std::string words = dsl::explain(program) + "\n" + dsl::traffic_text(program);
        for (const std::string& choice : checked->choices()) words += "chosen: " + choice + "\n";
        give(std::move(words), text);
        return HKT_SUCCESS;
    });
}

}  // extern "C"
