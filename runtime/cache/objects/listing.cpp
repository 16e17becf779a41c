#include "runtime/cache/objects/listing.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/url.hpp"
#include "runtime/cache/objects/whole_number.hpp"
#include "runtime/cache/objects/xml_elements.hpp"

namespace hocket::cache {
namespace {

bool take_size(const std::string& text, std::uint64_t& bytes) {
    const auto value = whole_number(text);
    if (!value) throw Error(Status::io, "it has a size that is no number");
    bytes = *value;
    return true;
}

// Returns the ETag as answers have it: in quotation marks, which some servers' lists leave out. It becomes a
// line of a request.
std::string checked_etag(const std::string& etag) {
    if (std::any_of(etag.begin(), etag.end(), [](char c) { return c < ' ' || c == '\x7f'; }))
        throw Error(Status::io, "it has an ETag with characters that no ETag has");
    const bool is_quoted = etag.find('"') != std::string::npos;
    return etag.empty() || is_quoted ? etag : '"' + etag + '"';
}

// S3 writes a blank as '+', as forms do.
std::string decoded_key(std::string key) {
    std::replace(key.begin(), key.end(), '+', ' ');
    try {
        return percent_decoded(key);
    } catch (const Error&) {
        throw Error(Status::io, "it has a key that is not encoded as it says");
    }
}

}  // namespace

ObjectPage parse_object_page(std::string_view xml) {
    ObjectPage page;
    ListedObject object;
    bool has_size = false, is_list = false, is_truncated = false, is_encoded = false;
    const std::string problem = walk_xml(xml, [&](const std::string& path, const std::string& text) {
        if (path == "ListBucketResult/Contents/Key") object.key = text;
        if (path == "ListBucketResult/Contents/ETag") object.etag = checked_etag(text);
        if (path == "ListBucketResult/Contents/Size") has_size = take_size(text, object.bytes);
        if (path == "ListBucketResult/Contents") {
            if (object.key.empty() || !has_size)
                throw Error(Status::io, "it has an object without key or size");
            page.objects.push_back(std::exchange(object, {}));
            has_size = false;
        }
        if (path == "ListBucketResult/NextContinuationToken") page.next = text;
        if (path == "ListBucketResult/IsTruncated") is_truncated = text == "true";
        if (path == "ListBucketResult/EncodingType") is_encoded = text == "url";
        if (path == "ListBucketResult") is_list = true;
    });
    if (!problem.empty()) throw Error(Status::io, problem);
    if (!is_list) throw Error(Status::io, "it is no ListBucketResult");
    if (is_truncated && page.next.empty())
        throw Error(Status::io, "it is truncated, but has no token for the rest");
    if (!is_truncated) page.next.clear();
    if (is_encoded)
        for (ListedObject& listed : page.objects) listed.key = decoded_key(std::move(listed.key));
    return page;
}

S3Error parse_s3_error(std::string_view text) {
    S3Error error;
    const std::string problem = walk_xml(text, [&](const std::string& path, const std::string& value) {
        // As STS has it, one more element is around it.
        if (path == "Error/Code" || path == "ErrorResponse/Error/Code") error.code = value;
        if (path == "Error/Message" || path == "ErrorResponse/Error/Message") error.message = value;
        if (path == "Error/Region") error.region = value;
    });
    return problem.empty() ? error : S3Error{};
}

}  // namespace hocket::cache
