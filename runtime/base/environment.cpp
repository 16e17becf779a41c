#include "runtime/base/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "dsl/base/closest.hpp"
#include "dsl/base/quantities.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/log.hpp"

extern char** environ;

namespace hocket {
namespace {

constexpr std::string_view prefix = "HOCKET_";

// All that Hocket reads, without their prefix (tests/documents/check compares).
constexpr char variables[] =
    "CACHE_DISK CACHE_FOLDER CACHE_IO CACHE_MEMORY CACHE_SERVERS CUDA_CODE CUDA_DRIVER CUDA_IPC "
    "CUDA_KERNELS CUDA_PACKETS CUDA_PLANS CURL ENCRYPTION EXECUTOR FABRIC_ADDR FLIGHT_RECORDER "
    "FLIGHT_SIGNAL HAND_OVER HEARTBEAT_TIMEOUT_MS HOST_ID JIT_LIBRARY KERNEL_THREADS LIBFABRIC "
    "LISTEN_FD LOG PACING PARAMS_ADDRESS PARAMS_HOST PROBE PROGRESS PROVIDER PROVIDER_FOR_ALL RAILS RMA "
    "RUN_TERMINAL SCHEDULE SCHEDULE_PATH SECRET SHARE_BUFFERS SINGLE_COPY TIMEOUT_MS TOPOLOGY "
    "TORCH_NATIVE TRACE TUNING";

[[noreturn]] void refuse_variable(const std::string& text) {
    throw Error(Status::invalid_argument, text);
}

}  // namespace

Environment process_environment() {
    return [](const char* name) -> const char* { return std::getenv(name); };
}

// Only what is certain enough is named, as a program's own variables may begin alike: names that take one
// change, or lack the end that one name alone has.
std::vector<std::string> misspelt_variables() {
    std::vector<std::string> known, found;
    std::istringstream names(variables);
    for (std::string name; names >> name;) known.push_back(name);
    const auto meant_by = [&](const std::string& name) -> std::string {
        const auto lacks_its_end = [&](const std::string& one) { return one.starts_with(name + "_"); };
        if (std::ranges::count_if(known, lacks_its_end) == 1)
            return *std::ranges::find_if(known, lacks_its_end);
        if (name.size() < 4) return "";  // too many others are as near
        const auto is_near = [&](const std::string& one) { return dsl::changes_between(name, one) == 1; };
        const auto near = std::ranges::find_if(known, is_near);
        return near == known.end() ? "" : *near;
    };
    for (char** variable = environ; variable && *variable; ++variable) {
        const std::string_view entry = *variable, whole = entry.substr(0, entry.find('='));
        if (!whole.starts_with(prefix)) continue;
        const std::string name(whole.substr(prefix.size()));
        if (std::ranges::count(known, name) > 0) continue;
        if (const std::string meant = meant_by(name); !meant.empty())
            found.push_back(fmt::format("{} is not known (did you mean '{}{}'?)", whole, prefix, meant));
    }
    return found;
}

void warn_of_misspelt_variables(std::string_view who, bool says) noexcept {
    static std::atomic<bool> has_warned = false;
    try {
        if (has_warned.exchange(true) || !says) return;
        for (const std::string& misspelt : misspelt_variables()) log_line("hocket: {}: {}", who, misspelt);
    } catch (...) {  // out of memory
    }
}

std::int64_t check_range(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high)
        refuse_variable(fmt::format("{} is {}; it must be from {} to {}", name, value, low, high));
    return value;
}

std::int64_t check_timeout(std::string_view name, std::int64_t value, std::int64_t low) {
    if (value < low)
        refuse_variable(fmt::format("{} is {}; it must be {} milliseconds or more", name, value, low));
    return std::min(value, longest_timeout_ms);
}

std::optional<std::string> EnvironmentReader::text(const char* name) const {
    const char* value = environment_(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
}

std::optional<std::int64_t> EnvironmentReader::number(const char* name, std::int64_t low,
                                                      std::int64_t high) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    std::int64_t result = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), result);
    if (error != std::errc() || end != value->data() + value->size())
        refuse_variable(
            fmt::format("{} is \"{}\"; it must be a whole number from {} to {}", name, *value, low, high));
    return check_range(name, result, low, high);
}

std::optional<std::int64_t> EnvironmentReader::timeout(const char* name, std::int64_t low) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    std::int64_t result = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), result);
    const bool is_long = error == std::errc::result_out_of_range && value->front() != '-';
    if ((error != std::errc() && !is_long) || end != value->data() + value->size())
        refuse_variable(fmt::format("{} is \"{}\"; it must be a whole number of milliseconds, {} or more",
                                    name, *value, low));
    return is_long ? longest_timeout_ms : check_timeout(name, result, low);
}

bool EnvironmentReader::is_on(const char* name, bool unless_set) const {
    const auto value = text(name);
    if (!value) return unless_set;
    if (*value != "on" && *value != "off")
        refuse_variable(fmt::format("{} is \"{}\"; it must be on or off", name, *value));
    return *value == "on";
}

std::optional<std::uint64_t> EnvironmentReader::bytes(const char* name) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    try {
        return dsl::parse_size(*value);
    } catch (const dsl::QuantityError& error) {
        refuse_variable(fmt::format("{} is \"{}\": {}; {}", name, *value, error.what(), error.hint));
    }
}

}  // namespace hocket
