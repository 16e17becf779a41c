// The keys and settings with which requests to S3 are signed, found where Amazon's own tools look for them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.hpp"

namespace hocket::cache {

struct Keys {
    std::string id, secret, token;  // token: "" if the keys are not temporary
    std::string origin;  // in words: "the environment", "profile default of /root/.aws/credentials"

    // Names them for people: where they are from, and the end of the id. Never contains the secret or the
    // token.
    std::string shown() const;
};

struct S3Settings {
    std::optional<Keys> keys;  // none: requests are not signed
    std::string region;
    std::string endpoint;  // "https://host:port" without a '/' at the end; "": Amazon's
};

// Returns the value of `name` in the section of a file in the format of ~/.aws/credentials: sections in
// brackets, lines NAME = VALUE, comments that begin with # or ;. The last value of a name counts. Nothing if
// there is no such section or name. Does no I/O, and accepts any text.
std::optional<std::string> profile_value(std::string_view file, std::string_view section,
                                         std::string_view name);

// Keys are those of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else those of AWS_PROFILE
// (default) in AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials), else none. The region is AWS_REGION or
// AWS_DEFAULT_REGION, else that of the profile in AWS_CONFIG_FILE (~/.aws/config), else us-east-1. The
// endpoint is AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else that of the profile. Reads the files anew each
// time. Throws Error(invalid_argument) for one half of a pair of keys, and for AWS_PROFILE if there is no
// such profile.
S3Settings find_s3_settings(const Environment& environment);

}  // namespace hocket::cache
