#include "runtime/cache/objects/redaction.hpp"

#include <algorithm>
#include <string_view>

#include "runtime/base/error.hpp"

namespace hocket::cache {
namespace {

constexpr std::size_t shortest_value = 4;

std::string as_html(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        switch (c) {
            case '&':
                escaped += "&amp;";
                break;
            case '<':
                escaped += "&lt;";
                break;
            case '>':
                escaped += "&gt;";
                break;
            case '"':
                escaped += "&quot;";
                break;
            default:
                escaped += c;
        }
    }
    return escaped;
}

class Secrets {
  public:
    void add(const std::string& written) {
        add_as_html(written);
        try {
            add_as_html(percent_decoded(written));
        } catch (const Error&) {  // it is not encoded
        }
    }

    std::vector<std::string> longest_first() && {
        std::sort(all_.begin(), all_.end(), [](const std::string& a, const std::string& b) {
            return a.size() != b.size() ? a.size() > b.size() : a < b;
        });
        all_.erase(std::unique(all_.begin(), all_.end()), all_.end());
        return std::move(all_);
    }

  private:
    void add_as_html(const std::string& text) {
        if (text.empty()) return;
        all_.push_back(text);
        all_.push_back(as_html(text));
    }

    std::vector<std::string> all_;
};

}  // namespace

std::vector<std::string> secrets_of(const Url& url) {
    Secrets secrets;
    secrets.add(url.user);
    const std::size_t colon = url.user.find(':');
    if (url.user.substr(0, colon).size() >= shortest_value) secrets.add(url.user.substr(0, colon));
    if (colon != std::string::npos) secrets.add(url.user.substr(colon + 1));
    secrets.add(url.query);
    for (std::size_t begin = 0; begin < url.query.size();) {
        const std::size_t end = std::min(url.query.find('&', begin), url.query.size());
        const std::string pair = url.query.substr(begin, end - begin);
        const std::string value = pair.substr(pair.find('=') + 1);  // none: npos + 1 is 0
        if (value.size() >= shortest_value) secrets.add(value);
        begin = end + 1;
    }
    return std::move(secrets).longest_first();
}

std::string redacted(std::string text, const std::vector<std::string>& secrets) {
    constexpr std::string_view dots = "...";
    for (const std::string& secret : secrets) {
        if (secret.empty()) continue;  // it would be found everywhere
        for (std::size_t at = 0; (at = text.find(secret, at)) != std::string::npos; at += dots.size())
            text.replace(at, secret.size(), dots);
    }
    return text;
}

}  // namespace hocket::cache
