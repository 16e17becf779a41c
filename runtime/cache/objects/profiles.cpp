#include "runtime/cache/objects/profiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/base/named_file.hpp"

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

std::string path_of(const EnvironmentReader& reader, const char* variable, const char* name) {
    if (const auto path = reader.text(variable)) return *path;
    return fmt::format("{}/.aws/{}", reader.text("HOME").value_or(""), name);
}

std::string section_of_settings(const std::string& profile) {
    return profile == "default" ? profile : "profile " + profile;
}

std::optional<Keys> keys_in(const std::string& file, const std::string& section, std::string origin) {
    const auto value = [&](const char* name) { return profile_value(file, section, name); };
    const auto id = value("aws_access_key_id"), secret = value("aws_secret_access_key");
    if (id.value_or("").empty() || secret.value_or("").empty()) return std::nullopt;
    return Keys{*id, *secret, value("aws_session_token").value_or(""), std::move(origin)};
}

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

Profiles::Profiles(const EnvironmentReader& reader)
    : keys_path_(path_of(reader, "AWS_SHARED_CREDENTIALS_FILE", "credentials")),
      settings_path_(path_of(reader, "AWS_CONFIG_FILE", "config")),
      keys_(read_if_there(keys_path_)),
      settings_(read_if_there(settings_path_)) {}

std::optional<std::string> Profiles::value(const std::string& profile, std::string_view name) const {
    const auto value = profile_value(settings_, section_of_settings(profile), name);
    return value ? value : profile_value(keys_, profile, name);
}

std::optional<Keys> Profiles::keys(const std::string& profile) const {
    return keys_in(keys_, profile, fmt::format("profile {} of {}", profile, keys_path_));
}

std::optional<Keys> Profiles::keys_of_settings(const std::string& profile) const {
    return keys_in(settings_, section_of_settings(profile),
                   fmt::format("profile {} of {}", profile, settings_path_));
}

}  // namespace hocket::cache
