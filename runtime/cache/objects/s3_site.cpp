#include <fmt/format.h>

#include <utility>

#include "runtime/cache/objects/key_keeper.hpp"
#include "runtime/cache/objects/listing.hpp"
#include "runtime/cache/objects/site.hpp"

namespace hocket::cache {
namespace {

// A bucket of S3, or of a server that understands the same requests.
class S3Site final : public Site {
  public:
    S3Site(const Url& url, bool is_folder, Environment environment)
        : bucket_(url.host), prefix_(url.path), keeper_(std::move(environment)) {
        if (prefix_.starts_with('/')) prefix_.erase(0, 1);
        if (is_folder && !prefix_.empty() && !prefix_.ends_with('/')) prefix_ += '/';
    }

    Request request(std::string_view name) const override {
        Request request = signed_request("/" + percent_encoded(prefix_ + std::string(name), "/"), "");
        request.headers.emplace_back("x-amz-checksum-mode: ENABLED");
        return request;
    }

    // The query is in the form that is signed: sorted, and encoded.
    std::optional<Request> list_request(std::string_view token) const override {
        std::string query;
        if (!token.empty()) query = fmt::format("continuation-token={}&", percent_encoded(token));
        query += fmt::format("encoding-type=url&list-type=2&prefix={}", percent_encoded(prefix_));
        return signed_request("/", query);
    }

    std::string shown(std::string_view name) const override {
        return fmt::format("s3://{}/{}{}", bucket_, prefix_, name);
    }

    std::string relative(std::string_view listed) const override {
        return listed.starts_with(prefix_) ? std::string(listed.substr(prefix_.size())) : "";
    }

    std::string network_advice() override {
        const S3Settings now = keeper_.settings();
        return now.endpoint.empty() ? fmt::format(
                                          "check the network, and the region {} (AWS_REGION); if the bucket "
                                          "is not Amazon's, set "
                                          "AWS_ENDPOINT_URL to https://HOST of its server",
                                          one_line(now.region, 40))
                                    : fmt::format("check the network, and the server {} (AWS_ENDPOINT_URL)",
                                                  one_line(now.endpoint, 120));
    }

    Refusal refusal(const Answer& answer, const std::string& key) override {
        const S3Error error = parse_s3_error(answer.text);
        Refusal refusal;
        refusal.said = words_of(answer.text);
        const bool has_expired = error.code == "ExpiredToken" || error.code == "TokenRefreshRequired";
        refusal.is_passing = has_expired && keeper_.has_others_than(key);
        refusal.advice = advice(answer, error, has_expired);
        return refusal;
    }

  private:
    // A name with dots has no certificate below Amazon's host, and other servers need not know names of hosts
    // for buckets.
    std::string address(const S3Settings& settings, const std::string& path, const std::string& query) const {
        const std::string ending = query.empty() ? path : path + "?" + query;
        if (!settings.endpoint.empty()) return fmt::format("{}/{}{}", settings.endpoint, bucket_, ending);
        if (bucket_.find('.') != std::string::npos)
            return fmt::format("https://s3.{}.amazonaws.com/{}{}", settings.region, bucket_, ending);
        return fmt::format("https://{}.s3.{}.amazonaws.com{}", bucket_, settings.region, ending);
    }

    Request signed_request(const std::string& path, const std::string& query) const {
        constexpr const char* hash_of_nothing =
            "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        const S3Settings now = keeper_.settings();
        Request request{.url = address(now, path, query)};
        if (!now.keys) return request;
        request.signer = Signer{fmt::format("aws:amz:{}:s3", now.region), now.keys->id, now.keys->secret};
        request.headers.emplace_back(hash_of_nothing);
        if (!now.keys->token.empty()) request.headers.push_back("x-amz-security-token: " + now.keys->token);
        return request;
    }

    std::string advice(const Answer& answer, const S3Error& error, bool has_expired) const {
        const S3Settings now = keeper_.settings();
        const std::string used =
            now.keys ? now.keys->shown() + " were used" : "no keys were found, and none used";
        const std::string region = one_line(answer.header("x-amz-bucket-region"), 40);
        if (has_expired)
            return fmt::format("{}, which have expired; renew them, or give keys that do not expire", used);
        if (answer.status == 301 || answer.status == 307 || error.code == "AuthorizationHeaderMalformed")
            return fmt::format("the bucket is not in the region {}; set AWS_REGION to {}", now.region,
                               !region.empty()         ? region
                               : !error.region.empty() ? one_line(error.region, 40)
                                                       : "that of the bucket");
        if (answer.status == 401 || answer.status == 403 || answer.status == 400)
            return fmt::format("{}; {}", used,
                               now.keys
                                   ? "check that they are right, and may read and list the bucket"
                                   : "if the bucket is not public, set AWS_ACCESS_KEY_ID and "
                                     "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the instance a role");
        if (answer.status == 404)
            return "check the names of bucket and object, AWS_ENDPOINT_URL, and that nobody has removed it";
        return "ask who runs the server";
    }

    const std::string bucket_;
    std::string prefix_;  // not encoded, and without a '/' in front
    mutable KeyKeeper keeper_;
};

}  // namespace

std::unique_ptr<Site> open_s3_site(const Url& url, bool is_folder, const Environment& environment) {
    return std::make_unique<S3Site>(url, is_folder, environment);
}

}  // namespace hocket::cache
