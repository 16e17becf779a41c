#include "dsl/base/runs.hpp"

#include <fmt/format.h>

namespace hocket::dsl {

std::vector<std::string> runs_of(const std::vector<Rank>& numbers) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t last = i;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        if (last < i + 2) last = i;
        texts.push_back(last > i ? fmt::format("{} to {}", numbers[i], numbers[last])
                                 : std::to_string(numbers[i]));
        i = last + 1;
    }
    return texts;
}

}  // namespace hocket::dsl
