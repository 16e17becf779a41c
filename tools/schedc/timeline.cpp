// The messages of a prediction over time, as a picture and as a trace.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "dsl/base/quantities.hpp"
#include "tools/picture.hpp"
#include "tools/schedc/predict.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;
using Json = nlohmann::ordered_json;

constexpr double left = 70, width = 1100, right = 20;  // pixels
constexpr double line_height = 16, axis_height = 30;
// Told apart by those who see few colours, too, and none of them red, which is the critical path's.
constexpr std::array colours = {"#4e79a7", "#f0b24a", "#59a14f", "#9c755f",
                                "#76b7b2", "#b07aa1", "#8c8c8c", "#c7d36f"};
constexpr const char* critical_colour = "#d0021b";
constexpr std::size_t most_legend = 12;      // lines of it
constexpr std::size_t most_connected = 400;  // messages whose way to the receiver is drawn
constexpr double least_label_distance = 11;  // of two ranks' names

// Gives each message a lane of its sender, so that messages that are under way at the same time don't cover
// each other. Returns the lane of each message, and sets the number of lanes of each rank.
std::vector<int> lanes_of(const Prediction& prediction, std::map<Rank, std::vector<double>>& busy_until) {
    std::vector<std::size_t> order(prediction.timeline.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto& messages = prediction.timeline;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return messages[a].begin < messages[b].begin; });
    std::vector<int> lanes(messages.size());
    for (const std::size_t i : order) {
        std::vector<double>& ends = busy_until[messages[i].source];
        const auto open = std::find_if(ends.begin(), ends.end(),
                                       [&](double end) { return end <= messages[i].begin * (1 + 1e-9); });
        lanes[i] = static_cast<int>(open - ends.begin());
        if (open == ends.end())
            ends.push_back(messages[i].sent);
        else
            *open = messages[i].sent;
    }
    return lanes;
}

// A rank fetches from the memory of several others, or calculates.
bool is_in_memory(const MessageTimes& message) {
    return message.source == message.destination;
}

const char* kind_of(const MessageTimes& message) {
    if (!is_in_memory(message)) return "message";
    return message.fetched_from > 0 ? "fetch" : "calculation";
}

std::string counted(std::ptrdiff_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string message_name(const StepGraph& graph, const MessageTimes& message) {
    return location_of(graph.origins[message.origin].transfer);
}

// One picture: for each rank a strip with what arrives, and lanes with what it sends.
class TimelinePicture {
  public:
    TimelinePicture(const PredictedSchedule& of, const StepGraph& graph, const Prediction& prediction)
        : of_(of), graph_(graph), prediction_(prediction), lanes_(lanes_of(prediction, busy_until_)) {
        scale_ = prediction.seconds > 0 ? width / prediction.seconds : 0;
        lane_ = graph.ranks <= 16 ? 11 : graph.ranks <= 64 ? 7 : 4;
        strip_ = graph.ranks <= 16 ? 6 : graph.ranks <= 64 ? 4 : 2;
        for (const MessageTimes& message : prediction.timeline)
            kinds_.try_emplace(message_name(graph, message), kinds_.size());
    }

    std::string text() {
        std::string drawn = legend();
        const double top = y_ += axis_height;
        place_ranks();
        drawn += grid(top) + names();
        if (prediction_.timeline.size() <= most_connected)
            for (const MessageTimes& message : prediction_.timeline) drawn += way(message, "w");
        for (std::size_t i = 0; i < prediction_.timeline.size(); ++i) drawn += sent(i) + arrived(i);
        for (const MessageId id : prediction_.critical) drawn += critical(id);
        return header() + drawn + "</svg>\n";
    }

  private:
    double x_of(double seconds) const { return left + scale_ * seconds; }
    double lanes_top(Rank rank) const { return rows_[static_cast<std::size_t>(rank)] + strip_; }
    // Many lanes of one rank are thinner, so that the picture does not grow without an end.
    double lane_height(Rank rank) const {
        const auto found = busy_until_.find(rank);
        const double lanes = found == busy_until_.end() ? 1 : static_cast<double>(found->second.size());
        return lane_ * std::min(1.0, most_lanes / lanes);
    }
    double y_of(std::size_t i) const {
        const Rank source = prediction_.timeline[i].source;
        return lanes_top(source) + lane_height(source) * lanes_[i];
    }
    const char* colour_of(const std::string& name) const { return colours[kinds_.at(name) % colours.size()]; }

    void place_ranks() {
        for (Rank rank = 0; rank < graph_.ranks; ++rank) {
            rows_.push_back(y_);
            const auto found = busy_until_.find(rank);
            const double lanes = found == busy_until_.end()
                                     ? 1
                                     : std::min(most_lanes, static_cast<double>(found->second.size()));
            y_ += strip_ + lane_ * lanes + std::max(lane_ / 2, 1.0);
        }
    }

    std::string header() const {
        return fmt::format(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
            "{0:.0f} "
            "{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n<style>.m {{ stroke: #333; "
            "stroke-width: {2} }} "
            ".g {{ stroke: #ddd }} .w {{ stroke: #bbb; stroke-width: 0.6 }} .c {{ stroke: {3}; stroke-width: "
            "1.4; "
            "fill: none }}</style>\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n"
            "<text x=\"4\" y=\"18\" font-weight=\"bold\" font-size=\"13\">{4}</text>\n",
            left + width + right, y_ + axis_height, lane_ >= 7 ? 0.3 : 0, critical_colour,
            escaped_text(fmt::format("{} on {}, {}: {}", of_.schedule, of_.topology, text_of_size(of_.bytes),
                                     text_of_time(prediction_.seconds))));
    }

    std::string legend_line(const std::string& symbol, const std::string& words) {
        y_ += line_height;
        return fmt::format(
            "<g transform=\"translate(8 {:.2f})\">{}</g><text x=\"40\" y=\"{:.2f}\">{}</text>\n", y_ - 9,
            symbol, y_, escaped_text(words));
    }

    // The source lines by their colours, and the other marks.
    std::string legend() {
        std::vector<std::pair<std::string, Span>> lines(kinds_.size());
        for (const MessageTimes& message : prediction_.timeline) {
            const Span transfer = graph_.origins[message.origin].transfer;
            lines[kinds_.at(location_of(transfer))] = {location_of(transfer), transfer};
        }
        y_ = 24;
        std::string drawn;
        for (std::size_t i = 0; i < std::min(lines.size(), most_legend); ++i)
            drawn += legend_line(
                fmt::format("<rect width=\"24\" height=\"9\" fill=\"{}\"/>", colour_of(lines[i].first)),
                fmt::format("{}  {}", lines[i].first, folded_text(lines[i].second)).substr(0, 120));
        if (lines.size() > most_legend)
            drawn += legend_line(
                "", fmt::format("and {} more source lines, in the same colours", lines.size() - most_legend));
        drawn +=
            legend_line("<line x1=\"12\" y1=\"0\" x2=\"12\" y2=\"9\" stroke=\"#333\" stroke-width=\"1.5\"/>",
                        "arrives, in the receiver's row");
        const auto in_memory = std::ranges::count_if(
            prediction_.critical, [&](MessageId id) { return is_in_memory(prediction_.timeline[id]); });
        const auto messages = static_cast<std::ptrdiff_t>(prediction_.critical.size()) - in_memory;
        std::string path = "critical path: ";
        if (messages > 0 || in_memory == 0)
            path += counted(messages, "message") + ", each from its sender's row to its receiver's";
        if (in_memory > 0)
            path += fmt::format("{}{} in a rank's memory", messages > 0 ? "; " : "", in_memory);
        drawn += legend_line("<line x1=\"0\" y1=\"5\" x2=\"24\" y2=\"5\" class=\"c\"/>", path);
        return drawn;
    }

    std::string grid(double top) const {
        std::string drawn;
        const double step = axis_step(prediction_.seconds);
        for (int mark = 0; mark <= most_marks_of_axis && step * mark <= prediction_.seconds; ++mark) {
            const std::string time = text_of_time(step * mark * (1 + 1e-12));
            drawn += fmt::format(
                "<line x1=\"{0:.2f}\" y1=\"{1:.2f}\" x2=\"{0:.2f}\" y2=\"{2:.2f}\" class=\"g\"/>\n",
                x_of(step * mark), top - 4, y_ + 4);
            for (const double at : {top - 8, y_ + 16})
                drawn += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"middle\">{}</text>\n",
                                     x_of(step * mark), at, time);
        }
        return drawn;
    }

    std::string names() const {
        std::string drawn;
        double last = -least_label_distance;
        for (Rank rank = 0; rank < graph_.ranks; ++rank) {
            const double at = lanes_top(rank) + lane_ / 2 + 4;
            if (at - last < least_label_distance) continue;
            drawn += fmt::format("<text x=\"4\" y=\"{:.2f}\">rank {}</text>\n", at, rank);
            last = at;
        }
        return drawn;
    }

    std::string sent(std::size_t i) const {
        const MessageTimes& message = prediction_.timeline[i];
        const std::string name = message_name(graph_, message);
        const double height = lane_height(message.source);
        const std::string ends =
            !is_in_memory(message)     ? fmt::format("{} to {}", message.source, message.destination)
            : message.fetched_from > 0 ? fmt::format("{} fetches from {}", message.destination,
                                                     counted(message.fetched_from, "rank"))
                                       : fmt::format("{} calculates", message.destination);
        const std::string arrival =
            is_in_memory(message) ? "" : fmt::format(", arrives at {:.6g} us", message.arrived * 1e6);
        return fmt::format(
            "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" "
            "class=\"m\"><title>{}: {}, {}, {:.6g} to {:.6g} us{}</title></rect>\n",
            x_of(message.begin), y_of(i), std::max(scale_ * (message.sent - message.begin), 0.5),
            height > 3 ? height - 1 : height, colour_of(name), escaped_text(name), ends,
            text_of_size(message.bytes), message.begin * 1e6, message.sent * 1e6, arrival);
    }

    std::string arrived(std::size_t i) const {
        const MessageTimes& message = prediction_.timeline[i];
        if (is_in_memory(message)) return "";
        return fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"1.5\" height=\"{:.2f}\" fill=\"{}\"/>\n",
                           x_of(message.arrived) - 0.75, rows_[static_cast<std::size_t>(message.destination)],
                           strip_, colour_of(message_name(graph_, message)));
    }

    // From the message's last byte to its arrival.
    std::string way(const MessageTimes& message, const char* kind) const {
        if (is_in_memory(message)) return "";
        const auto i = static_cast<std::size_t>(&message - prediction_.timeline.data());
        return fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" class=\"{}\"/>\n",
                           x_of(message.sent), y_of(i) + lane_height(message.source) / 2,
                           x_of(message.arrived),
                           rows_[static_cast<std::size_t>(message.destination)] + strip_ / 2, kind);
    }

    std::string critical(MessageId id) const {
        const MessageTimes& message = prediction_.timeline[id];
        const double middle = y_of(id) + lane_height(message.source) / 2;
        return fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" class=\"c\"/>\n",
                           x_of(message.begin), middle, x_of(message.sent), middle) +
               way(message, "c");
    }

    static constexpr double most_lanes = 6;  // of full height, for one rank

    const PredictedSchedule& of_;
    const StepGraph& graph_;
    const Prediction& prediction_;
    std::map<Rank, std::vector<double>> busy_until_;
    std::vector<int> lanes_;                    // by message
    std::map<std::string, std::size_t> kinds_;  // source lines, by name
    std::vector<double> rows_;                  // by rank
    double scale_ = 0, lane_ = 0, strip_ = 0, y_ = 0;
};

}  // namespace

std::string timeline_picture(const PredictedSchedule& of, const StepGraph& graph,
                             const Prediction& prediction) {
    return TimelinePicture(of, graph, prediction).text();
}

std::string timeline_trace(const StepGraph& graph, const Prediction& prediction) {
    const auto quoted = [](const std::string& text) {
        return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
    };
    std::map<Rank, std::vector<double>> busy_until;
    const std::vector<int> lanes = lanes_of(prediction, busy_until);
    std::string lines = "[\n";
    // 0 is the kernel's idle process to Perfetto.
    for (Rank rank = 0; rank < graph.ranks; ++rank)
        lines += fmt::format(
            "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{0},\"tid\":1,\"args\":{{\"name\":\"rank "
            "{1}\"}}}},\n"
            "{{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":{0},\"tid\":1,\"args\":{{\"sort_index\":{"
            "1}}}}},\n",
            rank + 1, rank);
    for (std::size_t i = 0; i < prediction.timeline.size(); ++i) {
        const MessageTimes& message = prediction.timeline[i];
        const std::string arrival =
            is_in_memory(message)
                ? ""
                : fmt::format("\"to\":{},\"arrived\":{:.3f},", message.destination, message.arrived * 1e6);
        lines += fmt::format(
            "{{\"name\":{},\"cat\":\"{}\",\"ph\":\"X\",\"ts\":{:.3f},\"dur\":{:.3f},\"pid\":{},\"tid\":{},"
            "\"args\":{{{}\"bytes\":{:.0f},\"phase\":{}}}}},\n",
            quoted(message_name(graph, message)), kind_of(message), message.begin * 1e6,
            (message.sent - message.begin) * 1e6, message.source + 1, lanes[i] + 1, arrival, message.bytes,
            message.phase);
    }
    return lines + "{}]\n";
}

}  // namespace hocket::tools
