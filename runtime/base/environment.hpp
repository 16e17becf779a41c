// Environment variables, read and checked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hocket {

// Gives null for a variable that isn't set.
using Environment = std::function<const char*(const char*)>;

Environment process_environment();

// Returns "HOCKET_SCHEDUL is not known (did you mean 'HOCKET_SCHEDULE'?)" for each variable of the process
// whose name is like that of one that Hocket reads. Other names that begin with HOCKET_ may be the program's.
std::vector<std::string> misspelt_variables();
// The first call in a process writes them to stderr, as "hocket: rank 0: HOCKET_SCHEDUL is ...", unless
// another process does (says: false). Thread-safe, but no thread may change the environment meanwhile.
void warn_of_misspelt_variables(std::string_view who, bool says = true) noexcept;

// One day. A longer time is reduced to this: programs ask for weeks when they mean "as long as it takes".
inline constexpr std::int64_t longest_timeout_ms = 24 * 3600 * 1000;

// Throws Error(invalid_argument): "NAME is 7; it must be from 1 to 5".
std::int64_t check_range(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high);
// Returns value, or longest_timeout_ms if that is less. Throws Error(invalid_argument) below low.
std::int64_t check_timeout(std::string_view name, std::int64_t value, std::int64_t low);

// All functions throw Error(invalid_argument) that names the variable, its value and the values allowed.
class EnvironmentReader {
  public:
    explicit EnvironmentReader(const Environment& environment) : environment_(environment) {}

    // An empty variable counts as not set, because shells and job scripts clear a variable that way.
    std::optional<std::string> text(const char* name) const;
    std::optional<std::int64_t> number(const char* name, std::int64_t low, std::int64_t high) const;
    // Returns milliseconds as check_timeout() accepts them.
    std::optional<std::int64_t> timeout(const char* name, std::int64_t low) const;
    // Accepts on and off.
    bool is_on(const char* name, bool unless_set) const;
    // Returns bytes as dsl::parse_size reads them: "4096", "8GiB", "500 MB", "1.5g".
    std::optional<std::uint64_t> bytes(const char* name) const;

  private:
    const Environment& environment_;
};

}  // namespace hocket
