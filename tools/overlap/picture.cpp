// Draws plans, like Fig. 4 of the iBatch paper.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/overlap/report.hpp"
#include "tools/picture.hpp"

namespace hocket::overlap_tool {
namespace {

using overlap::BatchTimes;

constexpr double left = 110, width = 1000, right = 20;         // of the rows, and the margins
constexpr double title_height = 24, row_height = 26, gap = 6;  // of a plan
constexpr double plan_height = title_height + 2 * row_height + gap + 18;
constexpr double top = 30, axis_height = 34;
constexpr double narrowest_number = 9;  // for each digit, in pixels: a narrower box has no number

class Picture {
  public:
    Picture(const overlap::Profile& profile, double seconds)
        : profile_(profile), scale_(seconds > 0 ? width / seconds : 0) {}

    void text(double x, double y, const std::string& text, const char* more = "") {
        drawn_ += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\"{}>{}</text>\n", x, y, more,
                              tools::escaped_text(text));
    }

    // tip: shown when the mouse points at the box.
    void box(double from, double to, double y, const char* kind, const std::string& number,
             const std::string& tip) {
        const double x = left + scale_ * from, wide = scale_ * (to - from);
        drawn_ += fmt::format(
            "<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"><title>{}: "
            "{:.6g} s</title></rect>\n",
            kind, x, y, wide, row_height, tools::escaped_text(tip), to - from);
        if (wide >= narrowest_number * static_cast<double>(number.size()) && !number.empty())
            text(x + wide / 2, y + row_height / 2 + 4, number, " text-anchor=\"middle\"");
    }

    // Draws the batch's layers one after another, from `at` on, each as long as `time`.
    void layers(const BatchTimes& batch, bool is_backward, double at, double y, const char* kind,
                double overlap::Layer::*time) {
        for (std::size_t i = batch.begin; i < batch.end; ++i) {
            const std::size_t layer = is_backward ? batch.end - 1 - (i - batch.begin) : i;
            const double after = at + profile_.layers[layer].*time;
            box(at, after, y, kind, fmt::format("{}", layer + 1), profile_.layers[layer].name);
            at = after;
        }
    }

    void axis(double y) {
        drawn_ += fmt::format("<line x1=\"{0:.2f}\" y1=\"{1:.2f}\" x2=\"{2:.2f}\" y2=\"{1:.2f}\"/>\n", left,
                              y, left + width);
        const double step = tools::axis_step(scale_ > 0 ? width / scale_ : 0);
        for (int mark = 0; scale_ * step * mark <= width; ++mark) {
            const double x = left + scale_ * step * mark;
            drawn_ += fmt::format("<line x1=\"{0:.2f}\" y1=\"{1:.2f}\" x2=\"{0:.2f}\" y2=\"{2:.2f}\"/>\n", x,
                                  y, y + 4);
            text(x, y + 18, fmt::format("{:.6g}{}", step * mark, mark == 0 ? " s" : ""),
                 " text-anchor=\"middle\"");
            if (scale_ == 0) break;
        }
    }

    std::string done(double height) const {
        return fmt::format(
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
                   "viewBox=\"0 0 "
                   "{0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
                   "<style>rect {{ stroke: #333; stroke-width: 0.5 }} line {{ stroke: #333 }} .startup {{ "
                   "fill: "
                   "#555 }} .transfer {{ fill: #9ecae1 }} .compute {{ fill: #fdae6b }}</style>\n"
                   "<rect x=\"0\" y=\"0\" width=\"{0:.0f}\" height=\"{1:.0f}\" style=\"fill: white; stroke: "
                   "none\"/>\n",
                   left + width + right, height) +
               drawn_ + "</svg>\n";
    }

  private:
    const overlap::Profile& profile_;
    double scale_;  // pixels per second
    std::string drawn_;
};

void draw_key(Picture& picture, double unit) {
    double x = 0;  // in pixels: where all times are 0, a pixel stands for no time
    for (const auto& [kind, what] :
         {std::pair{"startup", "start-up"}, {"transfer", "transfer"}, {"compute", "computation"}}) {
        picture.box(x * unit, (x + 20) * unit, 2, kind, "", what);
        picture.text(left + x + 26, 19, what);
        x += 130;
    }
}

void draw_plan(Picture& picture, const Planned& planned, bool is_backward, double y,
               const std::string& names) {
    const auto& [plan, timeline] = planned;
    picture.text(left, y + 16,
                 fmt::format("{}: {:.4g} s, batches: {}, overlap {:.1f} %", names, plan.seconds,
                             plan.batches.size(), 100 * timeline.share_of_overlap()),
                 " font-weight=\"bold\"");
    const double link = y + title_height, processor = link + row_height + gap;
    picture.text(4, link + 17, "communication");
    picture.text(4, processor + 17, "computation");
    for (const BatchTimes& batch : timeline.batches) {
        picture.box(batch.startup_begin, batch.transfer_begin, link, "startup", "",
                    fmt::format("start-up of layers {} to {}", batch.begin + 1, batch.end));
        picture.layers(batch, is_backward, batch.transfer_begin, link, "transfer", &overlap::Layer::transfer);
        picture.layers(batch, is_backward, batch.compute_begin, processor, "compute",
                       &overlap::Layer::compute);
    }
}

}  // namespace

std::string picture_text(const overlap::Profile& profile, overlap::Direction direction,
                         const std::vector<Planned>& plans) {
    double longest = 0;
    for (const Planned& planned : plans) longest = std::max(longest, planned.timeline.seconds);
    Picture picture(profile, longest);
    draw_key(picture, longest / width);
    double y = top;
    for (std::size_t i = 0; i < plans.size(); ++i) {
        // Methods that make the same batches share a plot.
        const auto same = [&](const Planned& other) { return other.plan.batches == plans[i].plan.batches; };
        const auto begin = plans.begin(), here = begin + static_cast<std::ptrdiff_t>(i);
        if (std::any_of(begin, here, same)) continue;
        std::string names;
        for (const Planned& other : plans)
            if (same(other))
                names += (names.empty() ? "" : ", ") + std::string(overlap::name_of(other.plan.method));
        draw_plan(picture, plans[i], direction == overlap::Direction::backward, y, names);
        y += plan_height;
    }
    picture.axis(y);
    return picture.done(y + axis_height);
}

}  // namespace hocket::overlap_tool
