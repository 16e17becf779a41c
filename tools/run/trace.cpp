#include "tools/run/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "runtime/record/trace_file.hpp"
#include "tools/run/clocks.hpp"

namespace hocket::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Every rank's result has something of each other rank's input.
constexpr std::array<std::string_view, 4> all_to_all = {"all_reduce", "all_gather", "reduce_scatter",
                                                        "all_to_all"};

// Microseconds as they are written, with three decimals.
Nanoseconds ns_of(const Json& us) {
    return static_cast<Nanoseconds>(us.get<double>() * 1000 + 0.5);
}

struct RankFile {
    fs::path path;
    std::string communicator, clock, host;
    int job_rank;
};

// Calls use(event) for each whole event of the file. Returns how many lines are none.
std::size_t for_each_event(const fs::path& path, const std::function<void(Json&)>& use) {
    std::ifstream lines(path);
    std::size_t unreadable = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.ends_with(',')) line.pop_back();
        if (line == "[" || line == "{}]" || line.empty()) continue;
        try {
            Json event = Json::parse(line);
            use(event);
        } catch (const Json::exception&) {  // no JSON, or not as Hocket writes it
            ++unreadable;
        }
    }
    return unreadable;
}

std::optional<RankFile> origin_of(const fs::path& path) {
    std::optional<RankFile> found;
    std::ifstream lines(path);
    std::string line;
    if (!std::getline(lines, line) || !std::getline(lines, line)) return std::nullopt;
    try {
        const Json event = Json::parse(line.substr(0, line.rfind(',')));
        if (event.at("name") != record::trace_origin_event) return std::nullopt;
        const Json& facts = event.at("args");
        return RankFile{path, facts.at("communicator"), facts.at("clock"), facts.at("host"), event.at("pid")};
    } catch (const Json::exception&) {
        return std::nullopt;
    }
}

std::vector<RankFile> files_in(const std::string& folder) {
    std::vector<RankFile> files;
    std::error_code ignored;  // a folder that is not there has none
    for (const auto& entry : fs::directory_iterator(folder, ignored))
        if (entry.path().string().ends_with(".trace.json"))
            if (auto file = origin_of(entry.path())) files.push_back(std::move(*file));
    std::ranges::sort(files, {}, &RankFile::path);
    return files;
}

// One collective, as the ranks of one clock had it.
struct Had {
    Nanoseconds last_begun = INT64_MIN, first_ended = INT64_MAX;
};

class Joining {
  public:
    Joining(std::vector<RankFile> files) : files_(std::move(files)) {
        for (const RankFile& file : files_)
            if (const auto known = std::ranges::find(clocks_, file.clock); known == clocks_.end())
                clocks_.push_back(file.clock), hosts_.push_back(file.host);
        first_.resize(clocks_.size(), INT64_MAX);
    }

    void compare_clocks() {
        for (const RankFile& file : files_)
            for_each_event(file.path, [&](const Json& event) { note(file, event); });
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
        std::set<int> ranks;
        for (const RankFile& file : files_) ranks.insert(file.job_rank);
        joined.ranks = ranks.size();
        joined.clocks = words();
        out << "[\n";
        for (const RankFile& file : files_) {
            joined.unreadable += for_each_event(file.path, [&](Json& event) {
                if (event.at("ph") == "X") {
                    const Nanoseconds time = right(clock_of(file), ns_of(event.at("ts")));
                    event["ts"] = static_cast<double>(time - first_of_all_) / 1000;
                    ++joined.slices;
                }
                out << (is_first_ ? "" : ",\n") << event.dump(-1, ' ', false, Json::error_handler_t::replace);
                is_first_ = false;
            });
        }
        out << "\n]\n";
        return joined;
    }

  private:
    std::size_t clock_of(const RankFile& file) const {
        return static_cast<std::size_t>(std::ranges::find(clocks_, file.clock) - clocks_.begin());
    }

    // By the first clock.
    Nanoseconds right(std::size_t clock, Nanoseconds time) const {
        return time + (corrections_[clock] ? corrections_[clock]->offset_at(time) : 0);
    }

    void note(const RankFile& file, const Json& event) {
        if (event.at("ph") != "X") return;
        const std::size_t clock = clock_of(file);
        const Nanoseconds began = ns_of(event.at("ts"));
        first_[clock] = std::min(first_[clock], began);
        if (clocks_.size() > 1) note_collective(file, clock, began, event);
    }

    void note_collective(const RankFile& file, std::size_t clock, Nanoseconds began, const Json& event) {
        if (event.value("cat", "") != "collective") return;
        const Json& facts = event.at("args");
        const bool tells = std::ranges::count(all_to_all, facts.at("collective").get<std::string>()) > 0 &&
                           facts.at("count") > 0 && facts.at("status") == "success";
        if (!tells) return;
        Had& had = had_[{file.communicator, facts.at("number").get<std::uint64_t>()}][clock];
        had.last_begun = std::max(had.last_begun, began);
        had.first_ended = std::min(had.first_ended, began + ns_of(event.at("dur")));
    }

    std::string words() const {
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

    std::vector<RankFile> files_;
    std::vector<std::string> clocks_, hosts_;
    std::map<std::pair<std::string, std::uint64_t>, std::map<std::size_t, Had>> had_;
    std::vector<std::optional<Correction>> corrections_;
    std::vector<Nanoseconds> first_;        // by clock, as it shows it
    Nanoseconds first_of_all_ = INT64_MAX;  // by the first clock
    bool is_first_ = true;
};

}  // namespace

JoinedTrace join_traces(const std::string& folder, const std::string& file) {
    std::vector<RankFile> files = files_in(folder);
    if (files.empty())
        throw std::runtime_error(fmt::format(
            "there are no traces in {}; the ranks need HOCKET_TRACE={} when they join", folder, folder));
    Joining joining(std::move(files));
    joining.compare_clocks();
    const std::string unfinished = file + ".new";
    std::ofstream out(unfinished);
    const JoinedTrace joined = joining.write(out);
    out.close();
    if (!out || std::rename(unfinished.c_str(), file.c_str()) != 0) {
        std::remove(unfinished.c_str());
        throw std::runtime_error(
            fmt::format("the trace {} cannot be written: {}", file, std::strerror(errno)));
    }
    return joined;
}

}  // namespace hocket::tools
