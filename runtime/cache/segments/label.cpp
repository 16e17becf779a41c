#include "runtime/cache/segments/label.hpp"

#include <boost/locale/utf.hpp>

namespace hocket::cache {
namespace {

namespace utf = boost::locale::utf;

bool is_control(utf::code_point code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

}  // namespace

std::string fit_label(std::string_view text) {
    std::string label;
    while (!text.empty()) {
        const char* next = text.data();
        const utf::code_point code = utf::utf_traits<char>::decode(next, text.data() + text.size());
        const bool is_right = code != utf::illegal && code != utf::incomplete;
        const std::size_t bytes = is_right ? static_cast<std::size_t>(next - text.data()) : 1;
        const std::string_view shown = is_right && !is_control(code) ? text.substr(0, bytes) : "?";
        if (label.size() + shown.size() > most_label_bytes) break;
        label += shown;
        text.remove_prefix(bytes);
    }
    return label;
}

}  // namespace hocket::cache
