// The network interfaces (NICs) of a host, and the pairs of them over which two hosts connect.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::transport {

class PayloadReader;
class PayloadWriter;

// An address of a host.
struct Nic {
    std::string name;          // the interface's: "eth1"; "" if it is not known
    std::string address;       // numeric; a link-local one with its interface: "fe80::1%eth1"
    int prefix = 0;            // bits of its subnet; 0: not known
    int megabits = -1;         // a second; -1: not known
    bool is_hardware = false;  // also a bond, VLAN or bridge that rests on hardware
    int sharers = 0;           // ranks with an address in its subnet; 0: not counted. Others are not told it

    std::string text() const;  // for people: "10.0.1.1/24 (eth1)"
    bool is_ipv4() const { return address.find(':') == address.npos; }
};

// The most that a host tells others of.
inline constexpr std::size_t most_nics = 16;

// Returns the addresses by which other hosts may reach this one, the best first; empty if there are none.
// Only interfaces that are up and running count, without loopback and link-local addresses, and one address
// of each subnet of an interface. Interfaces based on hardware come before those made by software for this
// host's containers and guests, then IPv4 before IPv6, then the fastest first. `interfaces`: where the kernel
// describes them.
std::vector<Nic> reachable_nics(const std::filesystem::path& interfaces = "/sys/class/net");

// Returns the NIC that has this address; only the address if there is none, or it is loopback's.
Nic nic_at(const std::string& address, const std::filesystem::path& interfaces = "/sys/class/net");

// Returns true if `address` is in the NIC's subnet; false if that is link-local, which exists on each link.
bool is_in_subnet(std::string_view address, const Nic& nic);

// wanted: an interface's name, or a subnet: "eth1", "10.0.1.0/24".
bool is_wanted(const Nic& nic, std::string_view wanted);

void write(PayloadWriter& writer, const std::vector<Nic>& nics);
std::vector<Nic> read_nics(PayloadReader& reader);  // throws ProtocolError

// A NIC here, and the one there that a connection from it leads to.
struct Rail {
    std::optional<Nic> here;  // none: the kernel chooses it by its routes
    Nic there;
};

// Returns the ways from a host to another, the best first: rails between hardware come before others, then
// those whose two ends share a subnet before what is routed, IPv4 before IPv6, the faster first, then the
// subnet that fewer ranks share: on BCube a switch comes before a network that joins all hosts. Addresses
// that both hosts have come last, because from here they lead to this host, unless both are the same one.
// wanted: "", or as for is_wanted: then only NICs that fit it count, on both sides.
std::vector<Rail> rails_between(const std::vector<Nic>& here, const std::vector<Nic>& there,
                                std::string_view wanted = {});

inline constexpr std::size_t most_lanes = 4;
// Returns the rails that are as good as the first one, on NICs of their own on both hosts, and share subnets;
// at most most_lanes, the first among them.
std::vector<Rail> equals_of_first(const std::vector<Rail>& rails);

}  // namespace hocket::transport
