// The profiles of Amazon's tools, in ~/.aws/credentials and ~/.aws/config.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.hpp"
#include "runtime/cache/objects/keys.hpp"

namespace hocket::cache {

// Returns the value of `name` in the section of a file in the format of ~/.aws/credentials: sections in
// brackets, lines NAME = VALUE, comments that begin with # or ;. The last value of a name counts. Nothing if
// there is no such section or name. Does no I/O, and accepts any text.
std::optional<std::string> profile_value(std::string_view file, std::string_view section,
                                         std::string_view name);

// What the files say when this is made. Files that cannot be read are empty.
class Profiles {
  public:
    explicit Profiles(const EnvironmentReader& reader);

    // Returns a value of a profile, from the file of settings or, if that has none, from that of keys.
    std::optional<std::string> value(const std::string& profile, std::string_view name) const;
    std::optional<Keys> keys(const std::string& profile) const;              // in the file of keys
    std::optional<Keys> keys_of_settings(const std::string& profile) const;  // in the other one

    const std::string& path_of_keys() const { return keys_path_; }

  private:
    const std::string keys_path_, settings_path_, keys_, settings_;
};

}  // namespace hocket::cache
