#include "runtime/cache/objects/site.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/cache/objects/listing.hpp"
#include "runtime/cache/objects/redaction.hpp"

namespace hocket::cache {
namespace {

// A plain server: objects are what its URLs name, and cannot be listed.
class HttpSite final : public Site {
  public:
    HttpSite(Url url, bool is_folder) : url_(std::move(url)) {
        if (is_folder && !url_.path.ends_with('/')) url_.path += '/';
        if (url_.path.empty()) url_.path = "/";
    }

    Request request(std::string_view name) const override {
        return {.url = below(name).whole(), .follow = true};
    }
    std::optional<Request> list_request(std::string_view) const override { return std::nullopt; }
    std::string shown(std::string_view name) const override { return below(name).shown(); }

    Refusal refusal(const Answer& answer, const std::string&) override {
        return {.said = words_of(answer.text, secrets_of(url_)), .advice = advice(answer.status)};
    }

  private:
    Url below(std::string_view name) const {
        Url url = url_;
        url.path += percent_encoded(name, "/");
        return url;
    }

    static std::string advice(int status) {
        switch (status) {
            case 401:
            case 403:
                return "check that this address may be read, and that its signature, if it has one, is valid "
                       "still";
            case 404:
            case 410:
                return "check the address, and that nobody has removed what it names";
            default:
                return "ask who runs the server";
        }
    }

    Url url_;
};

}  // namespace

std::string words_of(const std::string& body, const std::vector<std::string>& secrets) {
    const S3Error error = parse_s3_error(body);
    if (!error.code.empty()) return one_line(redacted(error.code + ": " + error.message, secrets));
    // A page of HTML, or other XML, says at length what the status says.
    const std::size_t begin = body.find_first_not_of(" \t\r\n");
    if (begin != std::string::npos && body[begin] == '<') return "";
    return one_line(redacted(body, secrets), 120);
}

std::unique_ptr<Site> open_http_site(const Url& url, bool is_folder) {
    return std::make_unique<HttpSite>(url, is_folder);
}

std::unique_ptr<Site> open_site(const Url& url, bool is_folder, const Environment& environment) {
    return url.is_s3() ? open_s3_site(url, is_folder, environment) : open_http_site(url, is_folder);
}

}  // namespace hocket::cache
