#include "tools/picture.hpp"

#include <cmath>

namespace hocket::tools {

std::string escaped_text(const std::string& text) {
    std::string safe;
    for (const char c : text)
        safe += c == '<'   ? "&lt;"
                : c == '>' ? "&gt;"
                : c == '&' ? "&amp;"
                : c == '"' ? "&quot;"
                           : std::string(1, c);
    return safe;
}

double axis_step(double seconds) {
    if (!(seconds > 0)) return 1;
    double step = std::pow(10.0, std::floor(std::log10(seconds / most_marks_of_axis)));
    for (const double factor : {2.0, 2.5, 2.0})
        if (seconds / step > most_marks_of_axis) step *= factor;
    return step;
}

}  // namespace hocket::tools
