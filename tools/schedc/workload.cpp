// The JSON form of workloads.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/readable.hpp"
#include "tools/schedc/simulate.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;

constexpr std::size_t longest_shown = 40;        // characters of a wrong value
constexpr double most_processes = 1e6;           // of a job
constexpr double most_exact = 9007199254740992;  // 2^53: the largest whole number that JSON keeps everywhere

// The members of one object. Each is asked for once; what nobody asked for is an error.
class Members {
  public:
    Members(const nlohmann::json& object, std::string place) : object_(object), place_(std::move(place)) {
        if (!object.is_object()) refuse("", "an object");
    }

    double number(const char* key, double otherwise, double least, double most) {
        const nlohmann::json* value = find(key);
        if (!value) return otherwise;
        const double number = value->is_number() ? value->get<double>() : least - 1;
        if (!(number >= least && number <= most))
            refuse(key, fmt::format("a number from {:g} to {:g}", least, most));
        return number;
    }

    double whole(const char* key, double otherwise, double least, double most) {
        const double value = number(key, otherwise, least, most);
        if (value != static_cast<double>(static_cast<std::int64_t>(value))) refuse(key, "a whole number");
        return value;
    }

    std::string text(const char* key, const std::string& otherwise) {
        const nlohmann::json* value = find(key);
        if (!value) return otherwise;
        if (!value->is_string()) refuse(key, "a text");
        return value->get<std::string>();
    }

    const nlohmann::json* find(const char* key) {
        known_ += known_.empty() ? key : std::string(", ") + key;
        const auto found = object_.find(key);
        if (found == object_.end()) return nullptr;
        ++used_;
        return &*found;
    }

    // wanted: what the member must be.
    [[noreturn]] void refuse(const char* key, const std::string& wanted) const {
        const auto found = *key ? object_.find(key) : object_.end();
        const nlohmann::json& value = found == object_.end() ? object_ : *found;
        std::string shown = value.is_object()  ? "an object"
                            : value.is_array() ? "a list"
                                               : value.dump(-1, ' ', true);
        if (shown.size() > longest_shown) shown = shown.substr(0, longest_shown) + "...";
        const char* dot = *key ? "." : "";
        throw DiagnosticError(Span(),
                              *key && found == object_.end()
                                  ? fmt::format("{}{}{} is missing", place_, dot, key)
                                  : fmt::format("{}{}{} is {}", place_, dot, key, shown),
                              "it must be " + wanted);
    }

    void end() const {
        if (used_ == object_.size()) return;
        for (const auto& [name, value] : object_.items())
            if ((", " + known_ + ", ").find(", " + name + ", ") == std::string::npos)
                throw DiagnosticError(
                    Span(), fmt::format("{} has no member '{}'", place_, readable(name.substr(0, 80))),
                    "the members are " + known_);
    }

    const std::string& place() const { return place_; }

  private:
    const nlohmann::json& object_;
    std::string place_, known_;
    std::size_t used_ = 0;
};

WorkerTree tree_in(Members& job) {
    const std::string text = job.text("tree", "direct");
    if (text == "direct") return {};
    if (text == "rack") return {WorkerTree::Kind::rack};
    if (text == "binary") return {WorkerTree::Kind::degree, 2};
    constexpr std::string_view prefix = "degree ";
    const std::string digits = text.starts_with(prefix) ? text.substr(prefix.size()) : "";
    if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos)
        job.refuse("tree", "direct, rack, binary, or a degree: \"degree 4\"");
    return {WorkerTree::Kind::degree, std::stoi(digits)};
}

Job::Placement placement_in(Members& job) {
    const std::string text = job.text("placement", "random");
    if (text != "random" && text != "order") job.refuse("placement", "random or order");
    return text == "order" ? Job::Placement::order : Job::Placement::random;
}

// What workers read: {"bytes": 176e9, "slowest": 100e6, "fastest": 200e6}
void data_in(Members& members, Job& job) {
    const nlohmann::json* value = members.find("data");
    if (!value) return;
    Members data(*value, members.place() + ".data");
    job.data = data.number("bytes", 0, 1, 1e30);
    job.slowest = data.number("slowest", 0, 1, 1e30);
    if (job.data == 0) data.refuse("bytes", "what each worker reads");
    if (job.slowest == 0) data.refuse("slowest", "the lowest rate of a worker, in bytes a second");
    job.fastest = data.number("fastest", job.slowest, 1, 1e30);
    data.end();
}

overlap::Method method_in(Members& members, const char* key) {
    const std::string text = members.text(key, std::string(name_of(overlap::Method::sequential)));
    std::string all;
    for (const overlap::Method method : overlap::all_methods) {
        if (text == name_of(method)) return method;
        all += (all.empty() ? "" : ", ") + std::string(name_of(method));
    }
    members.refuse(key, "a method of the overlap planner: " + all);
}

// {"profile": "vgg19.json", "forward": "ibatch"}
TrainedModel model_in(Members& members) {
    TrainedModel model;
    const nlohmann::json* value = members.find("model");
    if (!value) return model;
    Members its(*value, members.place() + ".model");
    model.profile = its.text("profile", "");
    if (model.profile.empty()) its.refuse("profile", "a file of the overlap planner's (docs/overlap.md)");
    model.forward = method_in(its, "forward");
    model.backward = method_in(its, "backward");
    const std::string pulls = its.text("pulls", "forward");
    if (pulls != "forward" && pulls != "backward") its.refuse("pulls", "forward or backward");
    model.early = pulls == "backward";
    model.gradients = its.number("gradients", 1, 1e-9, 1e9);
    const double startup = its.number("startup", -1, 0, 1e9), share = its.number("forward_share", -1, 0, 1);
    if (startup >= 0) model.startup = startup;
    if (share >= 0) model.forward_share = share;
    model.all_reduce = its.text("all_reduce", "");
    its.end();
    return model;
}

Job job_in(const nlohmann::json& json, const std::string& place, const std::string& name,
           TrainedModel& model) {
    Members members(json, place);
    Job job;
    model = model_in(members);
    job.name = readable(members.text("name", name));
    job.workers = static_cast<int>(members.whole("workers", 0, 1, most_processes));
    job.servers = static_cast<int>(members.whole("servers", 1, 1, most_processes));
    job.placement = placement_in(members);
    job.bytes = members.number("bytes", 0, 1, 1e30);
    job.tree = tree_in(members);
    job.chunks = static_cast<std::uint32_t>(members.whole("chunks", 0, 0, 1e6));
    job.compute = members.number("compute", 0, 0, 1e9);
    job.iterations = static_cast<int>(members.whole("iterations", 1, 1, 1e6));
    job.start = members.number("start", 0, 0, 1e9);
    job.priority = static_cast<int>(members.whole("priority", 0, 0, 1000));
    data_in(members, job);
    if (job.workers == 0) members.refuse("workers", "a whole number from 1 on");
    if (job.bytes == 0 && model.profile.empty()) members.refuse("bytes", "the size of the model");
    members.end();
    return job;
}

nlohmann::json json_from(const std::string& name, const std::string& text) try {
    return nlohmann::json::parse(text);
} catch (const nlohmann::json::exception& error) {
    throw DiagnosticError(
        Span(), fmt::format("{}: {}", name, readable(error.what())),
        "a workload is JSON: {\"hosts\": 16, \"jobs\": [{\"workers\": 8, \"bytes\": 1e9}]}");
}

}  // namespace

ClusterWorkload parse_workload(const std::string& name, const std::string& text) {
    const nlohmann::json json = json_from(name, text);
    Members members(json, name);
    ClusterWorkload read;
    read.hosts = static_cast<Rank>(members.whole("hosts", 0, 1, most_ranks));
    read.network = members.text("network", "");
    read.workload.seed = static_cast<std::uint64_t>(members.whole("seed", 1, 0, most_exact));
    read.workload.rack = static_cast<int>(members.whole("rack", 8, 1, most_ranks));
    const nlohmann::json* jobs = members.find("jobs");
    if (read.hosts == 0) members.refuse("hosts", "the number of hosts");
    if (!jobs || !jobs->is_array() || jobs->empty()) members.refuse("jobs", "a list of jobs");
    read.models.resize(jobs->size());
    for (std::size_t i = 0; i < jobs->size(); ++i)
        read.workload.jobs.push_back(
            job_in((*jobs)[i], fmt::format("{}: jobs[{}]", name, i), fmt::format("{}", i), read.models[i]));
    members.end();
    return read;
}

}  // namespace hocket::tools
