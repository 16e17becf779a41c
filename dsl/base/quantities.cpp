#include "dsl/base/quantities.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

namespace hocket::dsl {
namespace {

constexpr std::string_view prefixes = "kMGTPE";
constexpr const char* rate_hint = "a rate is like 10Gb/s (bits) or 1.5GB/s (bytes), with k, M, G or T";
constexpr const char* time_hint = "a time is like 5us: a number, and ns, us, ms or s";
constexpr const char* size_hint = "a size is like 4096, 64K, 1.5M or 8GiB, in bytes";
constexpr double most_bytes = 0x1p62;

// A number and what follows it.
struct Measure {
    double number = 0;
    std::string_view unit;
    std::size_t unit_at = 0;
};

Measure measure_of(std::string_view text, const char* what, const char* hint) {
    Measure measure;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), measure.number);
    if (error == std::errc::invalid_argument || std::isnan(measure.number))
        throw QuantityError(text.empty() ? fmt::format("the {} is missing", what)
                                         : fmt::format("a {} begins with a number: '{}'", what, text),
                            0, hint);
    if (error != std::errc() || std::isinf(measure.number))
        throw QuantityError(fmt::format("this {} is out of range: '{}'", what, text), 0, hint);
    measure.unit_at = static_cast<std::size_t>(end - text.data());
    measure.unit = text.substr(measure.unit_at);
    return measure;
}

[[noreturn]] void refuse_unit(std::string_view text, const Measure& measure, const char* what,
                              const std::string& hint) {
    if (measure.unit.empty())
        throw QuantityError(fmt::format("the {} {} has no unit", what, text), measure.unit_at, hint);
    throw QuantityError(fmt::format("a {} has no unit '{}'", what, measure.unit), measure.unit_at, hint);
}

std::string lowered(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    return result;
}

// Returns the prefix of "Gb/s" as a power of 1000; -1 if this is no unit of rates. K is k, as many write it.
int power_of_rate(std::string_view unit) {
    if (unit == "b/s" || unit == "B/s") return 0;
    if (unit.empty() || (unit.substr(1) != "b/s" && unit.substr(1) != "B/s")) return -1;
    if (unit[0] == 'K') return 1;
    const std::size_t at = prefixes.substr(0, 4).find(unit[0]);
    return at == std::string_view::npos ? -1 : static_cast<int>(at + 1);
}

// Says how a unit in the wrong case is written.
std::string rate_hint_for(std::string_view text, const Measure& measure) {
    const std::string unit = lowered(measure.unit);
    for (const char* known : {"b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"})
        if (std::string bits = known; lowered(bits) == unit) {
            std::string bytes = bits;
            bytes[bytes.size() - 3] = 'B';
            const std::string_view number = text.substr(0, measure.unit_at);
            return fmt::format("write {}{} for bits, or {}{} for bytes", number, bits, number, bytes);
        }
    return rate_hint;
}

// The factor of "K", "KB", "KiB", "Ki" and so on, in any case; 0: no unit of sizes.
double factor_of_size(std::string_view unit) {
    const std::string lower = lowered(unit);
    if (lower.empty() || lower == "b") return 1;
    const std::size_t at = lowered(prefixes).find(lower[0]);
    const std::string rest = lower.substr(1);
    if (at == std::string::npos || (!rest.empty() && rest != "b" && rest != "i" && rest != "ib")) return 0;
    return std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(at + 1));
}

}  // namespace

double parse_rate(std::string_view text) {
    const Measure measure = measure_of(text, "rate", rate_hint);
    const int power = power_of_rate(measure.unit);
    if (power < 0) refuse_unit(text, measure, "rate", rate_hint_for(text, measure));
    const double rate =
        measure.number * std::pow(1000, power) / (measure.unit[measure.unit.size() - 3] == 'b' ? 8 : 1);
    if (!(rate > 0) || std::isinf(rate))
        throw QuantityError(fmt::format("a rate must be more than 0, and finite: '{}'", text), 0, rate_hint);
    return rate;
}

double parse_time(std::string_view text) {
    const Measure measure = measure_of(text, "time", time_hint);
    const double unit = measure.unit == "ns"   ? 1e-9
                        : measure.unit == "us" ? 1e-6
                        : measure.unit == "ms" ? 1e-3
                        : measure.unit == "s"  ? 1
                                               : 0;
    if (unit == 0) refuse_unit(text, measure, "time", time_hint);
    if (measure.number < 0)
        throw QuantityError(fmt::format("a time must be 0 or more: '{}'", text), 0, time_hint);
    return measure.number * unit;
}

std::uint64_t parse_size(std::string_view text) {
    Measure measure = measure_of(text, "size", size_hint);
    while (measure.unit.starts_with(' ')) measure.unit.remove_prefix(1), ++measure.unit_at;
    const double factor = factor_of_size(measure.unit);
    if (factor == 0) refuse_unit(text, measure, "size", size_hint);
    if (std::signbit(measure.number))
        throw QuantityError(fmt::format("a size must be 0 or more: '{}'", text), 0, size_hint);
    const double bytes = measure.number * factor;
    if (bytes > most_bytes)
        throw QuantityError(fmt::format("a size is at most 2^62 bytes: '{}'", text), 0, size_hint);
    if (bytes != std::floor(bytes))
        throw QuantityError(fmt::format("a size is a whole number of bytes, and '{}' makes {}", text, bytes),
                            0, size_hint);
    // A double holds only the numbers up to 2^53.
    std::uint64_t whole = 0;
    const bool is_exact =
        std::from_chars(text.data(), text.data() + text.size(), whole).ptr == text.data() + text.size();
    return is_exact ? whole : static_cast<std::uint64_t>(bytes);
}

std::string text_of_size(double bytes) {
    for (const char* unit : {"B", "KiB", "MiB"}) {
        if (bytes < 1024) return fmt::format("{} {}", std::round(bytes * 10) / 10, unit);
        bytes /= 1024;
    }
    return fmt::format("{} GiB", std::round(bytes * 10) / 10);
}

std::string text_of_time(double seconds) {
    for (const auto& [unit, name] : {std::pair(1.0, "s"), {1e-3, "ms"}})
        if (seconds >= unit) return fmt::format("{:.4g} {}", seconds / unit, name);
    return fmt::format("{:.4g} us", seconds * 1e6);
}

}  // namespace hocket::dsl
