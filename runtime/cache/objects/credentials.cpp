#include "runtime/cache/objects/credentials.hpp"

#include <fmt/format.h>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/profiles.hpp"
#include "runtime/cache/objects/roles.hpp"
#include "runtime/cache/objects/url.hpp"

namespace hocket::cache {
namespace {

void check_endpoint(const std::string& endpoint) {
    if (endpoint.empty()) return;
    const Url url = parse_url(endpoint);
    if (url.is_s3() || !url.path.empty() || !url.query.empty() || !url.user.empty())
        throw Error(Status::invalid_argument,
                    fmt::format("the endpoint of S3 is {}; it is https://HOST or https://HOST:PORT, from "
                                "AWS_ENDPOINT_URL or the profile",
                                one_line(url.shown())));
}

std::optional<Keys> keys_of_environment(const EnvironmentReader& reader) {
    const auto id = reader.text("AWS_ACCESS_KEY_ID"), secret = reader.text("AWS_SECRET_ACCESS_KEY");
    if (id.has_value() != secret.has_value())
        throw Error(Status::invalid_argument,
                    fmt::format("{} is set, but {} is not; set both, or neither",
                                id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                                id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"));
    if (id) return Keys{*id, *secret, reader.text("AWS_SESSION_TOKEN").value_or(""), "the environment"};
    return std::nullopt;
}

// The profile in use, where the environment has no keys.
class ProfileInUse {
  public:
    ProfileInUse(const EnvironmentReader& reader, const Profiles& profiles)
        : reader_(reader),
          profiles_(profiles),
          chosen_(reader.text("AWS_PROFILE")),
          name_(chosen_.value_or("default")) {}

    const std::string& name() const { return name_; }
    std::optional<Keys> keys() const { return profiles_.keys(name_); }
    std::optional<Keys> keys_of_settings() const { return profiles_.keys_of_settings(name_); }

    std::optional<KeyService> command_of_profile() const {
        if (auto command = profiles_.value(name_, "credential_process"))
            return service_of_command(*command, name_);
        return std::nullopt;
    }

    // To be called where the profile has no keys: one that was asked for by its name must give some.
    void check_named() const {
        if (chosen_)
            throw Error(
                Status::invalid_argument,
                fmt::format(
                    "AWS_PROFILE is {}, but {} has no profile of this name with aws_access_key_id and "
                    "aws_secret_access_key, nor one with a role_arn or a credential_process; add it, or "
                    "unset AWS_PROFILE",
                    one_line(name_, 80), profiles_.path_of_keys()));
    }

    std::string region() const {
        for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"})
            if (const auto region = reader_.text(name)) return *region;
        return profiles_.value(name_, "region").value_or("us-east-1");
    }

    std::string endpoint() const {
        std::optional<std::string> found;
        for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"})
            if (!found) found = reader_.text(name);
        std::string endpoint = found ? *found : profiles_.value(name_, "endpoint_url").value_or("");
        while (endpoint.ends_with('/')) endpoint.pop_back();
        return endpoint;
    }

  private:
    const EnvironmentReader& reader_;
    const Profiles& profiles_;
    const std::optional<std::string> chosen_;
    const std::string name_;
};

}  // namespace

S3Settings find_s3_settings(const Environment& environment) {
    const EnvironmentReader reader(environment);
    const Profiles profiles(reader);
    const ProfileInUse profile(reader, profiles);
    S3Settings settings{keys_of_environment(reader), profile.region(), profile.endpoint(), std::nullopt};
    check_endpoint(settings.endpoint);
    if (settings.keys) return settings;
    const RoleFinder roles(profiles, environment, settings.region);
    settings.service = roles.of_profile(profile.name());
    if (!settings.service) settings.service = find_web_identity(environment, settings.region);
    if (!settings.service) settings.service = roles.of_token_of(profile.name());
    if (settings.service) return settings;
    settings.keys = profile.keys();
    if (settings.keys) return settings;
    settings.service = profile.command_of_profile();
    if (settings.service) return settings;
    settings.keys = profile.keys_of_settings();
    if (settings.keys) return settings;
    roles.refuse_login(profile.name());
    profile.check_named();
    settings.service = find_local_service(environment);
    return settings;
}

}  // namespace hocket::cache
