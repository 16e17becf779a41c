#include "tools/run/trace.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "dsl/base/named_file.hpp"
#include "runtime/engine/record/trace_file.hpp"
#include "tools/run/clocks.hpp"

namespace hocket::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// In these collectives every rank's result depends on every other rank's input.
constexpr std::array<std::string_view, 4> all_to_all = {"all_reduce", "all_gather", "reduce_scatter",
                                                        "all_to_all"};

// Converts microseconds as written, with three decimals.
Nanoseconds ns_of(const Json& us) {
    return std::llround(us.get<double>() * 1000);
}

struct RankFile {
    fs::path path;
    std::string communicator, clock, host;
    int job_rank, process, process_group;
};

// Calls use(event) for each complete event of the file. Returns the number of lines that are not complete
// events.
std::size_t for_each_event(const fs::path& path, const std::function<void(Json&)>& use) {
    InputFile lines(path);
    std::size_t unreadable = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.ends_with(',')) line.pop_back();
        if (line == "[" || line == "{}]" || line.empty()) continue;
        try {
            Json event = Json::parse(line);
            use(event);
        } catch (const Json::exception&) {  // not JSON, or not in Hocket's format
            ++unreadable;
        }
    }
    return unreadable;
}

// Returns nothing if the file is not a rank's. Throws UnreadableFile.
std::optional<RankFile> origin_of(const fs::path& path) {
    InputFile lines(path);
    std::string line;
    if (!std::getline(lines, line) || !std::getline(lines, line)) return std::nullopt;
    try {
        const Json event = Json::parse(line.substr(0, line.rfind(',')));
        if (event.at("name") != record::trace_origin_event) return std::nullopt;
        const Json& facts = event.at("args");
        return RankFile{path,
                        facts.at("communicator"),
                        facts.at("clock"),
                        facts.at("host"),
                        facts.at("job_rank"),
                        facts.at("process"),
                        facts.at("process_group")};
    } catch (const Json::exception&) {
        return std::nullopt;
    }
}

// remarks: receives a line for each file that cannot be read.
std::vector<RankFile> files_in(const std::string& folder, const std::vector<int>* process_groups,
                               std::string& remarks) {
    std::vector<RankFile> files;
    std::error_code ignored;  // a missing folder has no entries
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
        if (!entry.path().string().ends_with(".trace.json")) continue;
        try {
            auto file = origin_of(entry.path());
            if (file && (!process_groups || std::ranges::count(*process_groups, file->process_group) > 0))
                files.push_back(std::move(*file));
        } catch (const UnreadableFile& refused) {
            remarks +=
                fmt::format("passed over: {} cannot be read: {}\n", entry.path().string(), refused.what());
        }
    }
    std::ranges::sort(files, {}, &RankFile::path);
    return files;
}

// A collective that has ended.
struct Ended {
    Json facts;
    Nanoseconds began, ended;
};

// Matches the begin and end events of collectives.
class Collectives {
  public:
    // Returns the collective that ends with this event.
    std::optional<Ended> take(const Json& event) {
        const std::string phase = event.at("ph");
        if (phase == "X" && event.at("cat") == "collective") {
            const Nanoseconds began = ns_of(event.at("ts"));
            return Ended{event.at("args"), began, began + ns_of(event.at("dur"))};
        }
        if (phase != "B" && phase != "E") return std::nullopt;
        auto& open = open_[event.at("tid").get<std::int64_t>()];
        if (phase == "B") {
            open.push_back(
                {event.at("cat") == "collective" ? event.at("args") : Json(), ns_of(event.at("ts")), 0});
            return std::nullopt;
        }
        if (open.empty()) return std::nullopt;  // its begin could not be read
        Ended ended = std::move(open.back());
        open.pop_back();
        if (ended.facts.is_null()) return std::nullopt;
        ended.facts.update(event.at("args"));
        ended.ended = ns_of(event.at("ts"));
        return ended;
    }

  private:
    std::map<std::int64_t, std::vector<Ended>> open_;  // by row
};

// One collective, as seen by the ranks of one clock.
struct Had {
    Nanoseconds last_begun = INT64_MIN, first_ended = INT64_MAX;
};

[[noreturn]] void cannot_write(const std::string& file, const std::string& why) {
    throw std::runtime_error(fmt::format("the trace {} cannot be written: {}", file, why));
}

// A file is replaced when its successor is complete; a link to it stays. A device or a pipe is written
// directly.
struct Target {
    explicit Target(const std::string& file) {
        std::error_code none;
        const fs::path real = fs::weakly_canonical(file, none);
        final = none ? file : real.string();
        const fs::file_status status = fs::status(final, none);
        is_replaced = !fs::exists(status) || fs::is_regular_file(status);
        written = is_replaced ? final + ".new" : final;
    }
    OutputFile open() const {
        return is_replaced ? OutputFile(make_regular(written, private_mode)) : OutputFile(written);
    }
    bool finish() const { return !is_replaced || std::rename(written.c_str(), final.c_str()) == 0; }
    void remove() const {
        if (is_replaced) std::remove(written.c_str());
    }

    std::string final, written;
    bool is_replaced;
};

class Joining {
  public:
    explicit Joining(std::vector<RankFile> files) : files_(std::move(files)) {
        for (const RankFile& file : files_)
            if (std::ranges::find(clocks_, file.clock) == clocks_.end())
                clocks_.push_back(file.clock), hosts_.push_back(file.host);
        first_.resize(clocks_.size(), INT64_MAX);
    }

    void compare_clocks() {
        for (const RankFile& file : files_) {
            Collectives collectives;
            for_each_event(file.path, [&](const Json& event) { note(file, collectives, event); });
        }
        Clocks compared(clocks_.size());
        for (const auto& [collective, by_clock] : had_) {
            std::vector<Clocks::Part> parts;
            for (const auto& [clock, had] : by_clock)
                parts.push_back({clock, had.last_begun, had.first_ended});
            compared.add(parts);
        }
        corrections_ = compared.corrections();
        had_.clear();
        for (std::size_t clock = 0; clock < clocks_.size(); ++clock)
            if (first_[clock] != INT64_MAX)
                first_of_all_ = std::min(first_of_all_, right(clock, first_[clock]));
    }

    JoinedTrace write(std::ostream& out) {
        JoinedTrace joined;
        joined.remarks = clock_remarks() + run_remark();
        std::set<int> ranks;
        for (const RankFile& file : files_) ranks.insert(file.job_rank);
        joined.ranks = ranks.size();
        out << "[\n";
        bool is_first = true;
        for (const RankFile& file : files_)
            joined.unreadable += for_each_event(file.path, [&](Json& event) {
                put_right(event, clock_of(file));
                joined.slices += event.at("ph") == "X" || event.at("ph") == "B";
                out << (is_first ? "" : ",\n") << event.dump(-1, ' ', false, Json::error_handler_t::replace);
                is_first = false;
            });
        out << "\n]\n";
        return joined;
    }

  private:
    std::size_t clock_of(const RankFile& file) const {
        return static_cast<std::size_t>(std::ranges::find(clocks_, file.clock) - clocks_.begin());
    }

    // Converts a time to the first clock.
    Nanoseconds right(std::size_t clock, Nanoseconds time) const {
        return time + (corrections_[clock] ? corrections_[clock]->offset_at(time) : 0);
    }

    // Corrects begin and end separately, so that an event that contains another one still does.
    void put_right(Json& event, std::size_t clock) const {
        const auto shown = [&](Nanoseconds time) {
            return static_cast<double>(right(clock, time) - first_of_all_) / 1000;
        };
        if (event.at("ph") == "M") {
            // A joined trace is no rank's file.
            if (event.at("name") == record::trace_origin_event) event["name"] = "hocket rank";
            return;
        }
        const Nanoseconds time = ns_of(event.at("ts"));
        event["ts"] = shown(time);
        if (event.at("ph") == "X")
            event["dur"] = shown(time + ns_of(event.at("dur"))) - event["ts"].get<double>();
    }

    void note(const RankFile& file, Collectives& collectives, const Json& event) {
        if (event.at("ph") == "M") return;
        const std::size_t clock = clock_of(file);
        first_[clock] = std::min(first_[clock], ns_of(event.at("ts")));
        const auto ended = collectives.take(event);
        if (!ended || clocks_.size() == 1) return;
        const Json& facts = ended->facts;
        const bool tells = std::ranges::count(all_to_all, facts.at("collective").get<std::string>()) > 0 &&
                           facts.at("count") > 0 && facts.at("status") == "success";
        if (!tells) return;
        Had& had = had_[{file.communicator, facts.at("number").get<std::uint64_t>()}][clock];
        had.last_begun = std::max(had.last_begun, ended->began);
        had.first_ended = std::min(had.first_ended, ended->ended);
    }

    std::string clock_remarks() const {
        std::string text;
        for (std::size_t clock = 1; clock < clocks_.size(); ++clock) {
            text += fmt::format("the clock of {}", hosts_[clock]);
            if (!corrections_[clock]) {
                text += " cannot be compared: its ranks had no collective with the others\n";
                continue;
            }
            const auto& known = corrections_[clock]->known();
            Nanoseconds within = 0;
            for (const auto& one : known) within = std::max(within, one.within);
            text += fmt::format(" is {:+.3f} ms from that of {}, within {:.3f} ms\n",
                                -static_cast<double>(known.front().offset) / 1e6, hosts_[0],
                                static_cast<double>(within) / 1e6);
        }
        return text;
    }

    // Reports a rank that had several processes: some were replaced, or the folder has traces of two jobs.
    std::string run_remark() const {
        std::map<int, std::set<std::pair<std::string, int>>> processes;
        for (const RankFile& file : files_) processes[file.job_rank].insert({file.host, file.process});
        for (const auto& [rank, of_rank] : processes)
            if (of_rank.size() > 1)
                return fmt::format(
                    "{} processes were rank {}: are there traces of several jobs in the folder? Then "
                    "empty it before each\n",
                    of_rank.size(), rank);
        return "";
    }

    std::vector<RankFile> files_;
    std::vector<std::string> clocks_, hosts_;
    std::map<std::pair<std::string, std::uint64_t>, std::map<std::size_t, Had>> had_;
    std::vector<std::optional<Correction>> corrections_;
    std::vector<Nanoseconds> first_;        // by clock, in its own time
    Nanoseconds first_of_all_ = INT64_MAX;  // on the first clock
};

}  // namespace

JoinedTrace join_traces(const std::string& folder, const std::string& file,
                        const std::vector<int>* process_groups) {
    std::string remarks;
    std::vector<RankFile> files = files_in(folder, process_groups, remarks);
    if (files.empty()) {
        const std::string why =
            process_groups
                ? "there is no trace: no rank has made a communicator"
                : fmt::format("there are no traces in {}; the ranks need HOCKET_TRACE={} when they join",
                              folder, folder);
        throw std::runtime_error(remarks.empty() ? why : why + "\n" + remarks.substr(0, remarks.size() - 1));
    }
    Joining joining(std::move(files));
    joining.compare_clocks();
    const Target target(file);
    try {
        OutputFile out(target.open());
        if (target.is_replaced) take_over_mode(out.descriptor(), target.final);
        JoinedTrace joined = joining.write(out);
        out.close();
        if (!out || !target.finish()) throw std::runtime_error(std::strerror(errno));
        joined.remarks = remarks + joined.remarks;
        return joined;
    } catch (const std::runtime_error& error) {
        target.remove();
        cannot_write(file, error.what());
    }
}

void check_trace_file(const std::string& file) {
    const Target target(file);
    if (fs::is_fifo(target.written)) {  // its reader would take this for the whole content
        if (access(target.written.c_str(), W_OK) != 0) cannot_write(file, std::strerror(errno));
        return;
    }
    try {
        OutputFile probe(target.open());
    } catch (const std::runtime_error& error) {
        cannot_write(file, error.what());
    }
    target.remove();
}

}  // namespace hocket::tools
