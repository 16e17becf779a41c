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

// Names are compared without what all of them begin with, which would make short ones alike.
std::vector<std::string> misspelt_variables() {
    std::vector<std::string> known, known_whole, found;
    std::istringstream names(variables);
    for (std::string name; names >> name;) {
        known.push_back(name);
        known_whole.push_back(std::string(prefix) + name);
    }
    const auto is_like_a_known_one = [&](const std::string& name) {
        const auto lacks_its_end = [&](const std::string& one) { return one.starts_with(name + "_"); };
        return std::ranges::count_if(known, lacks_its_end) == 1 || !dsl::did_you_mean(name, known).empty();
    };
    for (char** variable = environ; variable && *variable; ++variable) {
        const std::string_view entry = *variable, whole = entry.substr(0, entry.find('='));
        if (!whole.starts_with(prefix) || std::ranges::count(known_whole, whole) > 0) continue;
        if (is_like_a_known_one(std::string(whole.substr(prefix.size()))))
            found.push_back(fmt::format("{} is not known{}", whole, dsl::did_you_mean(whole, known_whole)));
    }
    return found;
}

void warn_of_misspelt_variables(std::string_view who) noexcept {
    static std::atomic<bool> has_warned = false;
    try {
        if (has_warned.exchange(true)) return;
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
