#include "runtime/transport/net/own_address.hpp"

#include <cstdlib>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <tuple>

namespace hocket::transport {
namespace {

namespace fs = std::filesystem;

// Returns true for interfaces based on hardware. A bond, a VLAN or a bridge may be based on a card: then it
// has a link to the lower interface. A bridge of containers has links only to their ends.
bool rests_on_hardware(const fs::path& interface) {
    std::error_code none;
    if (fs::exists(interface / "device", none)) return true;
    const fs::directory_iterator entries(interface, none);
    return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
        return entry.path().filename().string().starts_with("lower_") && rests_on_hardware(entry.path());
    });
}

long speed_of(const fs::path& interface) {
    long megabits = 0;  // 0 also if unknown
    std::ifstream(interface / "speed") >> megabits;
    return std::max(megabits, 0L);
}

bool is_usable(const ifaddrs& entry) {
    if (!entry.ifa_addr || (entry.ifa_flags & IFF_LOOPBACK) || !(entry.ifa_flags & IFF_RUNNING)) return false;
    if (entry.ifa_addr->sa_family == AF_INET) return true;
    // Other hosts cannot use a link-local address: their interfaces may have other names.
    return entry.ifa_addr->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

std::string numeric_text(const sockaddr& address) {
    const socklen_t size = address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char host[NI_MAXHOST] = "";
    getnameinfo(&address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
    return host;
}

}  // namespace

std::string reachable_address(const fs::path& interfaces) {
    std::string best_address = "127.0.0.1";
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return best_address;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard(list, freeifaddrs);
    std::tuple<bool, bool, long> best{false, false, -1};
    for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
        if (!is_usable(*entry)) continue;
        const std::string name = entry->ifa_name;
        const fs::path interface =
            interfaces / name.substr(0, name.find(':'));  // the name without the address's label
        const std::tuple merit{rests_on_hardware(interface), entry->ifa_addr->sa_family == AF_INET,
                               speed_of(interface)};
        if (merit <= best) continue;
        best = merit;
        best_address = numeric_text(*entry->ifa_addr);
    }
    return best_address;
}

std::string chosen_address() {
    const char* const chosen = std::getenv("HOCKET_FABRIC_ADDR");
    return chosen == nullptr ? "" : chosen;
}

std::string own_address() {
    const std::string chosen = chosen_address();
    return chosen.empty() ? reachable_address() : chosen;
}

}  // namespace hocket::transport
