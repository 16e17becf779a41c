// hocket-cache verify: reads and checks every record in a folder, of all datasets.
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "runtime/cache/segments/space.hpp"
#include "tools/cache/commands.hpp"
#include "tools/cache/folder.hpp"
#include "tools/cache/progress.hpp"
#include "tools/cache/texts.hpp"
#include "tools/tool.hpp"

namespace hocket::cache_tool {
namespace {

constexpr std::size_t most_findings = 100;

// The source of a sample if the disk has no good copy of it.
enum class Origin { source, put_alone, unknown };

// key: empty if the record's index entry is damaged.
Origin origin_of(std::optional<std::uint64_t> key, std::optional<std::uint64_t> source_samples) {
    if (source_samples == 0) return Origin::put_alone;
    if (!key || !source_samples) return Origin::unknown;
    return *key < *source_samples ? Origin::source : Origin::put_alone;
}

struct Findings {
    std::uint64_t segments = 0, samples = 0, bytes = 0, bad_segments = 0, bad_samples = 0;
    std::uint64_t in_source = 0, only_put = 0;  // of the bad samples; for others it is unknown
    std::uint64_t replaced_samples = 0;         // damaged, with a good copy elsewhere in the folder
    std::vector<std::string> texts;             // the first hundred
    std::vector<std::string> foreign;           // see FolderListing

    bool is_loss() const { return bad_segments + bad_samples > 0; }
    void add(std::string text) {
        if (texts.size() < most_findings) texts.push_back(std::move(text));
    }
};

struct BadRecord {
    cache::Digest dataset;
    std::optional<std::uint64_t> key;  // empty: not even the key can be read
    std::string text;
};

class Verifier {
  public:
    explicit Verifier(tools::Signals& signals) : signals_(signals) {}

    Findings run(const std::string& folder) {
        FolderListing listing = list_folder(folder);
        all_bytes_ = listing.used_bytes;
        findings_.foreign = std::move(listing.foreign);
        for (const std::string& path : listing.segments) {
            if (is_stopped_) break;
            check(path);
        }
        progress_.clear();
        judge();
        return findings_;
    }

  private:
    void check(const std::string& path) {
        try {
            const auto segment = SegmentReader::open(path);
            if (!segment) return;
            segment->drop_cached();
            check(path, *segment);
            ++findings_.segments;
            done_bytes_ += cache::taken_up(segment->facts(), segment->is_sealed());
        } catch (const std::runtime_error& error) {
            ++findings_.segments;
            ++findings_.bad_segments;
            findings_.add(fmt::format("{}: {}", path, error.what()));
        }
    }

    void check(const std::string& path, const SegmentReader& segment) {
        const auto source_samples = segment.header().source_samples;
        if (source_samples) source_samples_[segment.header().dataset] = source_samples;
        const bool is_index_right = segment.visit([&](auto slot, const std::optional<cache::Entry>& entry) {
            ++records_;
            if (entry)
                check(path, segment, *entry);
            else
                bad_records_.push_back(
                    {segment.header().dataset, std::nullopt,
                     fmt::format("{}: the index entry in slot {} is damaged", path, slot)});
            return !is_stopped_;
        });
        if (is_index_right) return;
        ++findings_.bad_segments;
        findings_.add(fmt::format(
            "{}: the index fails the checksum that was stored when the segment was sealed", path));
    }

    void check(const std::string& path, const SegmentReader& segment, const cache::Entry& entry) {
        const std::string problem = segment.check(entry, buffer_);
        findings_.bytes += entry.bytes;
        const cache::Digest& dataset = segment.header().dataset;
        if (problem.empty())
            right_keys_[dataset].insert(entry.key);
        else
            bad_records_.push_back({dataset, entry.key,
                                    fmt::format("{}: sample {} at offset {}, {} bytes, {}", path, entry.key,
                                                entry.offset, entry.bytes, problem)});
        progress_.show({done_bytes_ + entry.offset + entry.bytes, all_bytes_, records_, findings_.bytes});
        is_stopped_ = signals_.wait({}) != 0;
    }

    // Called only after all segments were read: the record that replaces a damaged one may be in any of them.
    void judge() {
        for (const BadRecord& bad : bad_records_) {
            if (!bad.key || !right_keys_[bad.dataset].contains(*bad.key)) {
                add_bad_sample(bad);
                continue;
            }
            ++findings_.replaced_samples;
            findings_.add(bad.text + "; another segment has it too, and there it is right");
        }
        findings_.samples = findings_.bad_samples;
        for (const auto& [dataset, keys] : right_keys_) findings_.samples += keys.size();
    }

    void add_bad_sample(const BadRecord& bad) {
        const Origin origin = origin_of(bad.key, source_samples_[bad.dataset]);
        ++findings_.bad_samples;
        findings_.in_source += origin == Origin::source;
        findings_.only_put += origin == Origin::put_alone;
        findings_.add(bad.text + (origin == Origin::put_alone ? "; it was put, and is in no source" : ""));
    }

    tools::Signals& signals_;
    Progress progress_;
    Findings findings_;
    std::map<cache::Digest, std::unordered_set<std::uint64_t>> right_keys_;  // by dataset
    std::map<cache::Digest, std::optional<std::uint64_t>> source_samples_;   // by dataset
    std::vector<BadRecord> bad_records_;
    std::uint64_t all_bytes_ = 0, done_bytes_ = 0, records_ = 0;
    std::vector<std::byte> buffer_;
    bool is_stopped_ = false;
};

void print_json(const std::string& folder, const Findings& findings, bool is_complete) {
    const nlohmann::ordered_json json{{"folder", folder},
                                      {"complete", is_complete},
                                      {"segments", findings.segments},
                                      {"samples", findings.samples},
                                      {"sample_bytes", findings.bytes},
                                      {"bad_segments", findings.bad_segments},
                                      {"bad_samples", findings.bad_samples},
                                      {"bad_samples_in_source", findings.in_source},
                                      {"bad_samples_only_put", findings.only_put},
                                      {"replaced_samples", findings.replaced_samples},
                                      {"findings", findings.texts},
                                      {"foreign", findings.foreign}};
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

// Describes how much is damaged, and what becomes of it.
std::string loss_text(const Findings& findings) {
    std::string text = fmt::format("{} and {} damaged", count_text(findings.bad_segments, "segment"),
                                   count_text(findings.bad_samples, "sample"));
    const std::uint64_t unknown = findings.bad_samples - findings.in_source - findings.only_put;
    if (findings.in_source > 0)
        text +=
            fmt::format("; {} will be read from the source again when a job needs {}",
                        count_text(findings.in_source, "sample"), findings.in_source == 1 ? "it" : "them");
    if (findings.only_put > 0)
        text +=
            fmt::format("; {} put, and in no source: put {} again",
                        count_text(findings.only_put, "sample") + (findings.only_put == 1 ? " was" : " were"),
                        findings.only_put == 1 ? "it" : "them");
    if (unknown > 0)
        text += fmt::format("; {} will be read from the source again, if the source has {}",
                            count_text(unknown, "sample"), unknown == 1 ? "it" : "them");
    if (findings.bad_segments > 0)
        text += "; other samples of the damaged segments will be read from the source again, if it has them";
    return text + "; the next job that meets the damage gives its disk space back";
}

std::string verdict(const Findings& findings, bool is_complete) {
    if (findings.is_loss()) return loss_text(findings);
    const std::uint64_t replaced = findings.replaced_samples;
    if (replaced == 0) return is_complete ? "all are right" : "all that were checked so far are right";
    return fmt::format("{}no sample is lost: {} damaged, and the folder has an intact copy of {}",
                       is_complete ? "" : "so far, ", count_text(replaced, "sample"),
                       replaced == 1 ? "it" : "each");
}

void print_text(const std::string& folder, const Findings& findings, bool is_complete,
                std::chrono::duration<double> time) {
    for (const std::string& text : findings.texts) fmt::print("{}\n", text);
    for (const std::string& foreign : findings.foreign) fmt::print("{}\n", foreign_text(foreign));
    fmt::print("{}: {} with {} ({}) checked in {}{}; {}\n", folder, count_text(findings.segments, "segment"),
               count_text(findings.samples, "sample"), bytes_text(static_cast<double>(findings.bytes)),
               duration_text(time), is_complete ? "" : ", then interrupted", verdict(findings, is_complete));
}

}  // namespace

int verify(const Options& options, tools::Signals& signals) {
    const auto start = std::chrono::steady_clock::now();
    const Findings findings = Verifier(signals).run(options.folder);
    const int signal = signals.wait({});
    if (options.json)
        print_json(options.folder, findings, signal == 0);
    else
        print_text(options.folder, findings, signal == 0, std::chrono::steady_clock::now() - start);
    if (signal != 0) {
        tools::say("hocket-cache: interrupted; the rest was not checked");
        return 128 + signal;
    }
    return findings.is_loss() ? 1 : 0;
}

}  // namespace hocket::cache_tool
