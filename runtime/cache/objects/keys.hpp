// The keys with which requests are signed, and the answers of services that give them for a time.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace hocket::cache {

struct Keys {
    using Clock = std::chrono::system_clock;

    std::string id, secret, token;  // token: "" if the keys are not temporary
    std::string origin;  // in words: "the environment", "profile default of /root/.aws/credentials"
    std::optional<Clock::time_point> until = std::nullopt;  // when they end; nothing: not known, or never

    // Names them for people: where they are from, and the end of the id. Never contains the secret or the
    // token.
    std::string shown() const;
};

// Reads the answers of the services of instances and containers and what a credential_process writes (JSON),
// and the answers of STS (XML) to an action, "AssumeRole". Keys without a time are kept without one. Throws
// Error(io) with the reason, which has nothing secret, if there are no keys in it.
Keys parse_keys_json(std::string_view text);
Keys parse_keys_xml(std::string_view text, std::string_view action);

// "2026-11-29T06:00:00Z", or, as Python writes it, "2026-11-29T07:00:00+01:00"; a fraction of the second is
// dropped. Times before 1970 become its beginning, and those that the clock does not reach become its last
// second.
std::optional<Keys::Clock::time_point> parse_time(std::string_view text);

}  // namespace hocket::cache
