#include "dsl/base/closest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace hocket::dsl {

// Row i has the distances of a's first i characters to each beginning of b.
std::size_t changes_between(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        before = last;
        last = row;
    }
    return last[b.size()];
}

std::string did_you_mean(std::string_view text, const std::vector<std::string>& names) {
    if (text.size() == 1) return "";
    std::size_t least = std::max<std::size_t>(1, text.size() / 3) + 1;
    std::string_view closest;
    for (const std::string& name : names)
        if (const std::size_t changes = changes_between(text, name); changes < least) {
            least = changes;
            closest = name;
        }
    return closest.empty() ? "" : fmt::format(" (did you mean '{}'?)", closest);
}

}  // namespace hocket::dsl
