#include "runtime/params/job/job.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/error.hpp"
#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::params {
namespace {

using Json = nlohmann::json;
using transport::printable;

constexpr std::uint64_t least_chunk = 4 << 10, most_chunk = 64 << 20;
constexpr std::uint64_t most_chunks = 1 << 22;  // an announcement has the clocks of all chunks
constexpr std::uint64_t most_elements = std::uint64_t{1} << 40;
constexpr Clock most_staleness = 1 << 20;
constexpr std::size_t most_values_of_job = 1 << 20;  // 4 for each tensor

[[noreturn]] void refuse_job(const std::string& why) {
    throw Error(Status::invalid_argument, why);
}

DataType type_named(const std::string& name) {
    for (const DataType type : all_types)
        if (name_of(type) == name) return type;
    throw transport::ProtocolError("it named an element type that does not exist: " + printable(name));
}

std::string shape_text(const Tensor& tensor) {
    return fmt::format("{} of {} {}", printable(tensor.name), tensor.count, name_of(tensor.type));
}

std::string staleness_text(const Job& job) {
    return job.staleness ? std::to_string(*job.staleness) : "unbounded";
}

std::string chunk_text(const Job& job) {
    return job.chunk_bytes == 0 ? "the default" : fmt::format("{} bytes", job.chunk_bytes);
}

// Names that are not valid UTF-8 would reach the servers changed.
bool is_utf8(const std::string& text) try {
    Json(text).dump();
    return true;
} catch (const Json::type_error&) {
    return false;
}

}  // namespace

std::string encode(const Job& job) {
    Json tensors = Json::array();
    for (const Tensor& tensor : job.tensors)
        tensors.push_back({tensor.name, std::string(name_of(tensor.type)), tensor.count});
    return Json{{"tensors", std::move(tensors)},
                {"update", job.update},
                {"cuts_tensors", job.cuts_tensors},
                {"staleness", job.staleness ? Json(*job.staleness) : Json()},
                {"tree", job.tree},
                {"chunk_bytes", job.chunk_bytes},
                {"workers", job.workers},
                {"priority", job.priority},
                {"longest_wait_ms", job.longest_wait_ms}}
        .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Job decode_job(std::string_view text) try {
    std::size_t values = 0;
    const auto require_few = [&](int, Json::parse_event_t, Json&) {
        if (++values > most_values_of_job)
            throw transport::ProtocolError("it described a job that is too large");
        return true;
    };
    const Json json = Json::parse(text, require_few);
    Job job;
    for (const Json& tensor : json.at("tensors")) {
        const auto name = tensor.at(0).get<std::string>();
        job.tensors.push_back(
            {name, type_named(tensor.at(1).get<std::string>()), tensor.at(2).get<std::uint64_t>()});
    }
    json.at("update").get_to(job.update);
    json.at("cuts_tensors").get_to(job.cuts_tensors);
    const Json& staleness = json.at("staleness");
    job.staleness = staleness.is_null() ? Staleness() : staleness.get<Clock>();
    json.at("tree").get_to(job.tree);
    json.at("chunk_bytes").get_to(job.chunk_bytes);
    json.at("workers").get_to(job.workers);
    json.at("priority").get_to(job.priority);
    json.at("longest_wait_ms").get_to(job.longest_wait_ms);
    check(job);
    return job;
} catch (const Json::exception&) {
    throw transport::ProtocolError("it sent a description of a job that cannot be read");
} catch (const Error& error) {
    throw transport::ProtocolError(error.what());
}

void check(const Job& job) {
    if (job.tensors.empty()) refuse_job("there is no tensor; a job of the parameter service has one or more");
    std::set<std::string_view> names;
    std::uint64_t bytes = 0;
    for (const Tensor& tensor : job.tensors) {
        if (!is_utf8(tensor.name))
            refuse_job(fmt::format("the name of a tensor, {}, is not valid UTF-8", printable(tensor.name)));
        if (!names.insert(tensor.name).second)
            refuse_job(fmt::format("two tensors are called {}; each needs a name of its own",
                                   printable(tensor.name)));
        if (tensor.count == 0 || tensor.count > most_elements)
            refuse_job(fmt::format("the tensor {} has {} elements; it can have 1 to 2^40",
                                   printable(tensor.name), tensor.count));
        bytes += tensor.count * element_size(tensor.type);
        if (bytes > most_elements * 8) refuse_job("the tensors have more bytes than can be counted");
    }
    if (job.chunk_bytes != 0 && (job.chunk_bytes < least_chunk || job.chunk_bytes > most_chunk))
        refuse_job(fmt::format("chunks of {} bytes; they can have {} to {}", job.chunk_bytes, least_chunk,
                               most_chunk));
    if (bytes / chunk_bytes_of(job) + job.tensors.size() > most_chunks)
        refuse_job(fmt::format("{} bytes in chunks of {} are too many chunks; make them larger", bytes,
                               chunk_bytes_of(job)));
    if (job.staleness && *job.staleness > most_staleness)
        refuse_job(fmt::format("the staleness is {}; it can be 0 to {}, or unbounded", *job.staleness,
                               most_staleness));
    if (job.workers == 0) refuse_job("a job begins with 1 worker or more, not with 0");
    if (job.priority > 255) refuse_job(fmt::format("the priority is {}; it can be 0 to 255", job.priority));
    const Shape shape = Shape::parse(job.tree);
    if (!job.staleness && shape.kind != Shape::Kind::direct && shape.kind != Shape::Kind::chosen)
        refuse_job(fmt::format(
            "with unbounded staleness each update is applied by itself, so there is nothing to sum "
            "in a tree: take the tree direct or auto, not {}",
            shape.text()));
}

std::string difference(const Job& theirs, const Job& ours) {
    const auto differ = [](const char* what, const auto& a, const auto& b) {
        return fmt::format("{} is {} there and {} here", what, a, b);
    };
    if (theirs.tensors.size() != ours.tensors.size())
        return differ("the number of tensors", theirs.tensors.size(), ours.tensors.size());
    for (std::size_t i = 0; i < ours.tensors.size(); ++i)
        if (theirs.tensors[i] != ours.tensors[i])
            return differ(fmt::format("tensor {}", i).c_str(), shape_text(theirs.tensors[i]),
                          shape_text(ours.tensors[i]));
    if (theirs.update != ours.update)
        return differ("the update", printable(theirs.update), printable(ours.update));
    if (staleness_text(theirs) != staleness_text(ours))
        return differ("the staleness", staleness_text(theirs), staleness_text(ours));
    if (theirs.tree != ours.tree) return differ("the tree", printable(theirs.tree), printable(ours.tree));
    if (theirs.chunk_bytes != ours.chunk_bytes)
        return differ("the size of chunks", chunk_text(theirs), chunk_text(ours));
    if (theirs.workers != ours.workers)
        return differ("the number of workers to begin with", theirs.workers, ours.workers);
    if (theirs.priority != ours.priority) return differ("the priority", theirs.priority, ours.priority);
    if (theirs.longest_wait_ms != ours.longest_wait_ms)
        return differ("the longest wait for jobs with a higher priority", theirs.longest_wait_ms,
                      ours.longest_wait_ms);
    return theirs == ours ? "" : "the permission to cut tensors differs";
}

}  // namespace hocket::params
