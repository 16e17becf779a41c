#include "runtime/cache/objects/key_service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

#include "dsl/base/named_file.hpp"
#include "runtime/base/error.hpp"
#include "runtime/cache/objects/key_command.hpp"
#include "runtime/cache/objects/site.hpp"
#include "runtime/cache/objects/url.hpp"

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t largest_answer = 1 << 20, largest_token = 1 << 16;
constexpr std::chrono::milliseconds usual_patience = 10s, patience_with_command = 60s,
                                    pause_after_failure = 200ms;
constexpr unsigned most_attempts = 3;

std::string without_end(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
        text.pop_back();
    return text;
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return text;
}

// An instance that is none has nobody who answers there; Amazon's tools wait this long for that, too.
std::chrono::milliseconds patience_with_instance(const EnvironmentReader& reader) {
    return std::chrono::seconds(reader.number("AWS_METADATA_SERVICE_TIMEOUT", 1, 600).value_or(1));
}

void check_is_near(const std::string& address) {
    const Url url = parse_url(address);
    const std::string host = url.host.substr(0, url.host.rfind(':'));
    constexpr std::array<std::string_view, 6> near = {"127.0.0.1",     "localhost",      "[::1]",
                                                      "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    if (url.scheme == "https" || std::find(near.begin(), near.end(), host) != near.end()) return;
    if (std::find(near.begin(), near.end(), url.host) != near.end()) return;
    throw Error(
        Status::invalid_argument,
        fmt::format("AWS_CONTAINER_CREDENTIALS_FULL_URI is {}; keys are fetched from this host, or by https",
                    one_line(url.shown(), 80)));
}

std::string read_token(const std::string& path, const char* variable) {
    try {
        return without_end(read_text(path, largest_token));
    } catch (const UnreadableFile& error) {
        throw Error(
            Status::io,
            fmt::format("the file {} in {} cannot be read ({}); check the name, and that it may be read",
                        one_line(path, 80), variable, error.what()));
    }
}

// Asks one service, and names it in errors.
class Asking {
  public:
    Asking(const KeyService& service, Transfers& transfers) : service_(service), transfers_(transfers) {}

    std::optional<Keys> of_instance() {
        Request request{.url = service_.url + "/latest/api/token", .method = "PUT"};
        request.headers.emplace_back("X-aws-ec2-metadata-token-ttl-seconds: 21600");
        const Answer token = answer(std::move(request), most_attempts, 1);
        if (std::find(no_instance.begin(), no_instance.end(), token.status) != no_instance.end())
            return std::nullopt;
        const std::string header = "X-aws-ec2-metadata-token: " + without_end(text_of(token));
        const std::string folder = service_.url + "/latest/meta-data/iam/security-credentials/";
        const Answer roles = answer({.url = folder, .headers = {header}}, most_attempts);
        if (roles.status == not_found) return std::nullopt;
        const std::string role = text_of(roles).substr(0, roles.text.find('\n'));
        const Answer keys =
            answer({.url = folder + percent_encoded(role), .headers = {header}}, most_attempts);
        return named(read(parse_keys_json, text_of(keys)),
                     "the role " + one_line(role, 80) + " of this instance");
    }

    Keys of_container() {
        Request request{.url = service_.url};
        const std::string authorization =
            service_.token_file.empty()
                ? service_.authorization
                : read_token(service_.token_file, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        if (!authorization.empty()) request.headers.push_back("Authorization: " + authorization);
        return named(read(parse_keys_json, text_of(answer(std::move(request), most_attempts))),
                     "this container");
    }

    Keys of_web_identity() {
        const std::string token = read_token(service_.token_file, "AWS_WEB_IDENTITY_TOKEN_FILE");
        Request request{.url = service_.url + "/", .method = "POST"};
        request.body = fmt::format(
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName={}&"
            "WebIdentityToken={}",
            percent_encoded(service_.role), percent_encoded(service_.session), percent_encoded(token));
        return named(read(parse_keys_xml, text_of(answer(std::move(request), most_attempts))),
                     "the role " + one_line(service_.role, 120));
    }

    Keys of_process() {
        std::string output;
        try {
            output = output_of_command(service_.command, service_.patience,
                                       [this] { return transfers_.has_ended(); });
        } catch (const Error& error) {
            throw refused(error.what());
        }
        return named(read(parse_keys_json, output),
                     "the credential_process of the profile " + one_line(service_.profile, 80));
    }

  private:
    static constexpr int ok = 200, not_found = 404;
    // No answer; what an instance without the service says, and what others have at its address.
    static constexpr std::array no_instance = {0, 400, 403, not_found, 405};

    // without_answer: the attempts where nobody answers.
    Answer answer(Request request, unsigned attempts, unsigned without_answer = most_attempts) {
        request.most_text = largest_answer;
        request.is_direct = service_.kind != KeyService::Kind::web_identity;
        for (unsigned i = 1;; ++i) {
            std::promise<Answer> promise;
            const auto now = Transfers::Clock::now();
            transfers_.start(request, now, now + service_.patience, service_.patience,
                             [&promise](Answer got) { promise.set_value(std::move(got)); });
            Answer got = promise.get_future().get();
            const bool is_passing = got.status == 0 || got.status == 429 || got.status >= 500;
            const unsigned most = got.status == 0 ? without_answer : attempts;
            if (!is_passing || got.is_lasting || got.was_ended || i >= most) return got;
            std::this_thread::sleep_for(pause_after_failure * i);
        }
    }

    const std::string& text_of(const Answer& answer) const {
        if (answer.status == ok && answer.failure.empty()) return answer.text;
        if (answer.status == 0 || answer.status == ok) throw refused(answer.failure);
        const std::string words = words_of(answer.text);
        throw refused(
            fmt::format("it answered {}{}", answer.status, words.empty() ? "" : " (" + words + ")"));
    }

    template <typename Parse>
    Keys read(Parse parse, const std::string& text) const {
        try {
            return parse(text);
        } catch (const Error& error) {
            throw refused(error.what());
        }
    }

    static Keys named(Keys keys, std::string origin) {
        keys.origin = std::move(origin);
        return keys;
    }

    Error refused(const std::string& why) const {
        if (service_.kind == KeyService::Kind::process)  // its arguments may have what is secret
            return Error(
                Status::io,
                fmt::format("keys were asked of the credential_process of the profile {}: {}; run it by "
                            "hand: it writes {{\"Version\": 1, \"AccessKeyId\": ..., "
                            "\"SecretAccessKey\": ...}}",
                            one_line(service_.profile, 80), why));
        const char* const advice =
            service_.kind == KeyService::Kind::web_identity
                ? "check AWS_ROLE_ARN, that the role trusts the token in AWS_WEB_IDENTITY_TOKEN_FILE, and "
                  "AWS_REGION"
            : service_.kind == KeyService::Kind::container
                ? "check AWS_CONTAINER_CREDENTIALS_FULL_URI and the role of the task or pod"
                : "check the role of this instance, or set AWS_EC2_METADATA_DISABLED=true to do without it";
        return Error(Status::io, fmt::format("keys were asked for at {}: {}; {}",
                                             one_line(parse_url(service_.url).shown(), 120), why, advice));
    }

    const KeyService& service_;
    Transfers& transfers_;
};

}  // namespace

std::optional<KeyService> find_web_identity(const Environment& environment, const std::string& region) {
    const EnvironmentReader reader(environment);
    const auto file = reader.text("AWS_WEB_IDENTITY_TOKEN_FILE"), role = reader.text("AWS_ROLE_ARN");
    if (!file) return std::nullopt;
    if (!role)
        throw Error(Status::invalid_argument,
                    "AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not; set both, or neither");
    const auto endpoint = reader.text("AWS_ENDPOINT_URL_STS");
    std::string url = endpoint ? *endpoint : fmt::format("https://sts.{}.amazonaws.com", region);
    while (url.ends_with('/')) url.pop_back();
    return KeyService{.kind = KeyService::Kind::web_identity,
                      .url = std::move(url),
                      .patience = usual_patience,
                      .token_file = *file,
                      .authorization = "",
                      .role = *role,
                      .session = reader.text("AWS_ROLE_SESSION_NAME").value_or("hocket"),
                      .command = "",
                      .profile = ""};
}

std::optional<KeyService> find_local_service(const Environment& environment) {
    const EnvironmentReader reader(environment);
    const auto relative = reader.text("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
               full = reader.text("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (relative || full) {
        if (!relative) check_is_near(*full);
        return KeyService{.kind = KeyService::Kind::container,
                          .url = relative ? "http://169.254.170.2" + *relative : *full,
                          .patience = usual_patience,
                          .token_file = reader.text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").value_or(""),
                          .authorization = reader.text("AWS_CONTAINER_AUTHORIZATION_TOKEN").value_or(""),
                          .role = "",
                          .session = "",
                          .command = "",
                          .profile = ""};
    }
    if (lower(reader.text("AWS_EC2_METADATA_DISABLED").value_or("")) == "true") return std::nullopt;
    std::string url = reader.text("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or("http://169.254.169.254");
    while (url.ends_with('/')) url.pop_back();
    return KeyService{.kind = KeyService::Kind::instance,
                      .url = std::move(url),
                      .patience = patience_with_instance(reader),
                      .token_file = "",
                      .authorization = "",
                      .role = "",
                      .session = "",
                      .command = "",
                      .profile = ""};
}

KeyService service_of_command(std::string command, std::string profile) {
    return KeyService{.kind = KeyService::Kind::process,
                      .url = "",
                      .patience = patience_with_command,
                      .token_file = "",
                      .authorization = "",
                      .role = "",
                      .session = "",
                      .command = std::move(command),
                      .profile = std::move(profile)};
}

std::optional<Keys> ask_for_keys(const KeyService& service, Transfers& transfers) {
    Asking asking(service, transfers);
    switch (service.kind) {
        case KeyService::Kind::instance:
            return asking.of_instance();
        case KeyService::Kind::container:
            return asking.of_container();
        case KeyService::Kind::process:
            return asking.of_process();
        case KeyService::Kind::web_identity:
            break;
    }
    return asking.of_web_identity();
}

}  // namespace hocket::cache
