#include "runtime/cache/objects/credentials.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/named_file.hpp"
#include "runtime/base/error.hpp"
#include "runtime/cache/objects/url.hpp"

namespace hocket::cache {
namespace {

constexpr std::size_t largest_file_of_keys = 1 << 20;

std::string_view without_blanks(std::string_view text) {
    constexpr std::string_view blanks = " \t\r";
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    return text.substr(0, text.find_last_not_of(blanks) + 1);
}

// Returns "" for a file that is not there or cannot be read: then keys come from elsewhere.
std::string read_if_there(const std::string& path) {
    try {
        return read_text(path, largest_file_of_keys);
    } catch (const UnreadableFile&) {
        return "";
    }
}

void check_endpoint(const std::string& endpoint) {
    if (endpoint.empty()) return;
    const Url url = parse_url(endpoint);
    if (url.is_s3() || !url.path.empty() || !url.query.empty() || !url.user.empty())
        throw Error(Status::invalid_argument,
                    fmt::format("the endpoint of S3 is {}; it is https://HOST or https://HOST:PORT, from "
                                "AWS_ENDPOINT_URL or the profile",
                                one_line(url.shown())));
}

class KeyFinder {
  public:
    explicit KeyFinder(const Environment& environment)
        : reader_(environment),
          chosen_(reader_.text("AWS_PROFILE")),
          profile_(chosen_.value_or("default")),
          path_(path("AWS_SHARED_CREDENTIALS_FILE", "credentials")),
          credentials_(read_if_there(path_)),
          config_(read_if_there(path("AWS_CONFIG_FILE", "config"))) {}

    std::optional<Keys> keys_of_environment() const {
        const auto id = reader_.text("AWS_ACCESS_KEY_ID"), secret = reader_.text("AWS_SECRET_ACCESS_KEY");
        if (id.has_value() != secret.has_value())
            throw Error(Status::invalid_argument,
                        fmt::format("{} is set, but {} is not; set both, or neither",
                                    id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                                    id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"));
        if (id) return Keys{*id, *secret, reader_.text("AWS_SESSION_TOKEN").value_or(""), "the environment"};
        return std::nullopt;
    }

    std::optional<Keys> keys_of_profile() const {
        const auto value = [&](const char* name) { return profile_value(credentials_, profile_, name); };
        const auto id = value("aws_access_key_id"), secret = value("aws_secret_access_key");
        if (id && secret)
            return Keys{*id, *secret, value("aws_session_token").value_or(""),
                        fmt::format("profile {} of {}", profile_, path_)};
        return std::nullopt;
    }

    std::optional<KeyService> command_of_profile() const {
        if (auto command = of_profile("credential_process")) return service_of_command(*command, profile_);
        return std::nullopt;
    }

    // To be called where the profile has neither: then Hocket cannot get the keys that it is meant to give,
    // and one that was asked for by its name must give some.
    void check_profile() const {
        const std::string name = one_line(profile_, 80);
        for (const char* other : {"role_arn", "sso_session", "sso_start_url"})
            if (of_profile(other))
                throw Error(Status::invalid_argument,
                            fmt::format("the keys of profile {0} are those of a role or a login ({1}), which "
                                        "Hocket does not ask for; name another one by AWS_PROFILE, with the "
                                        "line credential_process = aws configure export-credentials "
                                        "--profile {0}",
                                        name, other));
        if (chosen_)
            throw Error(Status::invalid_argument,
                        fmt::format("AWS_PROFILE is {}, but {} has no profile of this name with "
                                    "aws_access_key_id and aws_secret_access_key, nor one with a "
                                    "credential_process; add it, or unset AWS_PROFILE",
                                    name, path_));
    }

    std::string region() const {
        for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"})
            if (const auto region = reader_.text(name)) return *region;
        return of_profile("region").value_or("us-east-1");
    }

    std::string endpoint() const {
        std::optional<std::string> found;
        for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"})
            if (!found) found = reader_.text(name);
        std::string endpoint = found ? *found : of_profile("endpoint_url").value_or("");
        while (endpoint.ends_with('/')) endpoint.pop_back();
        return endpoint;
    }

  private:
    std::string path(const char* variable, const char* name) const {
        if (const auto path = reader_.text(variable)) return *path;
        return fmt::format("{}/.aws/{}", reader_.text("HOME").value_or(""), name);
    }

    std::optional<std::string> of_profile(std::string_view name) const {
        const std::string section = profile_ == "default" ? profile_ : "profile " + profile_;
        const auto value = profile_value(config_, section, name);
        return value ? value : profile_value(credentials_, profile_, name);
    }

    const EnvironmentReader reader_;
    const std::optional<std::string> chosen_;
    const std::string profile_, path_, credentials_, config_;
};

}  // namespace

std::optional<std::string> profile_value(std::string_view file, std::string_view section,
                                         std::string_view name) {
    std::optional<std::string> found;
    bool is_inside = false;
    while (!file.empty()) {
        const std::size_t end = std::min(file.find('\n'), file.size());
        const bool is_continued = file.front() == ' ' || file.front() == '\t';  // of a nested value
        const std::string_view line = without_blanks(file.substr(0, end));
        file.remove_prefix(std::min(end + 1, file.size()));
        if (line.empty() || line.front() == '#' || line.front() == ';') continue;
        if (line.front() == '[') {
            is_inside = line.back() == ']' && without_blanks(line.substr(1, line.size() - 2)) == section;
            continue;
        }
        const std::size_t equals = line.find('=');
        if (!is_inside || is_continued || equals == std::string_view::npos) continue;
        if (without_blanks(line.substr(0, equals)) == name) found = without_blanks(line.substr(equals + 1));
    }
    return found;
}

S3Settings find_s3_settings(const Environment& environment) {
    const KeyFinder finder(environment);
    S3Settings settings{finder.keys_of_environment(), finder.region(), finder.endpoint(), std::nullopt};
    check_endpoint(settings.endpoint);
    if (settings.keys) return settings;
    settings.service = find_web_identity(environment, settings.region);
    if (settings.service) return settings;
    settings.keys = finder.keys_of_profile();
    if (settings.keys) return settings;
    settings.service = finder.command_of_profile();
    if (settings.service) return settings;
    finder.check_profile();
    settings.service = find_local_service(environment);
    return settings;
}

}  // namespace hocket::cache
