// Services that give keys for a time: to an instance of EC2, to a container (ECS, and pods of EKS), and for
// the token of an identity or other keys (STS); and a program that does, the credential_process of a profile.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/environment.hpp"
#include "runtime/cache/objects/keys.hpp"
#include "runtime/cache/objects/transfers.hpp"

namespace hocket::cache {

struct KeyService {
    enum class Kind { web_identity, role, process, container, instance };
    Kind kind = Kind::instance;
    std::string url = {};
    std::chrono::milliseconds patience{0};  // with each answer
    std::string token_file = {};            // web_identity, container: read anew each time; "": none
    std::string authorization = {};         // container: instead of the file's
    std::string role = {}, session = {};    // web_identity, role
    std::string command = {};               // process
    std::string profile = {};               // process, role: its name, for errors

    // Of the kind role. One of the last two has the keys with which the role is asked for.
    std::string region = {}, external_id = {}, duration = {};
    std::optional<Keys> source_keys = std::nullopt;
    std::shared_ptr<const KeyService> source = nullptr;
};

inline constexpr std::chrono::milliseconds usual_patience{10'000};

// All look where Amazon's own tools do. They throw Error(invalid_argument) for variables that contradict each
// other, and for a container's service that is neither on this host nor reached by https.
std::optional<KeyService> find_web_identity(const Environment& environment, const std::string& region);
std::optional<KeyService> find_container(const Environment& environment);
std::optional<KeyService> find_instance(const Environment& environment);
std::optional<KeyService> find_local_service(const Environment& environment);  // container, else instance

// AWS_ENDPOINT_URL_STS, else Amazon's; without a '/' at the end.
std::string address_of_sts(const Environment& environment, const std::string& region);

// The service of the command; it has a minute.
KeyService service_of_command(std::string command, std::string profile);

// Waits for the answer, and for those of the services whose keys a role is asked for with. Returns nothing if
// there is no service of instances here, or the instance has no role. Otherwise throws Error(io) with what to
// do, and nothing secret.
std::optional<Keys> ask_for_keys(const KeyService& service, Transfers& transfers);

}  // namespace hocket::cache
