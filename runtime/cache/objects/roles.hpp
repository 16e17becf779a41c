// Roles that profiles name, and the services that give their keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.hpp"
#include "runtime/cache/objects/key_service.hpp"
#include "runtime/cache/objects/profiles.hpp"

namespace hocket::cache {

// Finds what AWS's documentation of role_arn describes. Refers to its arguments.
class RoleFinder {
  public:
    RoleFinder(const Profiles& profiles, const Environment& environment, const std::string& region)
        : profiles_(profiles), environment_(environment), region_(region) {}

    // Both return nothing for a profile without such a role. They throw Error(invalid_argument) with the
    // profile and what to do: for one that does not say with which keys its role is asked for, or says it
    // twice; for profiles that name each other; for a role that needs a code of a device.
    std::optional<KeyService> of_profile(const std::string& profile) const;   // by AssumeRole
    std::optional<KeyService> of_token_of(const std::string& profile) const;  // of a web identity

    // Throws Error(invalid_argument) if the profile's keys are those of a login by SSO.
    void refuse_login(const std::string& profile) const;

  private:
    using Names = std::vector<std::string>;

    std::optional<KeyService> find(const std::string& profile, Names asked) const;
    void take_source(KeyService& role, const std::string& source, const Names& asked) const;
    KeyService named_source(const std::string& profile, const std::string& name) const;

    const Profiles& profiles_;
    const Environment& environment_;
    const std::string& region_;
};

}  // namespace hocket::cache
