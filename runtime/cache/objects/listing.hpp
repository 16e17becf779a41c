// Reads S3's answers, which are XML: lists of objects, and errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::cache {

struct ListedObject {
    std::string key;
    std::uint64_t bytes = 0;
    std::string etag;  // with its quotation marks; "" if none was given
    bool operator==(const ListedObject&) const = default;
};

struct ObjectPage {
    std::vector<ListedObject> objects;
    std::string next;  // the token for the next page; "": this is the last
};

// Reads the answer to ListObjectsV2, whose keys may be encoded as URLs are. Throws Error(io) if it is no such
// answer, or contradicts itself.
ObjectPage parse_object_page(std::string_view xml);

struct S3Error {
    std::string code, message, region;  // each "" if it is not there
};

// Accepts any text: what is no error of S3 or STS has neither code nor message.
S3Error parse_s3_error(std::string_view text);

}  // namespace hocket::cache
