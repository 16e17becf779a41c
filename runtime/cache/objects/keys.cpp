#include "runtime/cache/objects/keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/whole_number.hpp"
#include "runtime/cache/objects/xml_elements.hpp"

namespace hocket::cache {
namespace {

// They become lines of requests.
bool is_printable(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

Keys checked(Keys keys, const std::string& time) {
    if (keys.id.empty() || keys.secret.empty()) throw Error(Status::io, "there are no keys in its answer");
    if (!is_printable(keys.id) || !is_printable(keys.secret) || !is_printable(keys.token))
        throw Error(Status::io, "its keys have characters that keys do not have");
    if (!time.empty()) {
        keys.until = parse_time(time);
        if (!keys.until) throw Error(Status::io, "the time at which its keys end is no time");
    }
    return keys;
}

// Reads the numbers of a text in this form, in which a 0 stands for each of their digits.
template <std::size_t count>
std::optional<std::array<unsigned, count>> numbers_in(std::string_view text, std::string_view form) {
    if (text.size() != form.size()) return std::nullopt;
    std::array<unsigned, count> numbers{};
    std::size_t filled = 0, begin = 0;
    for (std::size_t i = 0; i <= form.size(); ++i) {
        if (i < form.size() && form[i] == '0') continue;
        const auto number = whole_number(text.substr(begin, i - begin));
        if (!number || (i < form.size() && text[i] != form[i])) return std::nullopt;
        numbers[filled++] = static_cast<unsigned>(*number);
        begin = i + 1;
    }
    return numbers;
}

constexpr unsigned hours_of_a_day = 24, sixty = 60;

// Takes what says how far a time is ahead of UTC off its end: "Z", "+01:00", "-01:00".
std::optional<std::chrono::minutes> take_offset(std::string_view& time) {
    using namespace std::chrono;
    if (time.ends_with('Z')) {
        time.remove_suffix(1);
        return minutes(0);
    }
    constexpr std::string_view form = "00:00";
    if (time.size() <= form.size()) return std::nullopt;
    const auto parts = numbers_in<2>(time.substr(time.size() - form.size()), form);
    const char sign = time[time.size() - form.size() - 1];
    if (!parts || (sign != '+' && sign != '-')) return std::nullopt;
    const auto [hour, minute] = *parts;
    if (hour >= hours_of_a_day || minute >= sixty) return std::nullopt;
    time.remove_suffix(form.size() + 1);
    const minutes offset = hours(hour) + minutes(minute);
    return sign == '-' ? -offset : offset;
}

}  // namespace

std::string Keys::shown() const {
    constexpr std::size_t shown_of_id = 4;
    // The end of a short id would be most of it.
    const std::string end =
        id.size() >= 4 * shown_of_id ? " (..." + id.substr(id.size() - shown_of_id) + ")" : "";
    return fmt::format("the keys of {}{}", origin, end);
}

Keys parse_keys_json(std::string_view text) {
    const auto answer = nlohmann::json::parse(text, nullptr, false);
    if (!answer.is_object()) throw Error(Status::io, "its answer is no object of JSON");
    const auto value = [&](const char* name) {
        const auto found = answer.find(name);
        return found != answer.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    const auto version = answer.find("Version");
    if (version != answer.end() && *version != 1)
        throw Error(Status::io, "its answer is of another version than 1");
    const std::string token = value("SessionToken");
    return checked({.id = value("AccessKeyId"),
                    .secret = value("SecretAccessKey"),
                    .token = token.empty() ? value("Token") : token,
                    .origin = ""},
                   value("Expiration"));
}

Keys parse_keys_xml(std::string_view text, std::string_view action) {
    Keys keys;
    std::string time;
    const std::string within = fmt::format("{0}Response/{0}Result/Credentials/", action);
    const std::string problem = walk_xml(text, [&](const std::string& path, const std::string& value) {
        if (path == within + "AccessKeyId") keys.id = value;
        if (path == within + "SecretAccessKey") keys.secret = value;
        if (path == within + "SessionToken") keys.token = value;
        if (path == within + "Expiration") time = value;
    });
    if (!problem.empty()) throw Error(Status::io, "its answer is no XML: " + problem);
    return checked(std::move(keys), time);
}

std::optional<Keys::Clock::time_point> parse_time(std::string_view text) {
    using namespace std::chrono;
    constexpr std::string_view form = "0000-00-00T00:00:00";
    const auto offset = take_offset(text);
    const auto parts = numbers_in<6>(text.substr(0, form.size()), form);
    if (!offset || !parts) return std::nullopt;
    const std::string_view fraction = text.substr(form.size());
    if (!fraction.empty() && (fraction.front() != '.' || !whole_number(fraction.substr(1))))
        return std::nullopt;
    const auto [years, months, days, hour, minute, second] = *parts;
    const year_month_day date{year(static_cast<int>(years)), month(months), day(days)};
    if (!date.ok() || hour >= hours_of_a_day || minute >= sixty || second > sixty) return std::nullopt;
    // A clock of nanoseconds reaches from 1677 to 2262; what ended before 1970 has ended just as well then.
    const sys_seconds time = sys_days(date) + hours(hour) + minutes(minute) + seconds(second) - *offset;
    return std::clamp(time, sys_seconds(), floor<seconds>(Keys::Clock::time_point::max()));
}

}  // namespace hocket::cache
