// Addresses of objects: https://, http:// and s3://.
#pragma once

#include <string>
#include <string_view>

namespace hocket::cache {

// As it was written, without a fragment. Nothing is decoded.
struct Url {
    std::string scheme;  // https, http or s3
    std::string user;    // "name:password", or ""
    std::string host;    // with the port, if there is one; s3: the bucket
    std::string path;    // "" or begins with '/'
    std::string query;   // without the '?'

    bool is_s3() const { return scheme == "s3"; }
    // Returns it as requests need it. Contains everything that is secret.
    std::string whole() const;
    // Returns it for people: without user and query, which may contain passwords and signatures.
    std::string shown() const;
};

// Returns true for a text that begins with a scheme and "://". A path never does.
bool is_url(std::string_view text);

// Throws Error(invalid_argument) with what is wrong; the text of it contains no secrets.
Url parse_url(std::string_view text);

// Encodes all bytes but letters, digits and "-._~" as %XX, as signatures require. keep: further characters
// that stay.
std::string percent_encoded(std::string_view text, std::string_view keep = "");
// Throws Error(invalid_argument) if a '%' is not followed by two hexadecimal digits.
std::string percent_decoded(std::string_view text);

// Returns the text as a part of an error's line: without control characters, and cut off after `most` bytes.
std::string one_line(std::string_view text, std::size_t most = 300);

}  // namespace hocket::cache
