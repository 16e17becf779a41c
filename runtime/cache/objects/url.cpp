#include "runtime/cache/objects/url.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/base/error.hpp"

namespace hocket::cache {
namespace {

bool is_letter_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// The length of the scheme; nothing if the text does not begin with one.
std::optional<std::size_t> scheme_length(std::string_view text) {
    const std::size_t end = text.find("://");
    if (end == std::string_view::npos || end == 0) return std::nullopt;
    const bool is_word = std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end),
                                     [](char c) { return is_letter_or_digit(c) || c == '+'; });
    return is_word ? std::optional(end) : std::nullopt;
}

std::string_view take_until(std::string_view& text, std::string_view ends) {
    const std::size_t end = std::min(text.find_first_of(ends), text.size());
    const std::string_view taken = text.substr(0, end);
    text.remove_prefix(end);
    return taken;
}

std::optional<unsigned> hexadecimal(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return std::nullopt;
}

[[noreturn]] void refuse_url(const Url& url, const char* why) {
    throw Error(Status::invalid_argument, fmt::format("the address {} {}", one_line(url.shown()), why));
}

void check_url(const Url& url, std::string_view whole) {
    if (url.scheme != "https" && url.scheme != "http" && url.scheme != "s3")
        refuse_url(url, "has a scheme that is none of https, http and s3; give one of these, or a path");
    const auto is_outside_ascii = [](char c) { return c <= ' ' || c > '~'; };
    if (!url.is_s3() && std::any_of(whole.begin(), whole.end(), is_outside_ascii))
        refuse_url(url, "has blanks or characters that are not ASCII; encode them as %XX");
    const bool is_plain = std::all_of(url.host.begin(), url.host.end(), [](char c) {
        return is_letter_or_digit(c) || std::string_view(".-_:[]").find(c) != std::string_view::npos;
    });
    if (url.host.empty() || !is_plain)
        refuse_url(url, url.is_s3() ? "names no bucket; it is s3://BUCKET/PREFIX"
                                    : "names no host; it is https://HOST/PATH");
    if (url.is_s3() && (!url.user.empty() || url.host.find_first_of(":[]") != std::string::npos))
        refuse_url(url,
                   "has a user or a port, which a bucket has not; give keys and the endpoint in the "
                   "environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL");
}

}  // namespace

std::string Url::whole() const {
    return fmt::format("{}://{}{}{}{}{}{}", scheme, user, user.empty() ? "" : "@", host, path,
                       query.empty() ? "" : "?", query);
}

std::string Url::shown() const {
    return fmt::format("{}://{}{}", scheme, host, path);
}

bool is_url(std::string_view text) {
    return scheme_length(text).has_value();
}

Url parse_url(std::string_view text) {
    const std::size_t end = scheme_length(text).value_or(0);
    Url url;
    url.scheme = text.substr(0, end);
    std::transform(url.scheme.begin(), url.scheme.end(), url.scheme.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    std::string_view rest = text.substr(end == 0 ? 0 : end + 3);
    // A key of S3 may contain '?' and '#'.
    std::string_view authority = take_until(rest, url.is_s3() ? "/" : "/?#");
    if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
        url.user = authority.substr(0, at);
        authority.remove_prefix(at + 1);
    }
    url.host = authority;
    url.path = url.is_s3() ? rest : take_until(rest, "?#");
    if (!url.is_s3() && rest.starts_with('?')) url.query = take_until(rest, "#").substr(1);
    check_url(url, text);
    return url;
}

std::string percent_encoded(std::string_view text, std::string_view keep) {
    std::string encoded;
    encoded.reserve(text.size());
    for (const char c : text) {
        if (is_letter_or_digit(c) || std::string_view("-._~").find(c) != std::string_view::npos ||
            keep.find(c) != std::string_view::npos)
            encoded += c;
        else
            encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return encoded;
}

std::string percent_decoded(std::string_view text) {
    std::string decoded;
    decoded.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            decoded += text[i];
            continue;
        }
        const auto high = i + 2 < text.size() ? hexadecimal(text[i + 1]) : std::nullopt;
        const auto low = high ? hexadecimal(text[i + 2]) : std::nullopt;
        if (!low)
            throw Error(Status::invalid_argument,
                        fmt::format("\"{}\" has a % without two hexadecimal digits; write %25 for a %",
                                    one_line(text, 80)));
        decoded += static_cast<char>(*high * 16 + *low);
        i += 2;
    }
    return decoded;
}

std::string one_line(std::string_view text, std::size_t most) {
    std::string line;
    for (const char c : text) {
        const bool is_visible = c > ' ' && c <= '~';
        if (is_visible)
            line += c;
        else if (!line.empty() && line.back() != ' ')
            line += ' ';
        if (line.size() >= most) return line + "...";
    }
    if (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

}  // namespace hocket::cache
