#include "runtime/engine/record/recording.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "dsl/base/named_file.hpp"
#include "runtime/base/error.hpp"

namespace hocket::record {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* format_key = "hocket recording";
constexpr int format_version = 1;

Json json_of(const Times& times) {
    Json json = {{"status", times.status},
                 {"started_us", times.started},
                 {"ended_us", times.ended ? Json(*times.ended) : Json()}};
    if (!times.place) return json;
    const Place& place = *times.place;
    Json at = {{"doing", place.doing}, {"waits_for", place.waits_for < 0 ? Json() : Json(place.waits_for)}};
    if (place.steps > 0)
        at.update({{"step", place.step},
                   {"steps", place.steps},
                   {"location", place.location},
                   {"source", place.source}});
    json["at"] = std::move(at);
    return json;
}

Times times_from(const Json& json) {
    Times times;
    times.status = json.at("status");
    times.started = json.at("started_us");
    if (const Json& ended = json.at("ended_us"); !ended.is_null()) times.ended = ended.get<std::int64_t>();
    const auto found = json.find("at");
    if (found == json.end()) return times;
    Place place;
    place.doing = found->at("doing");
    if (const Json& peer = found->at("waits_for"); !peer.is_null()) place.waits_for = peer;
    place.step = found->value("step", std::size_t{0});
    place.steps = found->value("steps", std::size_t{0});
    place.location = found->value("location", "");
    place.source = found->value("source", "");
    times.place = std::move(place);
    return times;
}

Json json_of(const Collective& one) {
    const Label& label = one.label;
    Json json = {{"number", one.number},
                 {"collective", label.collective},
                 {"purpose", label.purpose},
                 {"schedule", label.schedule},
                 {"topology", label.topology},
                 {"type", label.type},
                 {"op", label.op},
                 {"root", label.root < 0 ? Json() : Json(label.root)},
                 {"spreads", label.spreads},
                 {"by_pair", label.is_by_pair},
                 {"ranks", label.ranks},
                 {"count", one.count}};
    json.update(json_of(one.times));
    return json;
}

Collective collective_from(const Json& json) {
    Collective one;
    one.number = json.at("number");
    one.count = json.at("count");
    Label& label = one.label;
    label.collective = json.at("collective");
    label.purpose = json.at("purpose");
    label.schedule = json.at("schedule");
    label.topology = json.at("topology");
    label.type = json.at("type");
    label.op = json.at("op");
    if (const Json& root = json.at("root"); !root.is_null()) label.root = root;
    label.spreads = json.at("spreads");
    label.is_by_pair = json.at("by_pair");
    label.ranks = json.at("ranks");
    one.times = times_from(json);
    return one;
}

Json json_of(const Message& one) {
    Json json = {{"direction", one.sends ? "send" : "receive"},
                 {"peer", one.peer < 0 ? Json() : Json(one.peer)},
                 {"tag", one.tag},
                 {"bytes", one.bytes}};
    json.update(json_of(one.times));
    return json;
}

Message message_from(const Json& json) {
    const Json& peer = json.at("peer");
    return {json.at("direction") == "send", peer.is_null() ? -1 : peer.get<int>(), json.at("tag"),
            json.at("bytes"), times_from(json)};
}

Json json_of(const Origin& origin) {
    return {{"communicator", origin.communicator},
            {"rank", origin.rank},
            {"size", origin.size},
            {"job_rank", origin.job_rank()},
            {"job_ranks", origin.job_ranks},
            {"topology", origin.topology},
            {"provider", origin.provider},
            {"host", origin.host},
            {"pid", origin.pid},
            {"process_group", origin.process_group}};
}

Origin origin_from(const Json& json) {
    Origin origin;
    origin.communicator = json.at("communicator");
    origin.rank = json.at("rank");
    origin.size = json.at("size");
    origin.job_ranks = json.at("job_ranks").get<std::vector<int>>();
    origin.topology = json.at("topology");
    origin.provider = json.at("provider");
    origin.host = json.at("host");
    origin.pid = json.at("pid");
    origin.process_group = json.at("process_group");
    if (origin.rank < 0 || origin.rank >= origin.size ||
        origin.job_ranks.size() != static_cast<std::size_t>(origin.size))
        throw std::out_of_range("rank");
    return origin;
}

Recording recording_from(const Json& json) {
    Recording recording;
    recording.origin = origin_from(json.at("origin"));
    recording.reason = json.at("reason");
    recording.request = json.at("request");
    recording.written = json.at("written_us");
    recording.failure = json.at("failure");
    recording.lost = json.value("lost", -1);
    if (recording.lost < -1 || recording.lost >= recording.origin.size) throw std::out_of_range("lost");
    recording.started = json.at("started");
    recording.is_idle = json.value("idle", false);
    for (const Json& one : json.at("collectives")) recording.collectives.push_back(collective_from(one));
    for (const Json& one : json.at("messages")) recording.messages.push_back(message_from(one));
    return recording;
}

}  // namespace

namespace {

bool is_of_job(const Origin& origin) {
    for (int rank = 0; rank < origin.size; ++rank)
        if (origin.job_ranks[static_cast<std::size_t>(rank)] != rank) return false;
    return true;
}

}  // namespace

std::string name_of(const Origin& origin) {
    const std::string name = fmt::format("rank {}", origin.rank);
    return is_of_job(origin) ? name : name + " of " + name_of_communicator(origin);
}

std::string name_of_communicator(const Origin& origin) {
    if (is_of_job(origin)) return fmt::format("the communicator of ranks 0 to {}", origin.size - 1);
    return fmt::format("the group of ranks {}", fmt::join(origin.job_ranks, ", "));
}

std::string to_json(const Recording& recording) {
    Json json = {{format_key, format_version},
                 {"reason", recording.reason},
                 {"request", recording.request},
                 {"written_us", recording.written},
                 {"origin", json_of(recording.origin)},
                 {"failure", recording.failure},
                 {"lost", recording.lost},
                 {"started", recording.started},
                 {"idle", recording.is_idle},
                 {"collectives", Json::array()},
                 {"messages", Json::array()}};
    for (const Collective& one : recording.collectives) json["collectives"].push_back(json_of(one));
    for (const Message& one : recording.messages) json["messages"].push_back(json_of(one));
    // Texts from the environment need not be UTF-8.
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<Recording> parse_recording(const std::string& text) {
    const Json json = Json::parse(text, nullptr, false);
    try {
        if (json.at(format_key) != format_version) return std::nullopt;
        return recording_from(json);
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

void save(const Recording& recording, const std::string& path) {
    try {
        replace_file(path, to_json(recording), private_mode);
    } catch (const std::runtime_error& error) {
        throw Error(Status::io, fmt::format("the recording cannot be written to {}: {}", path, error.what()));
    }
}

}  // namespace hocket::record
