// The times of schedules over their sizes, as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "dsl/base/quantities.hpp"
#include "tools/picture.hpp"
#include "tools/schedc/sweep.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;

constexpr double plot_left = 80, plot_width = 760, plot_top = 34, plot_height = 460,
                 plot_bottom = 54;  // pixels
constexpr double legend = plot_left + plot_width + 20, legend_width = 240, legend_row = 18;
constexpr double letter = 6.5;  // about as wide as one is
constexpr std::size_t most_marks = 12;
// Of middle brightness, so that they show on light and on dark; told apart by those who see few colours, too.
constexpr std::array curve_colours = {"#3b82d0", "#d9730d", "#2a9d6f", "#c2508f",
                                      "#8a6fd1", "#b08d00", "#7d8590"};
constexpr std::array dashes = {"none", "7 4", "2 3"};  // for more curves than colours

struct Curve {
    std::string name;
    std::vector<std::pair<double, const SweptPoint*>> points;  // by x
};

// A logarithmic axis.
struct Axis {
    double from, to;       // values
    double begin, pixels;  // negative: upwards

    double at(double value) const {
        return begin + (to > from ? pixels * std::log(value / from) / std::log(to / from) : pixels / 2);
    }
};

template <typename Value>
std::set<Value> values_of(const SweptTable& table, Value SweptPoint::*member) {
    std::set<Value> values;
    for (const auto& row : table.rows)
        for (const auto& point : row)
            if (point) values.insert((*point).*member);
    return values;
}

// Times of 0 have no place on the axis.
std::vector<Curve> curves_of(const SweptTable& table, bool over_ranks) {
    const bool by_ranks = !over_ranks && values_of(table, &SweptPoint::ranks).size() > 1;
    std::map<std::pair<std::size_t, Rank>, Curve> curves;
    for (const auto& row : table.rows)
        for (std::size_t i = 0; i < row.size(); ++i) {
            if (!row[i] || !(row[i]->seconds > 0)) continue;
            Curve& curve = curves[{i, by_ranks ? row[i]->ranks : 0}];
            curve.name = table.schedules[i].empty() ? "the choice" : table.schedules[i];
            if (by_ranks) curve.name += fmt::format(", {} ranks", row[i]->ranks);
            curve.points.emplace_back(over_ranks ? double(row[i]->ranks) : row[i]->bytes, &*row[i]);
        }
    std::vector<Curve> sorted;
    for (auto& [key, curve] : curves) sorted.push_back(std::move(curve));
    return sorted;
}

// Returns 1, 2 and 5 times each power of ten from the last one up to `least` to the first from `most` on.
std::vector<double> round_times(double least, double most) {
    std::vector<double> times;
    for (int power = static_cast<int>(std::floor(std::log10(least))); power < 300; ++power)
        for (const double factor : {1.0, 2.0, 5.0}) {
            const double time = factor * std::pow(10.0, power);
            if (time <= least * (1 + 1e-9)) times.clear();
            times.push_back(time);
            if (time >= most * (1 - 1e-9) && times.size() > 1) return times;
        }
    return times;
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
    return fmt::format("<line class=\"{}\" x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\"/>\n", kind,
                       x1, y1, x2, y2);
}

std::string text(double x, double y, const char* anchor, const std::string& content) {
    return fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                       escaped_text(content));
}

std::string across(const Axis& axis, const std::set<double>& values, bool over_ranks) {
    const std::size_t step = (values.size() + most_marks - 1) / most_marks;
    std::string drawn;
    std::size_t i = 0;
    for (const double value : values) {
        if (i++ % step > 0) continue;
        drawn += line(axis.at(value), plot_top, axis.at(value), plot_top + plot_height + 4, "grid");
        drawn += text(axis.at(value), plot_top + plot_height + 18, "middle",
                      over_ranks ? fmt::format("{:.0f}", value) : text_of_size(value));
    }
    return drawn + text(plot_left + plot_width / 2, plot_top + plot_height + 40, "middle",
                        over_ranks ? "ranks" : "size of the data");
}

std::string upwards(const Axis& axis, const std::vector<double>& times) {
    std::string drawn;
    const bool only_powers = times.size() > most_marks + 2;
    for (const double time : times) {
        const double digits = std::log10(time);
        if (only_powers && std::abs(digits - std::round(digits)) > 1e-9) continue;
        drawn += line(plot_left - 4, axis.at(time), plot_left + plot_width, axis.at(time), "grid");
        drawn += text(plot_left - 8, axis.at(time) + 4, "end", text_of_time(time * (1 + 1e-12)));
    }
    return drawn + text(plot_left - 8, plot_top - 12, "end", "time");
}

std::string curve(const Curve& curve, std::size_t number, const Axis& x, const Axis& y) {
    const char* const colour = curve_colours[number % curve_colours.size()];
    const char* const dash = dashes[number / curve_colours.size() % dashes.size()];
    std::string places, marks;
    for (const auto& [value, point] : curve.points) {
        const std::string place = fmt::format("{:.2f},{:.2f} ", x.at(value), y.at(point->seconds));
        places += place;
        marks += fmt::format(
            "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3\" fill=\"{}\"><title>{}: {} ranks, {}: "
            "{}</title></circle>\n",
            x.at(value), y.at(point->seconds), colour, escaped_text(point->schedule), point->ranks,
            text_of_size(point->bytes), text_of_time(point->seconds));
    }
    const auto path = [&](const std::string& points) {
        return fmt::format(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
            "stroke-dasharray=\"{}\"/>\n",
            points, colour, dash);
    };
    const double row = plot_top + 10 + legend_row * static_cast<double>(number);
    const std::size_t room = static_cast<std::size_t>((legend_width - 32) / letter);
    const std::string name = curve.name.size() > room ? curve.name.substr(0, room - 3) + "..." : curve.name;
    return path(places) + marks +
           path(fmt::format("{:.2f},{:.2f} {:.2f},{:.2f}", legend, row, legend + 24, row)) +
           text(legend + 32, row + 4, "start", name);
}

// What is the same everywhere.
std::string title(const SweptTable& table, bool over_ranks) {
    const auto topologies = values_of(table, &SweptPoint::topology);
    std::string said = topologies.size() == 1 ? "on " + *topologies.begin() : "";
    if (over_ranks)
        said += (said.empty() ? "" : ", ") + text_of_size(*values_of(table, &SweptPoint::bytes).begin());
    return fmt::format("<text x=\"{:.2f}\" y=\"18\" font-weight=\"bold\">{}</text>\n", plot_left,
                       escaped_text(said));
}

}  // namespace

std::string curves_picture(const SweptTable& table) {
    const std::set<double> sizes = values_of(table, &SweptPoint::bytes);
    const std::set<Rank> ranks = values_of(table, &SweptPoint::ranks);
    const bool over_ranks = sizes.size() == 1 && ranks.size() > 1;
    const std::vector<Curve> curves = curves_of(table, over_ranks);
    const std::set<double> values = over_ranks ? std::set<double>(ranks.begin(), ranks.end()) : sizes;
    std::set<double> times;
    for (const Curve& drawn : curves)
        for (const auto& [value, point] : drawn.points) times.insert(point->seconds);
    const std::vector<double> marks =
        times.empty() ? std::vector<double>{1e-6, 1e-5} : round_times(*times.begin(), *times.rbegin());
    const Axis x{*values.begin(), *values.rbegin(), plot_left, plot_width};
    const Axis y{marks.front(), marks.back(), plot_top + plot_height, -plot_height};
    std::string drawn = title(table, over_ranks) + across(x, values, over_ranks) + upwards(y, marks);
    for (std::size_t i = 0; i < curves.size(); ++i) drawn += curve(curves[i], i, x, y);
    const double needed = plot_top + 20 + legend_row * static_cast<double>(curves.size());
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
               "{0:.0f} "
               "{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
               "<style>.back {{ fill: white }} text {{ fill: #222 }} .grid {{ stroke: #ddd }}\n"
               "@media (prefers-color-scheme: dark) {{ .back {{ fill: #181a1f }} text {{ fill: #ddd }} .grid "
               "{{ "
               "stroke: #3a3d45 }} }}</style>\n"
               "<rect class=\"back\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n",
               legend + legend_width, std::max(plot_top + plot_height + plot_bottom, needed)) +
           drawn + "</svg>\n";
}

}  // namespace hocket::tools
