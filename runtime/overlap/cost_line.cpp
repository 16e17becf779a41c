#include "runtime/overlap/cost_line.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/overlap/median.hpp"

namespace hocket::overlap {
namespace {

constexpr std::size_t unknowns = 3;
using Numbers = std::array<double, unknowns>;  // latency, startup, per_byte

// One equation, divided by its time in seconds, so that errors are relative. So a time that is far too long
// has little weight.
struct Row {
    Numbers factors;
    double one;  // 1, or 0 if the time was 0
};

// More rows would not improve the line.
constexpr std::size_t most_rows = 1000;

// Equations scaled so that the largest factor of each unknown is 1.
struct Scaled {
    std::vector<Row> rows;
    Numbers scale{};
};

double median_seconds(std::span<const BusyTime> times) {
    std::vector<double> seconds;
    for (const BusyTime& time : times) seconds.push_back(time.seconds);
    return median(std::move(seconds));
}

Scaled scaled(std::span<const BusyTime> times) {
    constexpr double smallest = 1e-6;  // of the median: shorter times are not measured more precisely
    const double shortest = std::max(smallest * median_seconds(times), 1e-9);
    Scaled all;
    const std::size_t step = (times.size() + most_rows - 1) / most_rows;
    for (std::size_t i = 0; i < times.size(); i += step) {
        const BusyTime& time = times[i];
        const double seconds = std::max(time.seconds, shortest);
        all.rows.push_back({{1 / seconds, static_cast<double>(time.communications - 1) / seconds,
                             static_cast<double>(time.bytes) / seconds},
                            time.seconds / seconds});
    }
    for (const Row& row : all.rows)
        for (std::size_t u = 0; u < unknowns; ++u) all.scale[u] = std::max(all.scale[u], row.factors[u]);
    for (Row& row : all.rows)
        for (std::size_t u = 0; u < unknowns; ++u)
            if (all.scale[u] > 0) row.factors[u] /= all.scale[u];
    return all;
}

double error_of(const Row& row, const Numbers& numbers) {
    double share = 0;
    for (std::size_t u = 0; u < unknowns; ++u) share += row.factors[u] * numbers[u];
    return std::abs(row.one - share);
}

double error_of(const std::vector<Row>& rows, const Numbers& numbers) {
    double error = 0;
    for (const Row& row : rows) error += error_of(row, numbers);
    return error;
}

// Returns the weighted least squares for some of the unknowns; the others are 0. Returns nothing if the rows
// do not determine them.
std::optional<Numbers> least_squares(const std::vector<Row>& rows, const std::vector<double>& weights,
                                     const std::vector<std::size_t>& used) {
    const std::size_t n = used.size();
    std::array<std::array<double, unknowns + 1>, unknowns> m{};
    for (std::size_t i = 0; i < rows.size(); ++i)
        for (std::size_t a = 0; a < n; ++a) {
            const double factor = weights[i] * rows[i].factors[used[a]];
            for (std::size_t b = 0; b < n; ++b) m[a][b] += factor * rows[i].factors[used[b]];
            m[a][n] += factor * rows[i].one;
        }
    constexpr double smallest_pivot = 1e-9;  // of the largest one
    double largest = 0;
    for (std::size_t a = 0; a < n; ++a) largest = std::max(largest, m[a][a]);
    for (std::size_t a = 0; a < n; ++a) {
        if (!(m[a][a] > smallest_pivot * largest)) return std::nullopt;
        for (std::size_t b = 0; b < n; ++b) {
            if (b == a) continue;
            const double times = m[b][a] / m[a][a];
            for (std::size_t c = a; c <= n; ++c) m[b][c] -= times * m[a][c];
        }
    }
    Numbers numbers{};
    for (std::size_t a = 0; a < n; ++a) numbers[used[a]] = m[a][n] / m[a][a];
    return numbers;
}

// Returns the least sum of absolute errors, computed by repeated least squares in which a row's weight falls
// with its last error.
std::optional<Numbers> least_errors(const std::vector<Row>& rows, const std::vector<std::size_t>& used) {
    constexpr int rounds = 40;
    constexpr double smallest_error = 1e-6;
    std::vector<double> weights(rows.size(), 1.0);
    std::optional<Numbers> best;
    double least = 0;
    for (int round = 0; round < rounds; ++round) {
        const auto numbers = least_squares(rows, weights, used);
        if (!numbers) return best;
        const bool is_possible =
            std::all_of(numbers->begin(), numbers->end(), [](double x) { return x >= 0; });
        const double error = error_of(rows, *numbers);
        if (is_possible && (!best || error < least)) {
            best = numbers;
            least = error;
        }
        for (std::size_t i = 0; i < rows.size(); ++i)
            weights[i] = 1 / std::max(error_of(rows[i], *numbers), smallest_error);
    }
    return best;
}

}  // namespace

CostLine fit_cost_line(std::span<const BusyTime> times) {
    if (times.empty()) return {};
    const Scaled all = scaled(times);
    Numbers best{};
    double least = error_of(all.rows, best);
    // Tries the cost of bytes alone first: another unknown is used only if it reduces the error clearly.
    constexpr double clearly = 0.999;
    const double rounding = 1e-9 * least;
    for (const std::vector<std::size_t>& used :
         std::initializer_list<std::vector<std::size_t>>{{2}, {0}, {1}, {0, 2}, {1, 2}, {0, 1}, {0, 1, 2}}) {
        const auto numbers = least_errors(all.rows, used);
        if (!numbers) continue;
        const double error = error_of(all.rows, *numbers);
        if (error < clearly * least - rounding) {
            best = *numbers;
            least = error;
        }
    }
    for (std::size_t u = 0; u < unknowns; ++u)
        if (all.scale[u] > 0) best[u] /= all.scale[u];
    return {best[0], best[1], best[2]};
}

}  // namespace hocket::overlap
