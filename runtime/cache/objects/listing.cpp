#include "runtime/cache/objects/listing.hpp"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/url.hpp"
#include "runtime/cache/objects/whole_number.hpp"

namespace hocket::cache {
namespace {

constexpr std::size_t most_elements_within = 32;

bool take_size(const std::string& text, std::uint64_t& bytes) {
    const auto value = whole_number(text);
    if (!value) throw Error(Status::io, "it has a size that is no number");
    bytes = *value;
    return true;
}

// It becomes a line of a request.
std::string without_control(const std::string& etag) {
    if (std::any_of(etag.begin(), etag.end(), [](char c) { return c < ' ' || c == '\x7f'; }))
        throw Error(Status::io, "it has an ETag with characters that no ETag has");
    return etag;
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

// Walks through a document and tells the ends of its elements, with their texts. Elements that have elements
// within have no text.
class Walker {
  public:
    // path: the names of the elements from the outermost to this, joined by '/', without namespaces.
    using Ended = std::function<void(const std::string& path, const std::string& text)>;

    explicit Walker(Ended ended)
        : ended_(std::move(ended)), parser_(XML_ParserCreate(nullptr), XML_ParserFree) {
        if (!parser_) throw std::bad_alloc();
        XML_SetUserData(parser_.get(), this);
        XML_SetElementHandler(parser_.get(), &Walker::on_begin, &Walker::on_end);
        XML_SetCharacterDataHandler(parser_.get(), &Walker::on_text);
        // Neither answer has a document type, whose entities could be made to grow.
        XML_SetStartDoctypeDeclHandler(parser_.get(), &Walker::on_doctype);
    }

    // Returns "" or why the document is not well formed. Throws what `ended` throws.
    std::string walk(std::string_view xml) {
        const XML_Status status =
            XML_Parse(parser_.get(), xml.data(), static_cast<int>(xml.size()), XML_TRUE);
        if (error_) throw *error_;
        if (status == XML_STATUS_OK) return "";
        return fmt::format("{} in line {}", XML_ErrorString(XML_GetErrorCode(parser_.get())),
                           XML_GetCurrentLineNumber(parser_.get()));
    }

  private:
    static Walker& of(void* walker) { return *static_cast<Walker*>(walker); }
    static void on_begin(void* walker, const char* name, const char**) { of(walker).begin(name); }
    static void on_end(void* walker, const char*) { of(walker).end(); }
    static void on_text(void* walker, const char* text, int bytes) {
        of(walker).text_.append(text, static_cast<std::size_t>(bytes));
    }
    static void on_doctype(void* walker, const char*, const char*, const char*, int) { of(walker).stop(); }

    void begin(std::string_view name) {
        name.remove_prefix(name.rfind(':') + 1);  // none: npos + 1 is 0
        lengths_.push_back(path_.size());
        if (lengths_.size() > most_elements_within) return stop();
        if (!path_.empty()) path_ += '/';
        path_ += name;
        text_.clear();
    }

    // Exceptions must not pass through expat.
    void end() {
        try {
            ended_(path_, text_);
        } catch (const Error& error) {
            error_ = error;
            stop();
        }
        path_.resize(lengths_.back());
        lengths_.pop_back();
        text_.clear();
    }

    void stop() { XML_StopParser(parser_.get(), XML_FALSE); }

    Ended ended_;
    std::unique_ptr<std::remove_pointer_t<XML_Parser>, void (*)(XML_Parser)> parser_;
    std::string path_, text_;
    std::vector<std::size_t> lengths_;  // of path_ outside of each element
    std::optional<Error> error_;
};

}  // namespace

ObjectPage parse_object_page(std::string_view xml) {
    ObjectPage page;
    ListedObject object;
    bool has_size = false, is_list = false, is_truncated = false, is_encoded = false;
    Walker walker([&](const std::string& path, const std::string& text) {
        if (path == "ListBucketResult/Contents/Key") object.key = text;
        if (path == "ListBucketResult/Contents/ETag") object.etag = without_control(text);
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
    const std::string problem = walker.walk(xml);
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
    Walker walker([&](const std::string& path, const std::string& value) {
        if (path == "Error/Code") error.code = value;
        if (path == "Error/Message") error.message = value;
        if (path == "Error/Region") error.region = value;
    });
    return walker.walk(text).empty() ? error : S3Error{};
}

}  // namespace hocket::cache
