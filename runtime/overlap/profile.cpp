#include "runtime/overlap/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "dsl/base/named_file.hpp"
#include "runtime/base/error.hpp"

namespace hocket::overlap {
namespace {

using Json = nlohmann::json;

constexpr std::size_t longest_name = 256, most_text = 16 << 20;  // bytes
constexpr std::size_t longest_shown = 40;                        // characters of a wrong value
constexpr const char* form =
    R"({"startup": 0.001, "layers": [{"name": "conv1", "transfer": 0.002, "compute": 0.003}, ...]})";

[[noreturn]] void refuse_profile(const std::string& text) {
    throw Error(Status::invalid_argument, text);
}

// Returns the value as a message shows it.
std::string shown(const Json& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list";
    const std::string text = value.dump(-1, ' ', true);
    return text.size() > longest_shown ? text.substr(0, longest_shown) + "..." : text;
}

const Json& member(const Json& object, const std::string& path, const char* key, const std::string& wanted) {
    const auto found = object.find(key);
    if (found == object.end())
        refuse_profile(fmt::format("{}{} is missing; it must be {}", path, key, wanted));
    return *found;
}

double time_in(const Json& object, const std::string& path, const char* key) {
    const Json& value = member(object, path, key, time_words());
    const double seconds = value.is_number() ? value.get<double>() : -1.0;
    if (!is_time(seconds))
        refuse_profile(fmt::format("{}{} is {}; it must be {}", path, key, shown(value), time_words()));
    return seconds;
}

double time_or_none(const Json& object, const char* key) {
    return object.contains(key) ? time_in(object, "", key) : 0;
}

std::optional<CostLine> pull_in(const Json& json) {
    const auto value = json.find("pull");
    if (value == json.end()) return std::nullopt;
    if (!value->is_object())
        refuse_profile(fmt::format("pull is {}; it must be an object, or left out: {}", shown(*value),
                                   R"({"latency": 0.002, "startup": 0.001, "per_byte": 1e-08})"));
    return CostLine{time_in(*value, "pull.", "latency"), time_in(*value, "pull.", "startup"),
                    time_in(*value, "pull.", "per_byte")};
}

// Requires the time of all layers or of none: half a forward pass cannot be planned.
void check_forward(const std::vector<Layer>& layers) {
    for (std::size_t i = 0; i < layers.size(); ++i)
        if (layers[i].forward.has_value() != layers[0].forward.has_value())
            refuse_profile(fmt::format(
                "layers[{}].forward is missing; all layers must have the seconds of their forward "
                "passes, or none",
                layers[i].forward ? 0 : i));
}

double contention_in(const Json& json) {
    const auto value = json.find("contention");
    if (value == json.end()) return 0;
    const double share = value->is_number() ? value->get<double>() : -1.0;
    if (!(share >= 0 && share <= largest_contention))
        refuse_profile(fmt::format("contention is {}; it must be a share from 0 to {:g}, or left out",
                                   shown(*value), largest_contention));
    return share;
}

std::optional<std::uint64_t> bytes_in(const Json& object, const std::string& path) {
    const auto value = object.find("bytes");
    if (value == object.end()) return std::nullopt;
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > most_bytes)
        refuse_profile(fmt::format("{}bytes is {}; it must be a whole number from 0 to {}, or left out", path,
                                   shown(*value), most_bytes));
    return value->get<std::uint64_t>();
}

std::string name_in(const Json& object, const std::string& path, std::size_t number) {
    const auto value = object.find("name");
    if (value == object.end()) return fmt::format("layer {}", number);
    const std::string* name = value->get_ptr<const std::string*>();
    if (name == nullptr || !is_name(*name))
        refuse_profile(
            fmt::format("{}name is {}; it must be a text of one line and up to {} bytes, or left out", path,
                        shown(*value), longest_name));
    return *name;
}

Layer layer_from(const Json& json, std::size_t index) {
    const std::string path = fmt::format("layers[{}]", index);
    if (!json.is_object())
        refuse_profile(fmt::format("{} is {}; it must be an object: {}", path, shown(json),
                                   R"({"name": "conv1", "transfer": 0.002, "compute": 0.003})"));
    const std::string inside = path + ".";
    Layer layer{name_in(json, inside, index + 1), time_in(json, inside, "transfer"),
                time_in(json, inside, "compute"), bytes_in(json, inside)};
    if (json.contains("forward")) layer.forward = time_in(json, inside, "forward");
    return layer;
}

Json json_from(const std::string& text) {
    try {
        return Json::parse(text);
    } catch (const Json::exception& error) {
        // The text is like "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
        const std::string what = error.what();
        const std::size_t after = what.find("] ");
        refuse_profile(fmt::format("it is no JSON: {}. A profile is {}",
                                   after == std::string::npos ? what : what.substr(after + 2), form));
    }
}

}  // namespace

bool is_time(double seconds) {
    return std::isfinite(seconds) && seconds >= 0 && seconds <= longest_time;
}

// Names are printed in tables and pictures.
bool is_name(const std::string& name) {
    const auto is_control = [](unsigned char c) { return c < ' ' || c == 127; };
    if (name.empty() || name.size() > longest_name || std::any_of(name.begin(), name.end(), is_control))
        return false;
    try {
        (void)Json(name).dump();
        return true;
    } catch (const Json::exception&) {
        return false;  // it is not UTF-8
    }
}

std::string time_words() {
    return fmt::format("seconds, from 0 to {:g}", longest_time);
}

Profile parse_profile(const std::string& text) {
    if (text.size() > most_text)
        refuse_profile(
            fmt::format("it has {} bytes; {} are the most. A profile has the times of layers, no more",
                        text.size(), most_text));
    const Json json = json_from(text);
    if (!json.is_object()) refuse_profile(fmt::format("it is {}; a profile is {}", shown(json), form));
    Profile profile;
    profile.startup = time_in(json, "", "startup");
    profile.before = time_or_none(json, "before");
    profile.latency = time_or_none(json, "latency");
    profile.contention = contention_in(json);
    profile.pull = pull_in(json);
    const Json& layers = member(json, "", "layers", "the list of the model's layers");
    if (!layers.is_array() || layers.empty() || layers.size() > most_layers)
        refuse_profile(fmt::format(
            "layers is {}; it must be a list of 1 to {} layers",
            layers.is_array() ? fmt::format("a list of {}", layers.size()) : shown(layers), most_layers));
    for (const Json& layer : layers) profile.layers.push_back(layer_from(layer, profile.layers.size()));
    check_forward(profile.layers);
    return profile;
}

std::string json_of(const Profile& profile) {
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (const Layer& layer : profile.layers) {
        nlohmann::ordered_json one{
            {"name", layer.name}, {"transfer", layer.transfer}, {"compute", layer.compute}};
        if (layer.forward) one["forward"] = *layer.forward;
        if (layer.bytes) one["bytes"] = *layer.bytes;
        layers.push_back(std::move(one));
    }
    nlohmann::ordered_json json{{"startup", profile.startup},
                                {"before", profile.before},
                                {"latency", profile.latency},
                                {"contention", profile.contention}};
    if (profile.pull)
        json["pull"] = {{"latency", profile.pull->latency},
                        {"startup", profile.pull->startup},
                        {"per_byte", profile.pull->per_byte}};
    json["layers"] = std::move(layers);
    return json.dump(1) + "\n";
}

Profile read_profile(const std::string& file) {
    try {
        // Reads at most one byte more than allowed, so that a larger file is refused without being read.
        return parse_profile(read_text(file, most_text + 1));
    } catch (const UnreadableFile& refused) {
        throw Error(Status::io, fmt::format("{} cannot be read: {}", file, refused.what()));
    } catch (const Error& error) {
        refuse_profile(fmt::format("{}: {}", file, error.what()));
    }
}

}  // namespace hocket::overlap
