#include "runtime/transport/net/nics.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <fstream>
#include <memory>
#include <span>
#include <tuple>

#include "runtime/transport/net/frame.hpp"

namespace hocket::transport {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_text = INET6_ADDRSTRLEN + IF_NAMESIZE;  // "fe80::1%eth0"

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

int megabits_of(const fs::path& interface) {
    int megabits = -1;
    std::ifstream file(interface / "speed");
    return file >> megabits && megabits > 0 ? megabits : -1;
}

// The bytes of a numeric address, without its interface; empty if it is none.
struct Bits {
    explicit Bits(std::string_view text) {
        const std::string host(text.substr(0, text.find('%')));
        if (inet_pton(AF_INET, host.c_str(), bytes.data()) == 1)
            size = sizeof(in_addr);
        else if (inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1)
            size = sizeof(in6_addr);
    }
    int count() const { return static_cast<int>(8 * size); }
    bool is_link_local() const { return size == sizeof(in6_addr) && bytes[0] == 0xfe && bytes[1] >> 6 == 2; }

    // Returns true if the first bits are the same.
    bool agrees(const Bits& other, int first_bits) const {
        if (size == 0 || size != other.size || first_bits > count()) return false;
        for (int bit = 0; bit < first_bits; ++bit)
            if ((bytes[bit / 8] ^ other.bytes[bit / 8]) >> (7 - bit % 8) & 1) return false;
        return true;
    }

    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    std::size_t size = 0;
};

bool is_for_others(const ifaddrs& entry) {
    constexpr unsigned needed = IFF_UP | IFF_RUNNING;
    return !(entry.ifa_flags & IFF_LOOPBACK) && (entry.ifa_flags & needed) == needed;
}

std::string numeric_text(const sockaddr& address) {
    const socklen_t size = address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char host[NI_MAXHOST] = "";
    getnameinfo(&address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
    return host;
}

int prefix_of(const sockaddr* mask) {
    if (mask == nullptr) return 0;
    const bool is_ipv4 = mask->sa_family == AF_INET;
    const auto* first =
        is_ipv4 ? reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
                : reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr);
    int bits = 0;
    for (const char byte : std::span(first, is_ipv4 ? sizeof(in_addr) : sizeof(in6_addr)))
        bits += std::popcount(static_cast<unsigned char>(byte));
    return bits;
}

// Returns all addresses of interfaces that are up, loopback aside.
std::vector<Nic> all_nics(const fs::path& interfaces) {
    std::vector<Nic> nics;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return nics;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard(list, freeifaddrs);
    for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
        if (!entry->ifa_addr || !is_for_others(*entry)) continue;
        if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
        const std::string label = entry->ifa_name;
        Nic nic;
        nic.name = label.substr(0, label.find(':'));
        nic.address = numeric_text(*entry->ifa_addr);
        nic.prefix = prefix_of(entry->ifa_netmask);
        nic.megabits = megabits_of(interfaces / nic.name);
        nic.is_hardware = rests_on_hardware(interfaces / nic.name);
        nics.push_back(std::move(nic));
    }
    return nics;
}

bool has(const std::vector<Nic>& nics, const std::string& address) {
    return std::any_of(nics.begin(), nics.end(), [&](const Nic& nic) { return nic.address == address; });
}

bool is_same_host(const std::vector<Nic>& one, const std::vector<Nic>& other) {
    return one.size() == other.size() &&
           std::all_of(one.begin(), one.end(), [&](const Nic& nic) { return has(other, nic.address); });
}

std::vector<Nic> fitting(const std::vector<Nic>& nics, std::string_view wanted) {
    std::vector<Nic> result;
    for (const Nic& nic : nics)
        if (wanted.empty() || is_wanted(nic, wanted)) result.push_back(nic);
    return result;
}

auto merit_of(const Rail& rail) {
    const bool shares_subnet = rail.here && is_in_subnet(rail.there.address, *rail.here);
    const bool is_hardware = rail.there.is_hardware && (!rail.here || rail.here->is_hardware);
    const int megabits = rail.here ? std::min(rail.here->megabits, rail.there.megabits) : rail.there.megabits;
    const int sharers = rail.here ? rail.here->sharers : 0;
    return std::tuple{is_hardware, shares_subnet, rail.there.is_ipv4(), megabits, -sharers};
}

}  // namespace

std::string Nic::text() const {
    return fmt::format("{}{}{}", address, prefix > 0 ? fmt::format("/{}", prefix) : "",
                       name.empty() ? "" : fmt::format(" ({})", name));
}

std::vector<Nic> reachable_nics(const fs::path& interfaces) {
    std::vector<Nic> nics;
    for (Nic& nic : all_nics(interfaces)) {
        // Other hosts cannot use a link-local address: their interfaces may have other names.
        if (Bits(nic.address).is_link_local()) continue;
        const auto is_there_already = [&](const Nic& other) {
            return other.name == nic.name && other.prefix == nic.prefix && is_in_subnet(nic.address, other);
        };
        if (std::none_of(nics.begin(), nics.end(), is_there_already)) nics.push_back(std::move(nic));
    }
    std::stable_sort(nics.begin(), nics.end(), [](const Nic& a, const Nic& b) {
        return std::tuple(a.is_hardware, a.is_ipv4(), a.megabits) >
               std::tuple(b.is_hardware, b.is_ipv4(), b.megabits);
    });
    if (nics.size() > most_nics) nics.resize(most_nics);
    return nics;
}

Nic nic_at(const std::string& address, const fs::path& interfaces) {
    for (Nic& nic : all_nics(interfaces))
        if (nic.address == address) return std::move(nic);
    Nic nic;
    nic.address = address;
    return nic;
}

bool is_in_subnet(std::string_view address, const Nic& nic) {
    const Bits own(nic.address);
    return nic.prefix > 0 && !own.is_link_local() && own.agrees(Bits(address), nic.prefix);
}

bool is_wanted(const Nic& nic, std::string_view wanted) {
    const std::size_t slash = wanted.find('/');
    if (slash == wanted.npos) return nic.name == wanted;
    int prefix = 0;
    const char* const end = wanted.data() + wanted.size();
    const auto [stop, error] = std::from_chars(wanted.data() + slash + 1, end, prefix);
    return error == std::errc() && stop == end && prefix >= 0 &&
           Bits(wanted.substr(0, slash)).agrees(Bits(nic.address), prefix);
}

void write(PayloadWriter& writer, const std::vector<Nic>& nics) {
    writer.u32(static_cast<std::uint32_t>(nics.size()));
    for (const Nic& nic : nics)
        writer.text_of(nic.name)
            .text_of(nic.address)
            .u32(static_cast<std::uint32_t>(nic.prefix))
            .u32(static_cast<std::uint32_t>(nic.megabits))
            .u32(nic.is_hardware);
}

std::vector<Nic> read_nics(PayloadReader& reader) {
    const std::uint32_t count = reader.u32();
    if (count > most_nics) throw ProtocolError("it has too many addresses");
    std::vector<Nic> nics(count);
    for (Nic& nic : nics) {
        nic.name = reader.text_of();
        nic.address = reader.text_of();
        const std::uint32_t prefix = reader.u32();
        nic.megabits = static_cast<int>(reader.u32());
        nic.is_hardware = reader.u32() != 0;
        const Bits bits(nic.address);
        if (nic.name.size() > IF_NAMESIZE || nic.address.size() > most_text || bits.size == 0 ||
            prefix > static_cast<std::uint32_t>(bits.count()))
            throw ProtocolError("it has an address that is none");
        nic.prefix = static_cast<int>(prefix);
    }
    return nics;
}

std::vector<Rail> rails_between(const std::vector<Nic>& here, const std::vector<Nic>& there,
                                std::string_view wanted) {
    const bool is_here = is_same_host(here, there);
    const std::vector<Nic> own = fitting(here, wanted);
    std::vector<Rail> rails, of_both;
    for (const Nic& peer : fitting(there, wanted)) {
        if (has(here, peer.address)) {
            (is_here ? rails : of_both).push_back({std::nullopt, peer});
            continue;
        }
        bool is_direct = false;
        for (const Nic& nic : own) {
            const bool shares_subnet = is_in_subnet(peer.address, nic);
            is_direct |= shares_subnet;
            if (shares_subnet || (!wanted.empty() && nic.is_ipv4() == peer.is_ipv4()))
                rails.push_back({nic, peer});
        }
        if (!is_direct && wanted.empty()) rails.push_back({std::nullopt, peer});
    }
    std::stable_sort(rails.begin(), rails.end(),
                     [](const Rail& a, const Rail& b) { return merit_of(a) > merit_of(b); });
    // Perhaps it is this host, whose NICs have changed meanwhile; or a bridge that all hosts have, at which
    // another process refuses or nothing listens.
    rails.insert(rails.end(), of_both.begin(), of_both.end());
    return rails;
}

std::vector<Rail> equals_of_first(const std::vector<Rail>& rails) {
    std::vector<Rail> equals;
    for (const Rail& rail : rails) {
        const auto uses_same_nic = [&](const Rail& other) {
            return other.here->name == rail.here->name || other.there.name == rail.there.name;
        };
        if (merit_of(rail) != merit_of(rails[0]) || equals.size() == most_lanes) continue;
        if (!rail.here || !is_in_subnet(rail.there.address, *rail.here)) continue;
        if (std::none_of(equals.begin(), equals.end(), uses_same_nic)) equals.push_back(rail);
    }
    if (equals.empty()) equals.push_back(rails.at(0));
    return equals;
}

}  // namespace hocket::transport
