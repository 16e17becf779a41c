#include "runtime/engine/job/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "dsl/base/named_file.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/log.hpp"

namespace hocket::engine {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;
using dsl::Collective;

constexpr const char* format_name = "hocket tuning table";
constexpr int format_version = 1;
constexpr std::uintmax_t most_table_bytes = 256 * 1024;  // leaves room in the ranks' agreement
constexpr std::size_t longest_text = 1024;

[[noreturn]] void refuse_table(const std::string& text) {
    throw Error(Status::invalid_argument, text);
}

// ---- From JSON: every value is of the right kind, or is refused by its name -------------------------

const OrderedJson& member(const OrderedJson& json, const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (found == json.end()) refuse_table(fmt::format("\"{}\" is missing", key));
    return *found;
}

// Texts are printed and looked up, so each must be one line.
std::string text_in(const OrderedJson& json, const char* key) {
    const OrderedJson& value = member(json, key);
    if (!value.is_string()) refuse_table(fmt::format("\"{}\" is no text", key));
    const auto& text = value.get_ref<const std::string&>();
    const auto is_control = [](unsigned char c) { return c < ' ' || c == 127; };
    if (text.empty() || text.size() > longest_text || std::any_of(text.begin(), text.end(), is_control))
        refuse_table(fmt::format("\"{}\" is empty, too long, or more than a line", key));
    return text;
}

std::uint64_t number_in(const OrderedJson& json, const char* key) {
    const OrderedJson& value = member(json, key);
    if (!value.is_number_unsigned()) refuse_table(fmt::format("\"{}\" is no whole number", key));
    return value.get<std::uint64_t>();
}

double time_in(const OrderedJson& json, const char* key) {
    const OrderedJson& value = member(json, key);
    const double time = value.is_number() ? value.get<double>() : 0.0;
    if (!(time > 0) || !std::isfinite(time)) refuse_table(fmt::format("\"{}\" is no time", key));
    return time;
}

const OrderedJson& list_in(const OrderedJson& json, const char* key) {
    const OrderedJson& value = member(json, key);
    if (!value.is_array()) refuse_table(fmt::format("\"{}\" is no list", key));
    return value;
}

Collective collective_named(const std::string& name) {
    for (const Collective collective : dsl::all_collectives)
        if (name == dsl::name_of(collective)) return collective;
    refuse_table("there is an unknown collective");
}

std::vector<TunedRange> ranges_from(const OrderedJson& list) {
    std::vector<TunedRange> ranges;
    if (!list.is_array()) refuse_table("a collective has no list");
    for (const OrderedJson& json : list) {
        const TunedRange range{number_in(json, "from"), number_in(json, "up_to"), number_in(json, "bytes"),
                               time_in(json, "us"), text_in(json, "schedule")};
        if (range.from > range.up_to || (!ranges.empty() && range.from <= ranges.back().up_to))
            refuse_table(
                fmt::format("a range from {} up to {} bytes is empty, or not above the one before it",
                            range.from, range.up_to));
        ranges.push_back(range);
    }
    return ranges;
}

OrderedJson json_of(const std::vector<TunedRange>& ranges) {
    OrderedJson list = OrderedJson::array();
    for (const TunedRange& range : ranges)
        list.push_back({{"from", range.from},
                        {"up_to", range.up_to},
                        {"schedule", range.schedule},
                        {"us", range.us},
                        {"bytes", range.bytes}});
    return list;
}

void warn(const std::string& file, const std::string& why) {
    log_line(
        "hocket: warning: the tuning table {} is ignored: {}\n"
        "  hint: remove it and run hocket-tune for a new one, or set HOCKET_TUNING=off",
        file, why);
}

}  // namespace

const TunedRange* find(const Tuning& tuning, Collective collective, std::uint64_t bytes) {
    const auto ranges = tuning.find(collective);
    if (ranges == tuning.end()) return nullptr;
    for (const TunedRange& range : ranges->second)
        if (range.from <= bytes && bytes <= range.up_to) return &range;
    return nullptr;
}

void merge(TuningTable& table, const TuningTable& news) {
    for (const auto& [shape, tuning] : news)
        for (const auto& [collective, ranges] : tuning) table[shape][collective] = ranges;
}

std::string text_of(const TuningTable& table) {
    OrderedJson jobs = OrderedJson::array();
    for (const auto& [shape, tuning] : table) {
        OrderedJson by_collective = OrderedJson::object();
        for (const auto& [collective, ranges] : tuning)
            by_collective[std::string(dsl::name_of(collective))] = json_of(ranges);
        jobs.push_back({{"topology", shape.topology},
                        {"provider", shape.provider},
                        {"ranks", shape.ranks},
                        {"collectives", by_collective}});
    }
    const OrderedJson json = {{"format", format_name}, {"version", format_version}, {"jobs", jobs}};
    // A topology may be the name of a file, which need not be UTF-8.
    return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

TuningTable parse_tuning(const std::string& text) {
    const OrderedJson json = OrderedJson::parse(text, nullptr, false);
    if (json.is_discarded()) refuse_table("it is no JSON, or cut off");
    if (text_in(json, "format") != format_name)
        refuse_table(fmt::format("its \"format\" is not \"{}\"", format_name));
    if (const auto version = number_in(json, "version"); version != format_version)
        refuse_table(
            fmt::format("it has version {}, and this Hocket knows version {}", version, format_version));
    TuningTable table;
    for (const OrderedJson& job : list_in(json, "jobs")) {
        const auto ranks = number_in(job, "ranks");
        if (ranks < 1 || ranks > INT32_MAX) refuse_table("\"ranks\" is no number of ranks");
        Tuning& tuning = table[{text_in(job, "topology"), text_in(job, "provider"), static_cast<int>(ranks)}];
        const OrderedJson& by_collective = member(job, "collectives");
        if (!by_collective.is_object()) refuse_table("\"collectives\" is no object");
        for (const auto& [name, list] : by_collective.items())
            tuning[collective_named(name)] = ranges_from(list);
    }
    return table;
}

std::optional<TuningTable> read_tuning(const std::string& file) {
    try {
        const std::string text = read_text(file, most_table_bytes + 1);
        if (text.size() > most_table_bytes)
            refuse_table(fmt::format("it is larger than {} bytes", most_table_bytes));
        return parse_tuning(text);
    } catch (const UnreadableFile& refused) {
        if (refused.error == ENOENT || refused.error == ENOTDIR) return std::nullopt;
        refuse_table(std::string("it cannot be read: ") + refused.what());
    }
}

void write_tuning(const std::string& file, const TuningTable& table) {
    const std::string text = text_of(table);
    if (text.size() > most_table_bytes)
        refuse_table(fmt::format("the tuning table {} would be larger than {} bytes; begin a new one", file,
                                 most_table_bytes));
    const fs::path place = fs::weakly_canonical(fs::absolute(file));  // follows links, so that they remain
    std::error_code ignored;
    fs::create_directories(place.parent_path(), ignored);
    try {
        replace_file(place, text, 0666);  // every user may read how fast this host is
    } catch (const std::runtime_error& error) {
        refuse_table(fmt::format("the tuning table {} cannot be written: {}", file, error.what()));
    }
}

std::string tuning_to_share(const Options& options) {
    if (options.rank != 0 || options.world_size == 1 || options.tuning.empty()) return "";
    try {
        const auto table = read_tuning(options.tuning);
        if (!table && options.tuning_is_named) refuse_table("there is no such file");
        if (!table) return "";
        TuningTable shared;
        for (const auto& [shape, tuning] : *table)
            if (shape.ranks == options.world_size) shared[shape] = tuning;
        const std::string text = shared.empty() ? "" : text_of(shared);
        if (text.size() > most_table_bytes)
            refuse_table(fmt::format("it is larger than {} bytes", most_table_bytes));
        return text;
    } catch (const Error& error) {
        warn(options.tuning, error.what());
        return "";
    }
}

}  // namespace hocket::engine
