// Services that give keys for a time: to an instance of EC2, to a container (ECS, and pods of EKS), and for
// the token of an identity (STS); and a program that does, the credential_process of a profile.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "runtime/base/environment.hpp"
#include "runtime/cache/objects/keys.hpp"
#include "runtime/cache/objects/transfers.hpp"

namespace hocket::cache {

struct KeyService {
    enum class Kind { web_identity, process, container, instance };
    Kind kind = Kind::instance;
    std::string url;
    std::chrono::milliseconds patience{0};  // with each answer
    std::string token_file;                 // web_identity, container: read anew each time; "": none
    std::string authorization;              // container: instead of the file's
    std::string role, session;              // web_identity
    std::string command, profile;           // process; the profile's name, for errors
};

// All look where Amazon's own tools do. They throw Error(invalid_argument) for variables that contradict each
// other, and for a container's service that is neither on this host nor reached by https.
std::optional<KeyService> find_web_identity(const Environment& environment, const std::string& region);
std::optional<KeyService> find_local_service(const Environment& environment);  // container, else instance

// The service of the command; it has a minute.
KeyService service_of_command(std::string command, std::string profile);

// Waits for the answer. Returns nothing if there is no service of instances here, or the instance has no
// role. Otherwise throws Error(io) with what to do, and nothing secret.
std::optional<Keys> ask_for_keys(const KeyService& service, Transfers& transfers);

}  // namespace hocket::cache
