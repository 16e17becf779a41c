// Addresses, credentials, lists and checksums of objects, without a server. tests/python/sources_test.py has
// the servers.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <future>
#include <map>
#include <random>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/checksums.hpp"
#include "runtime/cache/objects/credentials.hpp"
#include "runtime/cache/objects/key_command.hpp"
#include "runtime/cache/objects/keys.hpp"
#include "runtime/cache/objects/listing.hpp"
#include "runtime/cache/objects/profiles.hpp"
#include "runtime/cache/objects/site.hpp"
#include "runtime/cache/objects/transfers.hpp"
#include "runtime/cache/objects/url.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using Catch::Contains;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern int accepted_urls, accepted_pages, listed_objects, found_values, s3_errors, accepted_keys;

namespace {

const std::string page =
    "<?xml version=\"1.0\"?>\n<ListBucketResult "
    "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>"
    "<IsTruncated>true</IsTruncated><NextContinuationToken>1/t+o=</NextContinuationToken>"
    "<Contents><Key>a &amp; "
    "b/&#252;</Key><LastModified>x</LastModified><ETag>&quot;e1&quot;</ETag><Size>12</Size>"
    "<Owner><ID>1</ID></Owner></Contents>"
    "<Contents><Key>z</Key><Size>0</Size></Contents></ListBucketResult>";

std::string refusal_of(const std::string& xml) {
    try {
        parse_object_page(xml);
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing";
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
    return text.replace(text.find(what), what.size(), by);
}

Environment environment_of(std::map<std::string, std::string>& values) {
    return [&values](const char* name) { return values.contains(name) ? values[name].c_str() : nullptr; };
}

std::string said_by(const std::string& url, const std::string& body) {
    std::map<std::string, std::string> none{{"AWS_EC2_METADATA_DISABLED", "true"}};
    Answer answer;
    answer.status = 403;
    answer.text = body;
    return open_site(parse_url(url), false, environment_of(none))->refusal(answer, "").said;
}

// Takes connections, and says nothing.
class SilentServer {
  public:
    SilentServer() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        address_.sin_family = AF_INET;
        address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto* const address = reinterpret_cast<sockaddr*>(&address_);
        socklen_t size = sizeof address_;
        REQUIRE(::bind(socket_, address, size) == 0);
        REQUIRE(::listen(socket_, 8) == 0);
        REQUIRE(::getsockname(socket_, address, &size) == 0);
    }
    ~SilentServer() { ::close(socket_); }

    std::string url() const { return "http://127.0.0.1:" + std::to_string(ntohs(address_.sin_port)) + "/"; }

  private:
    const int socket_;
    sockaddr_in address_{};
};

std::string difference(const std::string& header, const std::string& value, const std::string& body) {
    Answer answer;
    answer.headers[header] = value;
    return checksum_mismatch(answer, std::as_bytes(std::span(body)));
}

}  // namespace

TEST_CASE("an address is taken apart, and shown without what is secret") {
    const Url url = parse_url("HTTPS://name:pass@host.example:8443/a/b%20c?sig=1&x#part");
    CHECK(url.scheme == "https");
    CHECK(url.user == "name:pass");
    CHECK(url.host == "host.example:8443");
    CHECK(url.path == "/a/b%20c");
    CHECK(url.query == "sig=1&x");
    CHECK(url.shown() == "https://host.example:8443/a/b%20c");
    CHECK(url.whole() == "https://name:pass@host.example:8443/a/b%20c?sig=1&x");
    CHECK(parse_url("s3://bucket/a?b#c d").path == "/a?b#c d");
    for (const char* path : {"/data/x", "data", "a:/b", "C:\\x", "://x", "", "a b://c"})
        CHECK_FALSE(is_url(path));
    for (const char* wrong : {"ftp://x/y", "http://", "http:///x", "s3://", "s3://a@b/c", "s3://b:1/c",
                              "http://x/a b", "http://x\n/", "file:///x"})
        CHECK_THROWS_AS(parse_url(wrong), Error);
}

TEST_CASE("names are encoded as signatures need it") {
    CHECK(percent_encoded("a/b c+\xc3\xbc~-._", "/") == "a/b%20c%2B%C3%BC~-._");
    CHECK(percent_decoded("%41%2fb%C3%bc") == "A/b\xc3\xbc");
    for (const char* wrong : {"%", "%4", "%4g", "a%"}) CHECK_THROWS_AS(percent_decoded(wrong), Error);
    CHECK(one_line("\n a\tb\r\n\x01 c \n") == "a b c");
}

TEST_CASE("credentials come from the environment, or else from a profile") {
    std::map<std::string, std::string> values{{"HOME", "/nonexistent"}};
    CHECK_FALSE(find_s3_settings(environment_of(values)).keys);
    CHECK(find_s3_settings(environment_of(values)).region == "us-east-1");
    values["AWS_ACCESS_KEY_ID"] = "AKIAIOSFODNN7EXAMPLE";
    CHECK_THROWS_WITH(find_s3_settings(environment_of(values)), Contains("AWS_SECRET_ACCESS_KEY is not"));
    values["AWS_SECRET_ACCESS_KEY"] = "s";
    values["AWS_DEFAULT_REGION"] = "eu-1";
    values["AWS_ENDPOINT_URL"] = "http://x:1//";
    const S3Settings found = find_s3_settings(environment_of(values));
    CHECK(found.keys->shown() == "the keys of the environment (...MPLE)");
    CHECK(found.region == "eu-1");
    CHECK(found.endpoint == "http://x:1");
    CHECK(profile_value("[a]\nk=1\n[ b ]\r\n k = 2 \n#k=3\nk = 4 = 5\r\n", "b", "k") == "4 = 5");
}

TEST_CASE("services that give keys are found in their turn") {
    std::map<std::string, std::string> values{{"HOME", "/nonexistent"}};
    const auto kind = [&] { return find_s3_settings(environment_of(values)).service->kind; };
    CHECK(kind() == KeyService::Kind::instance);
    values["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/x";
    CHECK(kind() == KeyService::Kind::container);
    CHECK(find_s3_settings(environment_of(values)).service->url == "http://169.254.170.2/v2/x");
    values["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/t";
    CHECK_THROWS_WITH(kind(), Contains("AWS_ROLE_ARN is not"));
    values["AWS_ROLE_ARN"] = "r";
    CHECK(kind() == KeyService::Kind::web_identity);
    values["AWS_ACCESS_KEY_ID"] = values["AWS_SECRET_ACCESS_KEY"] = "k";
    CHECK_FALSE(find_s3_settings(environment_of(values)).service);
    for (const char* disabled : {"true", "True", "TRUE"}) {
        values = {{"HOME", "/nonexistent"}, {"AWS_EC2_METADATA_DISABLED", disabled}};
        CHECK_FALSE(find_s3_settings(environment_of(values)).service);
    }
    for (const char* near : {"http://127.0.0.1:80/x", "http://localhost/x", "http://[::1]:9/x",
                             "https://far/x", "http://169.254.170.23/v1/credentials"}) {
        values["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = near;
        CHECK(kind() == KeyService::Kind::container);
    }
    for (const char* far : {"http://far/x", "http://127.0.0.1.far:80/x", "http://169.254.169.254/x"}) {
        values["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = far;
        CHECK_THROWS_WITH(kind(), Contains("from this host, or by https"));
    }
}

TEST_CASE("the command of a profile comes after its keys, and before services") {
    const test::TemporaryFolder folder;
    const std::string config = folder.path() + "/config", credentials = folder.path() + "/credentials";
    std::map<std::string, std::string> values{{"AWS_CONFIG_FILE", config},
                                              {"AWS_SHARED_CREDENTIALS_FILE", credentials},
                                              {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"}};
    std::ofstream(config)
        << ("[default]\ncredential_process = /bin/keys --of \"a b\"\n[profile p]\nregion = r\n");
    const S3Settings found = find_s3_settings(environment_of(values));
    CHECK_FALSE(found.keys);
    CHECK(found.service->kind == KeyService::Kind::process);
    CHECK(found.service->command == "/bin/keys --of \"a b\"");
    std::ofstream(credentials) << ("[default]\naws_access_key_id = i\naws_secret_access_key = s\n");
    CHECK(find_s3_settings(environment_of(values)).keys->id == "i");
    values["AWS_PROFILE"] = "p";
    CHECK_THROWS_WITH(find_s3_settings(environment_of(values)),
                      Contains("nor one with a role_arn or a credential_process"));
}

TEST_CASE("the profile in use is refused if its keys are those of a login, named or not") {
    const test::TemporaryFolder folder;
    const std::string config = folder.path() + "/config";
    for (const char* line : {"sso_session = s", "sso_start_url = u"})
        for (const char* name : {"default", "p"}) {
            std::ofstream(config) << "[default]\n" << line << "\n[profile p]\n" << line << "\n";
            std::map<std::string, std::string> values{{"HOME", "/nonexistent"}, {"AWS_CONFIG_FILE", config}};
            if (name == std::string("p")) values["AWS_PROFILE"] = name;
            CHECK_THROWS_WITH(find_s3_settings(environment_of(values)),
                              Contains(std::string("export-credentials --profile ") + name));
            values["AWS_ACCESS_KEY_ID"] = values["AWS_SECRET_ACCESS_KEY"] = "k";
            CHECK(find_s3_settings(environment_of(values)).keys);
        }
}

TEST_CASE("a role of the profile comes after keys of the environment, and before all else") {
    const test::TemporaryFolder folder;
    const std::string config = folder.path() + "/config", credentials = folder.path() + "/credentials";
    std::map<std::string, std::string> values{
        {"AWS_CONFIG_FILE", config},           {"AWS_SHARED_CREDENTIALS_FILE", credentials},
        {"AWS_WEB_IDENTITY_TOKEN_FILE", "/t"}, {"AWS_ROLE_ARN", "of a pod"},
        {"AWS_EC2_METADATA_DISABLED", "true"}, {"AWS_REGION", "eu-1"}};
    std::ofstream(credentials) << "[default]\naws_access_key_id = i\naws_secret_access_key = s\n";
    const auto settings_with = [&](const std::string& text) {
        std::ofstream(config) << text;
        return find_s3_settings(environment_of(values));
    };
    CHECK(settings_with("").service->role == "of a pod");
    const KeyService role =
        *settings_with(
             "[default]\nrole_arn = r\nsource_profile = default\nexternal_id = e\nduration_seconds = 900\n")
             .service;
    CHECK(role.kind == KeyService::Kind::role);
    CHECK(role.url == "https://sts.eu-1.amazonaws.com");
    CHECK(role.source_keys->id == "i");
    CHECK((role.role + role.session + role.external_id + role.duration) == "rhockete900");
    const KeyService chain = *settings_with(
                                  "[default]\nrole_arn = r\nsource_profile = a\n[profile a]\nrole_arn = "
                                  "q\nsource_profile = b\n[profile b]\ncredential_process = x\n")
                                  .service;
    CHECK(chain.source->role == "q");
    CHECK(chain.source->source->kind == KeyService::Kind::process);
    const KeyService token = *settings_with(
                                  "[default]\nrole_arn = r\nsource_profile = a\n[profile a]\nrole_arn = "
                                  "q\nweb_identity_token_file = /u\n")
                                  .service;
    CHECK(token.source->kind == KeyService::Kind::web_identity);
    CHECK(token.source->token_file == "/u");
    values["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/x";
    CHECK(
        settings_with("[default]\nrole_arn = r\ncredential_source = EcsContainer\n").service->source->kind ==
        KeyService::Kind::container);
    values["AWS_ACCESS_KEY_ID"] = values["AWS_SECRET_ACCESS_KEY"] = "k";
    CHECK(settings_with("[default]\nrole_arn = r\nsource_profile = default\n").keys);
}

TEST_CASE("the keys of a profile stand in either file, and its token in its settings") {
    const test::TemporaryFolder folder;
    const std::string config = folder.path() + "/config";
    std::map<std::string, std::string> values{{"HOME", "/nonexistent"}, {"AWS_CONFIG_FILE", config}};
    std::ofstream(config) << "[default]\naws_access_key_id = i\naws_secret_access_key = s\n"
                             "[profile p]\nrole_arn = r\nweb_identity_token_file = /t\n";
    CHECK(find_s3_settings(environment_of(values)).keys->id == "i");
    values["AWS_PROFILE"] = "p";
    CHECK(find_s3_settings(environment_of(values)).service->token_file == "/t");
}

TEST_CASE("roles that cannot be asked for are refused with their profile") {
    const test::TemporaryFolder folder;
    const std::string config = folder.path() + "/config";
    std::map<std::string, std::string> values{
        {"HOME", "/nonexistent"}, {"AWS_CONFIG_FILE", config}, {"AWS_EC2_METADATA_DISABLED", "true"}};
    const std::vector<std::array<std::string, 2>> cases{
        {"", "profile default has a role_arn, and neither source_profile nor credential_source"},
        {"source_profile = a\ncredential_source = Environment\n", "both source_profile and"},
        {"source_profile = a\nmfa_serial = m\n", "export-credentials --profile default --format env"},
        {"source_profile = a\nduration_seconds = 899\n",
         "duration_seconds 899; it is a number from 900 to 43200"},
        {"source_profile = a\nduration_seconds = long\n", "duration_seconds long"},
        {"source_profile = none\n", "profile none is the source_profile of default, and has no keys"},
        {"source_profile = default\n", "is asked for by its own"},
        {"source_profile = a\n[profile a]\nrole_arn = q\nsource_profile = default\n",
         "profile default is the source_profile of a role that is asked for by its own"},
        {"source_profile = a\n[profile a]\nsso_session = s\n", "export-credentials --profile a"},
        {"credential_source = Environment\n", "AWS_ACCESS_KEY_ID is not set"},
        {"credential_source = EcsContainer\n", "are not set"},
        {"credential_source = Ec2InstanceMetadata\n", "AWS_EC2_METADATA_DISABLED is true"},
        {"credential_source = Elsewhere\n", "credential_source Elsewhere; it is Environment"}};
    for (const auto& [lines, words] : cases) {
        std::ofstream(config) << "[default]\nrole_arn = r\n" << lines;
        CHECK_THROWS_WITH(find_s3_settings(environment_of(values)), Contains(words));
    }
}

TEST_CASE("a command that gives keys ends with its shell, whatever becomes of its output") {
    using namespace std::chrono_literals;
    const auto never = [] { return false; };
    // Its child has the output open.
    const std::string child = output_of_command("sleep 1000 & echo $!", 60s, never);
    const auto left = static_cast<pid_t>(std::stoi(child));
    CHECK(::kill(left, 0) == 0);
    ::kill(left, SIGKILL);
    const std::string silent = "echo keys; exec >&-; sleep 1000";
    CHECK_THROWS_WITH(output_of_command(silent, 200ms, never), Contains("has not ended within 200 ms"));
    int questions = 0;
    CHECK_THROWS_WITH(output_of_command(silent, 1h, [&] { return ++questions > 5; }),
                      Contains("being closed"));
    CHECK(output_of_command("echo early; exec >&-; sleep 0.1", 60s, never) == "early\n");
    CHECK_THROWS_WITH(output_of_command("exec >&-; exit 3", 60s, never), Contains("the exit code 3"));
    const std::string many(100'000, 'k');  // more than a pipe holds
    CHECK(output_of_command("printf %100000s | tr ' ' k", 60s, never) == many);
}

TEST_CASE("times at which keys end are read, or are none") {
    using namespace std::chrono;
    CHECK(parse_time("2026-11-29T06:07:08Z") == sys_days(2026y / November / 29) + 6h + 7min + 8s);
    CHECK(parse_time("2026-11-29T06:07:08.125Z") == parse_time("2026-11-29T06:07:08Z"));
    CHECK(parse_time("9999-12-31T23:59:59Z") == floor<seconds>(system_clock::time_point::max()));
    CHECK(parse_time("0001-01-01T00:00:00Z") == system_clock::time_point());
    const auto six = parse_time("2026-11-29T06:00:00Z");
    for (const char* same : {"2026-11-29T06:00:00+00:00", "2026-11-29T06:00:00-00:00",
                             "2026-11-29T07:30:00.000001+01:30", "2026-11-28T20:00:00-10:00"})
        CHECK(parse_time(same) == six);
    CHECK(parse_time("1970-01-01T01:00:00+02:00") == system_clock::time_point());
    for (const char* none : {"",
                             "Z",
                             "+00:00",
                             "2026-11-29",
                             "2026-11-29T06:07:08",
                             "2026-13-29T06:07:08Z",
                             "2026-02-30T06:07:08Z",
                             "2026-11-29T24:07:08Z",
                             "2026-11-29T06:60:08Z",
                             "2026-11-29T06:07:08+01:00Z",
                             "2026-11-29T06:07:08.Z",
                             "2026-11-29 06:07:08Z",
                             "-026-11-29T06:07:08Z",
                             "2026-11-29T06:07:08+0100",
                             "2026-11-29T06:07:08 01:00",
                             "2026-11-29T06:07:08+24:00",
                             "2026-11-29T06:07:08+01:60",
                             "2026-11-29T06:07:08+-1:00",
                             "2026-11-29T06:07:08.+01:00",
                             "2026-11-29T06:07+01:00",
                             "2026-11-29T06:07:08++01:00"})
        CHECK_FALSE(parse_time(none));
    // Every second of some days, written by another hand.
    std::mt19937 random(3);
    for (int i = 0; i < 20'000; ++i) {
        const std::time_t seconds_since =
            std::uniform_int_distribution<std::time_t>(0, 4'000'000'000)(random);
        std::tm parts{};
        ::gmtime_r(&seconds_since, &parts);
        char text[32];
        std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
        REQUIRE(parse_time(text) == system_clock::from_time_t(seconds_since));
    }
}

TEST_CASE("buckets have addresses of their own, or below an endpoint") {
    std::map<std::string, std::string> values{
        {"HOME", "/nonexistent"}, {"AWS_REGION", "eu-1"}, {"AWS_EC2_METADATA_DISABLED", "true"}};
    const auto headers = [&](const char* url) {
        return open_site(parse_url(url), true, environment_of(values))->request("x").headers;
    };
    CHECK(headers("s3://bucket") == std::vector<std::string>{"x-amz-checksum-mode: ENABLED"});
    CHECK(headers("http://host/")
              .empty());  // a signed address may be refused with a header that it does not have
    const auto address = [&](const char* url, const char* name) {
        return open_site(parse_url(url), true, environment_of(values))->request(name).url;
    };
    CHECK(address("s3://bucket/p q", "ü") == "https://bucket.s3.eu-1.amazonaws.com/p%20q/%C3%BC");
    CHECK(address("s3://a.b", "x") == "https://s3.eu-1.amazonaws.com/a.b/x");
    values["AWS_ENDPOINT_URL"] = "http://here:9000/";
    CHECK(address("s3://bucket/p/", "x") == "http://here:9000/bucket/p/x");
    CHECK(address("http://h/d?s=1", "x y") == "http://h/d/x%20y?s=1");
    values["AWS_ENDPOINT_URL"] = "here:9000";
    CHECK_THROWS_AS(address("s3://bucket/p/", "x"), Error);
}

TEST_CASE("a page of a list is read, and one that contradicts itself is refused") {
    const ObjectPage read = parse_object_page(page);
    CHECK(read.objects == std::vector<ListedObject>{{"a & b/\xc3\xbc", 12, "\"e1\""}, {"z", 0, ""}});
    CHECK(read.next == "1/t+o=");
    CHECK(parse_object_page(replaced(page, "true", "false")).next.empty());
    // Some servers' lists have ETags without the quotation marks that answers have.
    CHECK(parse_object_page(replaced(page, "&quot;e1&quot;", "e1")).objects[0].etag == "\"e1\"");
    CHECK(parse_object_page(replaced(page, "&quot;e1&quot;", "W/&quot;e1&quot;")).objects[0].etag ==
          "W/\"e1\"");
    CHECK_THAT(refusal_of(page.substr(0, page.size() - 5)), Contains("in line"));
    CHECK_THAT(refusal_of(replaced(page, "<Size>12</Size>", "")), Contains("without key or size"));
    CHECK_THAT(refusal_of(replaced(page, ">12<", ">-1<")), Contains("no number"));
    CHECK_THAT(refusal_of(replaced(page, "1/t+o=", "")), Contains("no token"));
    CHECK_THAT(refusal_of("<html/>"), Contains("no ListBucketResult"));
    CHECK(refusal_of("<!DOCTYPE a [<!ENTITY b \"c\">]>" + page.substr(22)) != "nothing");
    const S3Error error =
        parse_s3_error("<Error><Code>C</Code><Message>M</Message><Region>R</Region></Error>");
    CHECK((error.code == "C" && error.message == "M" && error.region == "R"));
    CHECK(parse_s3_error("not XML").code.empty());
}

TEST_CASE("keys that are encoded are decoded, and an ETag that would be further lines is refused") {
    const std::string encoded = "<EncodingType>url</EncodingType><IsTruncated>";
    const auto keys_of = [&](const std::string& key) {
        return replaced(replaced(page, "<IsTruncated>", encoded), "a &amp; b/&#252;", key);
    };
    CHECK(parse_object_page(keys_of("a+%2B%0A/%C3%BC")).objects.front().key == "a +\n/\xc3\xbc");
    CHECK(parse_object_page(replaced(page, "a &amp; b/&#252;", "a+%41")).objects.front().key == "a+%41");
    CHECK_THAT(refusal_of(keys_of("%4")), Contains("not encoded"));
    CHECK_THAT(refusal_of(replaced(page, "&quot;e1&quot;", "&quot;e1&#13;&#10;X: y&quot;")),
               Contains("ETag"));
}

TEST_CASE("what a server says is shown without the secrets of the address, however it writes them") {
    const std::string signature(300, 's'), query = "id=public&sig=" + signature + "&t=a%2Fb%3D%3D";
    const std::string url = "http://name:pass%21word@host/x?" + query;
    CHECK(said_by(url, "wrong: " + query + " !") == "wrong: ... !");
    CHECK(said_by(url, "no: <p>id=public&amp;sig=" + signature + "&amp;t=1</p>") ==
          "no: <p>id=...&amp;sig=...&amp;t=1</p>");
    CHECK(said_by(url, "\n<html><p>id=public&amp;sig=" + signature + "</p></html>").empty());
    CHECK(said_by(url, std::string(110, '-') + signature) == std::string(110, '-') + "...");
    CHECK(said_by(url, "t is a/b==, or a%2Fb%3D%3D") == "t is ..., or ...");
    CHECK(said_by(url, "pass!word pass%21word of name") == "... ... of ...");
    CHECK(said_by(url, "<Error><Code>C</Code><Message>" + std::string(290, '-') + signature +
                           "</Message></Error>") == "C: " + std::string(290, '-') + "...");
    CHECK(said_by("http://host/x?v=1", "1 of 10") == "1 of 10");
}

// The values are those of the algorithms' definitions, for "123456789".
TEST_CASE("checksums of servers are compared with the bytes that came") {
    const std::map<std::string, std::string> right{
        {"x-amz-checksum-crc32", "y/Q5Jg=="},
        {"x-amz-checksum-crc32c", "4waSgw=="},
        {"x-amz-checksum-crc64nvme", "rosUhgp5mIg="},
        {"x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="},
        {"x-amz-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="},
        {"content-md5", "JfnnlDI7RTiF9RgfG2JNCw=="}};
    for (const auto& [header, value] : right) {
        CAPTURE(header);
        CHECK(difference(header, value, "123456789").empty());
        CHECK_THAT(difference(header, value, "12345678."), Contains(header));
        CHECK_THAT(difference(header, "x" + value.substr(1), "123456789"), Contains(value));
    }
    CHECK_THAT(difference("content-md5", "\x1b[2J", "123456789"), Contains("content-md5 is [2J,"));
    CHECK(difference("x-amz-checksum-crc32", "AAAAAA==-3", "123456789").empty());  // of three parts
}

TEST_CASE("a request that waits for others ends when its time is up") {
    using namespace std::chrono_literals;
    const SilentServer server;
    std::promise<Answer> first, second;
    Transfers transfers;
    transfers.limit(1);
    const auto start = [&](std::promise<Answer>& promise, std::chrono::milliseconds time) {
        const auto now = Transfers::Clock::now();
        transfers.start({.url = server.url()}, now, now + time, time,
                        [&promise](Answer answer) { promise.set_value(std::move(answer)); });
    };
    start(first, 1h);
    start(second, 200ms);
    auto answer = second.get_future();
    const bool has_ended = answer.wait_for(30s) == std::future_status::ready;
    transfers.end();
    CHECK(has_ended);
    CHECK_THAT(answer.get().failure, Contains("the time was up before others had ended"));
    CHECK(first.get_future().get().was_ended);
}

TEST_CASE("arbitrary addresses, credentials and lists are read or refused") {
    std::mt19937 random(1);
    const auto below = [&](std::size_t end) {
        return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
    };
    const std::vector<std::string> seeds{
        page,
        replaced(page, "true", "false"),
        replaced(page, "<IsTruncated>", "<EncodingType>url</EncodingType><IsTruncated>"),
        "https://u:p@h:1/p?q#f",
        "s3://b/k/%41",
        "http://[::1]:80/",
        "[default]\nregion = x\nk=1\n\n# c\n[a]\nk = 2 ; 3\n",
        "<Error><Code>A</Code><Message>m</Message></Error>",
        R"({"AccessKeyId": "A", "SecretAccessKey": "s", "Token": "t", "Expiration": "2026-11-29T06:07:08Z"})",
        "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>A</AccessKeyId>"
        "<SecretAccessKey>s</SecretAccessKey></Credentials></AssumeRoleResult></AssumeRoleResponse>",
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A</"
        "AccessKeyId>"
        "<SecretAccessKey>s</SecretAccessKey></Credentials></AssumeRoleWithWebIdentityResult></"
        "AssumeRoleWithWebIdentityResponse>"};
    const int rounds = test::in_long_form(80'000, 20'000);
    for (int round = 0; round < rounds; ++round) {
        std::string text = seeds[below(seeds.size())];
        for (std::size_t changes = below(4); changes > 0 && !text.empty(); --changes) {
            const std::size_t at = below(text.size());
            switch (below(3)) {
                case 0:
                    text[at] = static_cast<char>(below(256));
                    break;
                case 1:
                    text.erase(at, below(8));
                    break;
                case 2:
                    text.insert(at, text.substr(below(text.size()), below(20)));
            }
        }
        REQUIRE(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()) == 0);
    }
    CHECK(accepted_urls > rounds / 16);
    CHECK(accepted_pages > rounds / 27);
    CHECK(listed_objects > rounds / 16);
    CHECK(found_values > rounds / 16);
    CHECK(s3_errors > rounds / 40);
    CHECK(accepted_keys > rounds / 40);
}
