// The keys and settings with which requests to S3 are signed, found where Amazon's own tools look for them.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/environment.hpp"
#include "runtime/cache/objects/key_service.hpp"
#include "runtime/cache/objects/keys.hpp"

namespace hocket::cache {

struct S3Settings {
    std::optional<Keys> keys;  // none: requests are not signed, unless the service gives some
    std::string region;
    std::string endpoint;               // "https://host:port" without a '/' at the end; "": Amazon's
    std::optional<KeyService> service;  // to be asked for keys, where these are none
};

// Keys are those of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else those of a role of
// AWS_PROFILE (default), else those of a web identity's role, else those of the profile in
// AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials), else those that its credential_process writes, there or
// in AWS_CONFIG_FILE, else those of the profile in the latter, else those of the container or instance. Keys
// of roles, commands, containers and instances are to be asked for. The region is AWS_REGION or
// AWS_DEFAULT_REGION, else that of the profile in AWS_CONFIG_FILE (~/.aws/config), else us-east-1. The
// endpoint is AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else that of the profile. Reads the files anew each
// time, and asks nobody. Throws Error(invalid_argument) for one half of a pair of keys, for AWS_PROFILE if
// there is no such profile, for a profile whose keys are those of a login, for an endpoint that is none, and
// what RoleFinder and the functions of key_service.hpp throw.
S3Settings find_s3_settings(const Environment& environment);

}  // namespace hocket::cache
