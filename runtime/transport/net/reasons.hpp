// Why there is no connection, over all attempts at it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hocket::transport {

// Keeps each reason once, by the address that was tried; a later one replaces none. It holds a bounded
// number: what comes beyond is left out, and the text says so.
class Reasons {
  public:
    // address: "" if people know it anyway.
    void add(const std::string& address, const std::string& why);

    bool are_known() const { return !by_address_.empty(); }

    // For people, in the order in which they came: "10.0.0.1: Connection refused (from 10.0.0.2), then
    // Connection timed out; fd00::1: Network is unreachable". "" if there are none.
    std::string text() const;

  private:
    static constexpr std::size_t most_addresses = 8, most_of_an_address = 4;

    struct Tried {
        std::string address;
        std::vector<std::string> whys = {};
        bool has_others = false;
    };
    std::vector<Tried> by_address_;
    bool has_other_addresses_ = false;
};

}  // namespace hocket::transport
