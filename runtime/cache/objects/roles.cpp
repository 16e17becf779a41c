#include "runtime/cache/objects/roles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/url.hpp"
#include "runtime/cache/objects/whole_number.hpp"

namespace hocket::cache {
namespace {

constexpr std::uint64_t shortest_session_s = 900, longest_session_s = 43200;  // as STS allows them

Error refused(const std::string& profile, const std::string& why) {
    return Error(Status::invalid_argument, fmt::format("the profile {} {}", one_line(profile, 80), why));
}

}  // namespace

std::optional<KeyService> RoleFinder::of_profile(const std::string& profile) const {
    return find(profile, {});
}

std::optional<KeyService> RoleFinder::of_token_of(const std::string& profile) const {
    const auto role = profiles_.value(profile, "role_arn"),
               file = profiles_.value(profile, "web_identity_token_file");
    if (!role || !file) return std::nullopt;
    KeyService service{.kind = KeyService::Kind::web_identity};
    service.url = address_of_sts(environment_, region_);
    service.patience = usual_patience;
    service.token_file = *file;
    service.role = *role;
    service.session = profiles_.value(profile, "role_session_name").value_or("hocket");
    service.profile = profile;
    return service;
}

// asked: the profiles whose roles are asked for by this one's.
std::optional<KeyService> RoleFinder::find(const std::string& profile, Names asked) const {
    const auto value = [&](const char* name) { return profiles_.value(profile, name); };
    const auto role = value("role_arn"), source = value("source_profile"), kind = value("credential_source");
    if (!role || value("web_identity_token_file")) return std::nullopt;
    if (source.has_value() == kind.has_value())
        throw refused(
            profile, fmt::format("has a role_arn, and {} source_profile {} credential_source, which say with "
                                 "whose keys the role is asked for; give it one of them",
                                 source ? "both" : "neither", source ? "and" : "nor"));
    if (value("mfa_serial"))
        throw refused(
            profile,
            fmt::format("has a role that needs a code of a device (mfa_serial), which Hocket does not "
                        "ask for; put its keys into the environment before: eval \"$(aws configure "
                        "export-credentials --profile {} --format env)\"",
                        one_line(profile, 80)));
    KeyService service{.kind = KeyService::Kind::role};
    service.url = address_of_sts(environment_, region_);
    service.patience = usual_patience;
    service.region = region_;
    service.role = *role;
    service.session = value("role_session_name").value_or("hocket");
    service.external_id = value("external_id").value_or("");
    service.duration = value("duration_seconds").value_or("");
    service.profile = profile;
    const auto seconds = whole_number(service.duration);
    if (!service.duration.empty() &&
        (!seconds || *seconds < shortest_session_s || *seconds > longest_session_s))
        throw refused(profile,
                      fmt::format("has the duration_seconds {}; it is a number from {} to {}",
                                  one_line(service.duration, 40), shortest_session_s, longest_session_s));
    asked.push_back(profile);
    if (kind)
        service.source = std::make_shared<const KeyService>(named_source(profile, *kind));
    else
        take_source(service, *source, asked);
    return service;
}

// A profile with keys of its own gives these, even if it has a role, too: so it may be its own source.
void RoleFinder::take_source(KeyService& role, const std::string& source, const Names& asked) const {
    role.source_keys = profiles_.keys(source);
    if (role.source_keys) return;
    if (std::find(asked.begin(), asked.end(), source) != asked.end())
        throw refused(source,
                      "is the source_profile of a role that is asked for by its own: give one of them keys");
    std::optional<KeyService> service = find(source, asked);
    if (!service) service = of_token_of(source);
    if (!service)
        if (auto command = profiles_.value(source, "credential_process"))
            service = service_of_command(*command, source);
    if (service) {
        role.source = std::make_shared<const KeyService>(*std::move(service));
        return;
    }
    role.source_keys = profiles_.keys_of_settings(source);
    if (role.source_keys) return;
    refuse_login(source);
    throw refused(
        source, fmt::format("is the source_profile of {}, and has no keys: neither aws_access_key_id and "
                            "aws_secret_access_key, nor a role or a credential_process; add them, or correct "
                            "the name",
                            one_line(asked.back(), 80)));
}

KeyService RoleFinder::named_source(const std::string& profile, const std::string& name) const {
    std::optional<KeyService> service;
    if (name == "Ec2InstanceMetadata") service = find_instance(environment_);
    if (name == "EcsContainer") service = find_container(environment_);
    if (service) return *std::move(service);
    throw refused(
        profile,
        name == "Environment" ? "has the credential_source Environment, but AWS_ACCESS_KEY_ID is not set; "
                                "set it, or another source"
        : name == "EcsContainer"
            ? "has the credential_source EcsContainer, but AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and "
              "..._FULL_URI are not set; name another source"
        : name == "Ec2InstanceMetadata"
            ? "has the credential_source Ec2InstanceMetadata, but AWS_EC2_METADATA_DISABLED is true; name "
              "another source"
            : fmt::format(
                  "has the credential_source {}; it is Environment, Ec2InstanceMetadata or EcsContainer",
                  one_line(name, 40)));
}

void RoleFinder::refuse_login(const std::string& profile) const {
    for (const char* login : {"sso_session", "sso_start_url"})
        if (profiles_.value(profile, login))
            throw Error(
                Status::invalid_argument,
                fmt::format(
                    "the keys of profile {0} are those of a login ({1}), which Hocket does not ask for; "
                    "name another one by AWS_PROFILE, with the line credential_process = aws configure "
                    "export-credentials --profile {0}",
                    one_line(profile, 80), login));
}

}  // namespace hocket::cache
