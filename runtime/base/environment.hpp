// Environment variables, read and checked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace hocket {

// Gives null for a variable that isn't set.
using Environment = std::function<const char*(const char*)>;

Environment process_environment();

// A day. A longer time counts as this: programs ask for weeks where they mean "as long as it takes".
inline constexpr std::int64_t longest_timeout_ms = 24 * 3600 * 1000;

// Throws Error(invalid_argument): "NAME is 7; it must be from 1 to 5".
std::int64_t check_range(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high);
// value, or longest_timeout_ms if that is less. Throws Error(invalid_argument) below low.
std::int64_t check_timeout(std::string_view name, std::int64_t value, std::int64_t low);

// All functions throw Error(invalid_argument) that names the variable, its value and what it may be.
class EnvironmentReader {
  public:
    explicit EnvironmentReader(const Environment& environment) : environment_(environment) {}

    // An empty variable counts as not set: that is how shells and job scripts clear one.
    std::optional<std::string> text(const char* name) const;
    std::optional<std::int64_t> number(const char* name, std::int64_t low, std::int64_t high) const;
    // Milliseconds, as check_timeout() takes them.
    std::optional<std::int64_t> timeout(const char* name, std::int64_t low) const;
    // "4096", "8GiB", "500 MB", "1.5g": bytes. A letter alone means the binary unit, as people use it for
    // memory.
    std::optional<std::uint64_t> bytes(const char* name) const;

  private:
    const Environment& environment_;
};

// Nothing if the text is not a size.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace hocket
