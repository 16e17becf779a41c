// Finds the address at which other hosts reach this host.
#pragma once

#include <filesystem>
#include <string>

namespace hocket::transport {

// Returns a numeric address. Only interfaces that are up count. Interfaces based on hardware come before
// those made by software for this host's containers and guests, then IPv4 before IPv6, then the fastest
// first. Returns loopback if there is no other. `interfaces`: where the kernel describes them.
std::string reachable_address(const std::filesystem::path& interfaces = "/sys/class/net");

// Returns HOCKET_FABRIC_ADDR, the address that the user has chosen; empty if none.
std::string chosen_address();

// Returns the chosen address, or else the reachable one.
std::string own_address();

}  // namespace hocket::transport
