#include "dsl/base/readable.hpp"

#include <boost/locale/utf.hpp>

namespace hocket::dsl {
namespace {

namespace utf = boost::locale::utf;

bool is_control(utf::code_point code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

}  // namespace

std::string readable(std::string_view text, std::string_view kept) {
    std::string shown;
    shown.reserve(text.size());
    while (!text.empty()) {
        const char* next = text.data();
        const utf::code_point code = utf::utf_traits<char>::decode(next, text.data() + text.size());
        const bool is_right = code != utf::illegal && code != utf::incomplete;
        const std::size_t bytes = is_right ? static_cast<std::size_t>(next - text.data()) : 1;
        const bool is_shown = is_right && (!is_control(code) || kept.find(text[0]) != kept.npos);
        shown += is_shown ? text.substr(0, bytes) : "?";
        text.remove_prefix(bytes);
    }
    return shown;
}

}  // namespace hocket::dsl
