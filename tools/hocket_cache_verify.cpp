// hocket-cache verify: reads and checks every record in a folder, of all datasets.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "runtime/cache/space.hpp"
#include "tools/hocket_cache_commands.hpp"
#include "tools/hocket_cache_folder.hpp"
#include "tools/hocket_cache_progress.hpp"
#include "tools/hocket_cache_texts.hpp"

namespace hocket::cache_tool {
namespace {

constexpr std::size_t most_findings = 100;

struct Findings {
    std::uint64_t segments = 0, records = 0, bytes = 0, bad_segments = 0, bad_records = 0;
    std::vector<std::string> texts;  // the first hundred

    bool any() const { return bad_segments + bad_records > 0; }
    void add(std::string text) {
        if (texts.size() < most_findings) texts.push_back(std::move(text));
    }
};

class Verifier {
  public:
    explicit Verifier(Signals& signals) : signals_(signals) {}

    Findings run(const std::string& folder) {
        const auto paths = list_segments(folder, all_bytes_);
        for (const std::string& path : paths) {
            if (is_stopped_) break;
            check(path);
        }
        progress_.clear();
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
        const bool is_index_right = segment.visit([&](auto slot, const std::optional<cache::Entry>& entry) {
            ++findings_.records;
            if (entry)
                check(path, segment, *entry);
            else
                add_bad_record(fmt::format("{}: the index entry in slot {} is damaged", path, slot));
            return !is_stopped_;
        });
        if (is_index_right) return;
        ++findings_.bad_segments;
        findings_.add(fmt::format("{}: its index is not what was sealed", path));
    }

    void check(const std::string& path, const SegmentReader& segment, const cache::Entry& entry) {
        const std::string problem = segment.check(entry, buffer_);
        findings_.bytes += entry.bytes;
        if (!problem.empty())
            add_bad_record(fmt::format("{}: sample {} at offset {}, {} bytes, {}", path, entry.key,
                                       entry.offset, entry.bytes, problem));
        progress_.show(
            {done_bytes_ + entry.offset + entry.bytes, all_bytes_, findings_.records, findings_.bytes});
        is_stopped_ = signals_.wait({}) != 0;
    }

    void add_bad_record(std::string text) {
        ++findings_.bad_records;
        findings_.add(std::move(text));
    }

    Signals& signals_;
    Progress progress_;
    Findings findings_;
    std::uint64_t all_bytes_ = 0, done_bytes_ = 0;
    std::vector<std::byte> buffer_;
    bool is_stopped_ = false;
};

void print_json(const std::string& folder, const Findings& findings, bool is_complete) {
    const nlohmann::ordered_json json{{"folder", folder},
                                      {"complete", is_complete},
                                      {"segments", findings.segments},
                                      {"samples", findings.records},
                                      {"sample_bytes", findings.bytes},
                                      {"bad_segments", findings.bad_segments},
                                      {"bad_samples", findings.bad_records},
                                      {"findings", findings.texts}};
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(const std::string& folder, const Findings& findings, std::chrono::duration<double> time) {
    for (const std::string& text : findings.texts) fmt::print("{}\n", text);
    fmt::print("{}: {} with {} ({}) checked in {}; ", folder, count_text(findings.segments, "segment"),
               count_text(findings.records, "sample"), bytes_text(static_cast<double>(findings.bytes)),
               duration_text(time));
    if (!findings.any()) return fmt::print("all are right\n");
    fmt::print("{} and {} damaged; they are read from the source again when a job needs them\n",
               count_text(findings.bad_segments, "segment"), count_text(findings.bad_records, "sample"));
}

}  // namespace

int verify(const Options& options, Signals& signals) {
    const auto start = std::chrono::steady_clock::now();
    const Findings findings = Verifier(signals).run(options.folder);
    const int signal = signals.wait({});
    if (options.json)
        print_json(options.folder, findings, signal == 0);
    else
        print_text(options.folder, findings, std::chrono::steady_clock::now() - start);
    if (signal != 0) {
        fmt::print(stderr, "hocket-cache: interrupted; the rest was not checked\n");
        return 128 + signal;
    }
    return findings.any() ? 1 : 0;
}

}  // namespace hocket::cache_tool
