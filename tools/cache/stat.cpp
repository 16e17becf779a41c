// hocket-cache stat: shows the contents of a folder.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "runtime/cache/segments/space.hpp"
#include "tools/cache/commands.hpp"
#include "tools/cache/folder.hpp"
#include "tools/cache/texts.hpp"

namespace hocket::cache_tool {
namespace {

struct DatasetFacts {
    std::uint64_t sealed = 0, open = 0;      // numbers of segments
    std::unordered_set<std::uint64_t> keys;  // a sample that was damaged and loaded again has two records
    std::unordered_set<std::uint64_t> keys_given_back;  // damaged, without space; some are elsewhere, too
    std::uint64_t sample_bytes = 0, disk_bytes = 0;
    std::uint64_t bad_entries = 0;

    std::uint64_t given_back() const {
        return static_cast<std::uint64_t>(
            std::count_if(keys_given_back.begin(), keys_given_back.end(),
                          [this](std::uint64_t key) { return !keys.contains(key); }));
    }
    std::time_t last_used = 0;
    std::string label;  // of the segment used last
};

struct FolderFacts {
    std::uint64_t used_bytes = 0, free_bytes = 0;
    std::map<std::string, DatasetFacts> datasets;  // by digest
    std::vector<std::string> damaged;              // segments that cannot be read, with the reason
    std::vector<std::string> foreign;              // see FolderListing
};

std::string name_of(const cache::Digest& dataset) {
    return fmt::format("{:016x}{:016x}", dataset[0], dataset[1]);
}

void add(const SegmentReader& segment, FolderFacts& facts) {
    DatasetFacts& dataset = facts.datasets[name_of(segment.header().dataset)];
    ++(segment.is_sealed() ? dataset.sealed : dataset.open);
    dataset.disk_bytes += cache::taken_up(segment.facts(), segment.is_sealed());
    if (segment.facts().st_mtim.tv_sec >= dataset.last_used) {
        dataset.last_used = segment.facts().st_mtim.tv_sec;
        dataset.label = segment.header().label;
    }
    std::vector<std::byte> buffer;
    segment.visit([&](std::uint64_t, const std::optional<cache::Entry>& entry) {
        if (!entry)
            ++dataset.bad_entries;
        else if (segment.is_given_back(*entry, buffer))
            dataset.keys_given_back.insert(entry->key);
        else if (dataset.keys.insert(entry->key).second)
            dataset.sample_bytes += entry->bytes;
        return true;
    });
}

FolderFacts look_at(const std::string& folder) {
    FolderFacts facts;
    facts.free_bytes = std::filesystem::space(folder).available;
    FolderListing listing = list_folder(folder);
    facts.used_bytes = listing.used_bytes;
    facts.foreign = std::move(listing.foreign);
    for (const std::string& path : listing.segments) {
        try {
            const auto segment = SegmentReader::open(path);
            if (segment) add(*segment, facts);
        } catch (const std::runtime_error& error) {
            facts.damaged.push_back(fmt::format("{}: {}", path, error.what()));
        }
    }
    return facts;
}

void print_json(const std::string& folder, const FolderFacts& facts) {
    nlohmann::ordered_json json{{"folder", folder},
                                {"used_bytes", facts.used_bytes},
                                {"free_bytes", facts.free_bytes},
                                {"damaged", facts.damaged},
                                {"foreign", facts.foreign},
                                {"datasets", nlohmann::ordered_json::array()}};
    for (const auto& [name, dataset] : facts.datasets)
        json["datasets"].push_back(
            {{"dataset", name},
             {"label", dataset.label},
             {"sealed_segments", dataset.sealed},
             {"open_segments", dataset.open},
             {"samples", dataset.keys.size()},
             {"sample_bytes", dataset.sample_bytes},
             {"disk_bytes", dataset.disk_bytes},
             {"bad_entries", dataset.bad_entries},
             {"given_back", dataset.given_back()},
             {"last_used", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(dataset.last_used))}});
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_table(const std::string& folder, const FolderFacts& facts) {
    fmt::print(
        "{}: {} used, {} free on its disk, {}\n", folder, bytes_text(static_cast<double>(facts.used_bytes)),
        bytes_text(static_cast<double>(facts.free_bytes)), count_text(facts.datasets.size(), "dataset"));
    if (!facts.datasets.empty())
        fmt::print("{:<32}  {:>6}  {:>5}  {:>10}  {:>11}  {:>11}  {:>7}  {:<19}  {}\n", "dataset", "sealed",
                   "open", "samples", "of bytes", "on disk", "damaged", "last used", "label");
    for (const auto& [name, dataset] : facts.datasets)
        fmt::print("{}  {:>6}  {:>5}  {:>10}  {:>11}  {:>11}  {:>7}  {:%Y-%m-%d %H:%M:%S}  {}\n", name,
                   dataset.sealed, dataset.open, dataset.keys.size(),
                   bytes_text(static_cast<double>(dataset.sample_bytes)),
                   bytes_text(static_cast<double>(dataset.disk_bytes)),
                   dataset.bad_entries + dataset.given_back(), fmt::localtime(dataset.last_used),
                   dataset.label);
    for (const std::string& damaged : facts.damaged) fmt::print("damaged: {}\n", damaged);
    for (const std::string& foreign : facts.foreign) fmt::print("{}\n", foreign_text(foreign));
}

}  // namespace

int stat(const Options& options) {
    const FolderFacts facts = look_at(options.folder);
    options.json ? print_json(options.folder, facts) : print_table(options.folder, facts);
    return 0;
}

}  // namespace hocket::cache_tool
