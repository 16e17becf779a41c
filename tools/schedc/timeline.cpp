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

constexpr double left = 70, width = 1000, right = 20, top = 34;  // pixels
constexpr double lane = 9, gap = 5, axis_height = 34;
constexpr std::array colours = {"#9ecae1", "#fdae6b", "#a1d99b", "#bcbddc",
                                "#fdd0a2", "#c7e9c0", "#dadaeb", "#c6dbef"};

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

std::string message_name(const StepGraph& graph, const MessageTimes& message) {
    const StepOrigin& origin = graph.origins[message.origin];
    return location_of(origin.transfer);
}

std::string axis(double y, double seconds, double scale) {
    std::string drawn = fmt::format("<line x1=\"{0:.2f}\" y1=\"{1:.2f}\" x2=\"{2:.2f}\" y2=\"{1:.2f}\"/>\n",
                                    left, y, left + width);
    const double step = axis_step(seconds);
    for (int mark = 0; mark <= most_marks_of_axis && step * mark <= seconds; ++mark)
        drawn += fmt::format(
            "<line x1=\"{0:.2f}\" y1=\"{1:.2f}\" x2=\"{0:.2f}\" y2=\"{2:.2f}\"/>\n"
            "<text x=\"{0:.2f}\" y=\"{3:.2f}\" text-anchor=\"middle\">{4:.6g}{5}</text>\n",
            left + scale * step * mark, y, y + 4, y + 18, step * mark * 1e6, mark == 0 ? " us" : "");
    return drawn;
}

}  // namespace

std::string timeline_picture(const PredictedSchedule& of, const StepGraph& graph,
                             const Prediction& prediction) {
    std::map<Rank, std::vector<double>> busy_until;
    const std::vector<int> lanes = lanes_of(prediction, busy_until);
    std::map<Rank, double> rows;
    double y = top;
    std::string drawn;
    for (Rank rank = 0; rank < graph.ranks; ++rank) {
        rows[rank] = y;
        drawn += fmt::format("<text x=\"4\" y=\"{:.2f}\">rank {}</text>\n", y + lane, rank);
        y += lane * static_cast<double>(std::max<std::size_t>(busy_until[rank].size(), 1)) + gap;
    }
    const double scale = prediction.seconds > 0 ? width / prediction.seconds : 0;
    std::map<std::string, std::size_t> kinds;
    for (std::size_t i = 0; i < prediction.timeline.size(); ++i) {
        const MessageTimes& message = prediction.timeline[i];
        const std::string name = message_name(graph, message);
        const std::size_t kind = kinds.try_emplace(name, kinds.size()).first->second;
        drawn += fmt::format(
            "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"><title>{}: {} to "
            "{}, "
            "{}, {:.6g} to {:.6g} us</title></rect>\n",
            left + scale * message.begin, rows[message.source] + lane * lanes[i],
            std::max(scale * (message.sent - message.begin), 0.5), lane - 1, colours[kind % colours.size()],
            escaped_text(name), message.source, message.destination, text_of_size(message.bytes),
            message.begin * 1e6, message.sent * 1e6);
    }
    drawn += axis(y, prediction.seconds, scale);
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
               "{0:.0f} "
               "{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n<style>rect {{ stroke: #333; "
               "stroke-width: "
               "0.3 }} line {{ stroke: #333 }}</style>\n"
               "<rect x=\"0\" y=\"0\" width=\"{0:.0f}\" height=\"{1:.0f}\" style=\"fill: white; stroke: "
               "none\"/>\n"
               "<text x=\"4\" y=\"18\" font-weight=\"bold\">{2}</text>\n",
               left + width + right, y + axis_height,
               escaped_text(fmt::format("{} on {}, {}: {:.6g} us", of.schedule, of.topology,
                                        text_of_size(of.bytes), prediction.seconds * 1e6))) +
           drawn + "</svg>\n";
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
        lines += fmt::format(
            "{{\"name\":{},\"cat\":\"message\",\"ph\":\"X\",\"ts\":{:.3f},\"dur\":{:.3f},\"pid\":{},\"tid\":{"
            "},\"args\":"
            "{{\"to\":{},\"bytes\":{:.0f},\"phase\":{},\"arrived\":{:.3f}}}}},\n",
            quoted(message_name(graph, message)), message.begin * 1e6, (message.sent - message.begin) * 1e6,
            message.source + 1, lanes[i] + 1, message.destination, message.bytes, message.phase,
            message.arrived * 1e6);
    }
    return lines + "{}]\n";
}

}  // namespace hocket::tools
