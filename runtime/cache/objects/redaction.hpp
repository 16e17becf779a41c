// Keeps what is secret in an address out of texts for people, such as a server's words that quote it.
#pragma once

#include <string>
#include <vector>

#include "runtime/cache/objects/url.hpp"

namespace hocket::cache {

// Returns the user, the password and the query of an address, each value of the query alone too, as they are
// written, decoded, and as HTML writes them. The longest come first: others may be parts of them. Values of
// fewer than four bytes, such as a version, are no secrets.
std::vector<std::string> secrets_of(const Url& url);

// Returns the text with "..." for each secret. A text must not be cut before: the rest of a secret would not
// be found.
std::string redacted(std::string text, const std::vector<std::string>& secrets);

}  // namespace hocket::cache
