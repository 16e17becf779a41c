#include "runtime/cache/objects/xml_elements.hpp"

#include <expat.h>
#include <fmt/format.h>

#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <vector>

#include "runtime/base/error.hpp"

namespace hocket::cache {
namespace {

constexpr std::size_t most_elements_within = 32;

class Walker {
  public:
    explicit Walker(const ElementEnded& ended)
        : ended_(ended), parser_(XML_ParserCreate(nullptr), XML_ParserFree) {
        if (!parser_) throw std::bad_alloc();
        XML_SetUserData(parser_.get(), this);
        XML_SetElementHandler(parser_.get(), &Walker::on_begin, &Walker::on_end);
        XML_SetCharacterDataHandler(parser_.get(), &Walker::on_text);
        // Neither answer has a document type, whose entities could be made to grow.
        XML_SetStartDoctypeDeclHandler(parser_.get(), &Walker::on_doctype);
    }

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

    const ElementEnded& ended_;
    std::unique_ptr<std::remove_pointer_t<XML_Parser>, void (*)(XML_Parser)> parser_;
    std::string path_, text_;
    std::vector<std::size_t> lengths_;  // of path_ outside of each element
    std::optional<Error> error_;
};

}  // namespace

std::string walk_xml(std::string_view xml, const ElementEnded& ended) {
    return Walker(ended).walk(xml);
}

}  // namespace hocket::cache
