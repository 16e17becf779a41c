// The identities by which a parameter service's processes recognize each other in the handshake
// (net/handshake.hpp).
#pragma once

#include <string>
#include <string_view>

namespace hocket::params {

// The identity in a guest's hello, whose first byte is the job's priority.
inline constexpr std::string_view version_text = "hocket-params 3";

inline std::string identity(int priority) {
    std::string text(1, static_cast<char>(priority));
    text += version_text;
    return text;
}

// Returns the reason for refusing the guest; "": it is accepted.
inline std::string refusal(std::string_view guests_identity) {
    if (guests_identity.size() > 1 && guests_identity.substr(1) == version_text) return "";
    return "this is a parameter service of another version of Hocket, or no parameter service is meant (this "
           "one is " +
           std::string(version_text) + ")";
}

inline constexpr const char* wrong_secret =
    "wrong secret (HOCKET_SECRET must be the same in all processes of a job)";

}  // namespace hocket::params
