#include "runtime/cache/objects/key_service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <future>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dsl/base/named_file.hpp"
#include "runtime/base/error.hpp"
#include "runtime/cache/objects/key_command.hpp"
#include "runtime/cache/objects/site.hpp"
#include "runtime/cache/objects/url.hpp"

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t largest_answer = 1 << 20, largest_token = 1 << 16;
constexpr std::chrono::milliseconds patience_with_command = 60s, pause_after_failure = 200ms;
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
        if (!token.empty()) secrets_ = {token};
        Request request{.url = service_.url + "/", .method = "POST"};
        request.body = fmt::format(
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName={}&"
            "WebIdentityToken={}",
            percent_encoded(service_.role), percent_encoded(service_.session), percent_encoded(token));
        return of_sts(std::move(request), "AssumeRoleWithWebIdentity");
    }

    // signing: the keys of its source.
    Keys of_role(const Keys& signing) {
        Request request{.url = service_.url + "/", .method = "POST"};
        request.signer = Signer{fmt::format("aws:amz:{}:sts", service_.region), signing.id, signing.secret};
        request.body = fmt::format("Action=AssumeRole&Version=2011-06-15&RoleArn={}&RoleSessionName={}",
                                   percent_encoded(service_.role), percent_encoded(service_.session));
        if (!service_.duration.empty()) request.body += "&DurationSeconds=" + service_.duration;
        if (!service_.external_id.empty())
            request.body += "&ExternalId=" + percent_encoded(service_.external_id);
        signed_by_ = signing.shown();
        secrets_ = {signing.secret};
        if (!signing.token.empty()) {
            request.headers.push_back("x-amz-security-token: " + signing.token);
            secrets_.push_back(signing.token);
        }
        return of_sts(std::move(request), "AssumeRole");
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

    // To be thrown where the source of a role has no keys.
    Error lacks_source() const {
        return refused("this instance has no role, whose keys the profile's credential_source names");
    }

  private:
    Keys of_sts(Request request, const char* action) {
        const std::string text = text_of(answer(std::move(request), most_attempts));
        return named(read([&](std::string_view xml) { return parse_keys_xml(xml, action); }, text),
                     "the role " + one_line(service_.role, 120));
    }

    static constexpr int ok = 200, not_found = 404;
    // No answer; what an instance without the service says, and what others have at its address.
    static constexpr std::array no_instance = {0, 400, 403, not_found, 405};

    // without_answer: the attempts where nobody answers.
    Answer answer(Request request, unsigned attempts, unsigned without_answer = most_attempts) {
        request.most_text = largest_answer;
        // Those of this host have nothing to do with a proxy, which would see the keys.
        request.is_direct =
            service_.kind == KeyService::Kind::container || service_.kind == KeyService::Kind::instance;
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
        const std::string words = words_of(answer.text, secrets_);
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
        return Error(Status::io, fmt::format("keys were asked for at {}: {}; {}",
                                             one_line(parse_url(service_.url).shown(), 120), why, advice()));
    }

    std::string advice() const {
        if (service_.kind == KeyService::Kind::role)
            return fmt::format(
                "{}; check the role_arn of the profile {}, that this role trusts them (external_id), and "
                "AWS_REGION",
                signed_by_.empty() ? "nobody was asked" : signed_by_ + " were used",
                one_line(service_.profile, 80));
        return service_.kind == KeyService::Kind::web_identity
                   ? "check AWS_ROLE_ARN, that the role trusts the token in AWS_WEB_IDENTITY_TOKEN_FILE, and "
                     "AWS_REGION"
               : service_.kind == KeyService::Kind::container
                   ? "check AWS_CONTAINER_CREDENTIALS_FULL_URI and the role of the task or pod"
                   : "check the role of this instance, or set AWS_EC2_METADATA_DISABLED=true to do without "
                     "it";
    }

    const KeyService& service_;
    Transfers& transfers_;
    std::vector<std::string> secrets_;  // which STS's words may repeat
    std::string signed_by_;             // the keys with which a role was asked for, in words
};

}  // namespace

std::string address_of_sts(const Environment& environment, const std::string& region) {
    std::string url = EnvironmentReader(environment)
                          .text("AWS_ENDPOINT_URL_STS")
                          .value_or(fmt::format("https://sts.{}.amazonaws.com", region));
    while (url.ends_with('/')) url.pop_back();
    return url;
}

std::optional<KeyService> find_web_identity(const Environment& environment, const std::string& region) {
    const EnvironmentReader reader(environment);
    const auto file = reader.text("AWS_WEB_IDENTITY_TOKEN_FILE"), role = reader.text("AWS_ROLE_ARN");
    if (!file) return std::nullopt;
    if (!role)
        throw Error(Status::invalid_argument,
                    "AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not; set both, or neither");
    KeyService service{.kind = KeyService::Kind::web_identity};
    service.url = address_of_sts(environment, region);
    service.patience = usual_patience;
    service.token_file = *file;
    service.role = *role;
    service.session = reader.text("AWS_ROLE_SESSION_NAME").value_or("hocket");
    return service;
}

std::optional<KeyService> find_container(const Environment& environment) {
    const EnvironmentReader reader(environment);
    const auto relative = reader.text("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
               full = reader.text("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (!relative && !full) return std::nullopt;
    if (!relative) check_is_near(*full);
    KeyService service{.kind = KeyService::Kind::container};
    service.url = relative ? "http://169.254.170.2" + *relative : *full;
    service.patience = usual_patience;
    service.token_file = reader.text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").value_or("");
    service.authorization = reader.text("AWS_CONTAINER_AUTHORIZATION_TOKEN").value_or("");
    return service;
}

std::optional<KeyService> find_instance(const Environment& environment) {
    const EnvironmentReader reader(environment);
    if (lower(reader.text("AWS_EC2_METADATA_DISABLED").value_or("")) == "true") return std::nullopt;
    KeyService service{.kind = KeyService::Kind::instance};
    service.url = reader.text("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or("http://169.254.169.254");
    while (service.url.ends_with('/')) service.url.pop_back();
    service.patience = patience_with_instance(reader);
    return service;
}

std::optional<KeyService> find_local_service(const Environment& environment) {
    auto service = find_container(environment);
    return service ? service : find_instance(environment);
}

KeyService service_of_command(std::string command, std::string profile) {
    KeyService service{.kind = KeyService::Kind::process};
    service.patience = patience_with_command;
    service.command = std::move(command);
    service.profile = std::move(profile);
    return service;
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
        case KeyService::Kind::role: {
            // As many services as profiles name each other; RoleFinder refuses circles.
            const auto signing =
                service.source_keys ? service.source_keys : ask_for_keys(*service.source, transfers);
            if (!signing) throw asking.lacks_source();
            return asking.of_role(*signing);
        }
        case KeyService::Kind::web_identity:
            break;
    }
    return asking.of_web_identity();
}

}  // namespace hocket::cache
