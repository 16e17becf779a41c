#include "runtime/transport/net/reasons.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace hocket::transport {

void Reasons::add(const std::string& address, const std::string& why) {
    auto tried = std::find_if(by_address_.begin(), by_address_.end(),
                              [&](const Tried& other) { return other.address == address; });
    if (tried == by_address_.end()) {
        if (by_address_.size() == most_addresses) {
            has_other_addresses_ = true;
            return;
        }
        tried = by_address_.insert(tried, Tried{.address = address});
    }
    if (std::find(tried->whys.begin(), tried->whys.end(), why) != tried->whys.end()) return;
    if (tried->whys.size() == most_of_an_address)
        tried->has_others = true;
    else
        tried->whys.push_back(why);
}

std::string Reasons::text() const {
    std::string text;
    for (const auto& [address, whys, has_others] : by_address_)
        text += fmt::format("{}{}{}{}{}", text.empty() ? "" : "; ", address, address.empty() ? "" : ": ",
                            fmt::join(whys, ", then "), has_others ? ", and for other reasons" : "");
    return text + (has_other_addresses_ ? "; and other addresses" : "");
}

}  // namespace hocket::transport
