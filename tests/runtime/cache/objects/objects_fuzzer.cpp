// Reads arbitrary bytes as an address, as a file of credentials, as S3's XML, and as the answer of a service
// of keys. Entry of libFuzzer (clang++ -fsanitize=fuzzer,address with url.cpp, redaction.cpp,
// credentials.cpp, keys.cpp, listing.cpp and xml_elements.cpp of runtime/cache/objects); the unit tests call
// it with seeded bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/keys.hpp"
#include "runtime/cache/objects/listing.hpp"
#include "runtime/cache/objects/profiles.hpp"
#include "runtime/cache/objects/redaction.hpp"
#include "runtime/cache/objects/url.hpp"

using namespace hocket;
using namespace hocket::cache;

int accepted_urls = 0, accepted_pages = 0, listed_objects = 0, found_values = 0, s3_errors = 0,
    accepted_keys = 0;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

bool is_printable(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

void read_url(std::string_view text) {
    try {
        const Url url = parse_url(text);
        require(is_url(text) && !url.host.empty());
        require(url.path.empty() || url.path[0] == '/');
        const Url again = parse_url(url.whole());
        require(again.whole() == url.whole() && again.user == url.user && again.path == url.path);
        require(url.query.empty() || url.is_s3() || url.shown().find('?') == std::string::npos);
        const std::vector<std::string> secrets = secrets_of(url);
        const std::string shown = redacted(url.whole(), secrets);
        require(redacted(url.whole(), {""}) == url.whole());
        for (const std::string& secret : secrets)
            require(secret.find('.') != std::string::npos || shown.find(secret) == std::string::npos);
        ++accepted_urls;
    } catch (const Error& error) {
        require(error.status() == Status::invalid_argument && is_printable(error.what()));
    }
}

void read_percents(std::string_view text) {
    const std::string encoded = percent_encoded(text, "/");
    require(percent_decoded(encoded) == text && is_printable(encoded));
    try {
        require(percent_decoded(text).size() <= text.size());
    } catch (const Error& error) {
        require(error.status() == Status::invalid_argument && is_printable(error.what()));
    }
    require(is_printable(one_line(text)) && one_line(text, 10).size() <= 13);
}

std::string simple_trimmed(std::string text) {
    const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!text.empty() && is_blank(text.back())) text.pop_back();
    while (!text.empty() && is_blank(text.front())) text.erase(text.begin());
    return text;
}

// A second, simple reader of credentials.
std::optional<std::string> simple_value(const std::string& file, const std::string& section,
                                        const std::string& name) {
    std::istringstream stream(file);
    std::string line, here, value;
    bool has_section = false, has_value = false;
    while (std::getline(stream, line)) {
        const bool is_indented = !line.empty() && (line[0] == ' ' || line[0] == '\t');
        line = simple_trimmed(line);
        if (line.empty() || line[0] == '#' || line[0] == ';') continue;
        if (line[0] == '[') {
            has_section = line.size() > 1 && line.back() == ']';
            here = has_section ? simple_trimmed(line.substr(1, line.size() - 2)) : "";
            continue;
        }
        const auto equals = line.find('=');
        if (!has_section || here != section || is_indented || equals == std::string::npos) continue;
        if (simple_trimmed(line.substr(0, equals)) != name) continue;
        value = simple_trimmed(line.substr(equals + 1));
        has_value = true;
    }
    return has_value ? std::optional(value) : std::nullopt;
}

void read_credentials(std::string_view text) {
    for (const char* section : {"default", "a"})
        for (const char* name : {"region", "k"}) {
            const auto value = profile_value(text, section, name);
            require(value == simple_value(std::string(text), section, name));
            found_values += value.has_value();
        }
}

void read_xml(std::string_view text) {
    try {
        const ObjectPage page = parse_object_page(text);
        for (const ListedObject& object : page.objects) require(!object.key.empty());
        ++accepted_pages;
        listed_objects += static_cast<int>(page.objects.size());
    } catch (const Error& error) {
        require(error.status() == Status::io && is_printable(error.what()));
    }
    s3_errors += !parse_s3_error(text).code.empty();
}

void read_keys(std::string_view text) {
    for (const char* action : {"", "AssumeRole", "AssumeRoleWithWebIdentity"}) {
        try {
            const Keys keys = *action == '\0' ? parse_keys_json(text) : parse_keys_xml(text, action);
            require(!keys.id.empty() && !keys.secret.empty());
            for (const std::string& part : {keys.id, keys.secret, keys.token})
                require(is_printable(part) && part.find(' ') == std::string::npos);
            ++accepted_keys;
        } catch (const Error& error) {
            require(error.status() == Status::io && is_printable(error.what()));
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto exact = std::make_unique<char[]>(size);  // no byte behind it, so that reading one is noticed
    std::copy(data, data + size, exact.get());
    const std::string_view text(exact.get(), size);
    read_url(text);
    read_percents(text);
    read_credentials(text);
    read_xml(text);
    read_keys(text);
    return 0;
}
