// Which of its addresses others reach this host by.
#pragma once

#include <filesystem>
#include <string>

namespace hocket::transport {

// Returns a numeric address. Only interfaces that are up count. One that rests on hardware comes before one
// that software made up for this host's containers and guests, then IPv4 before IPv6, then the fastest first.
// Loopback if there is no other. `interfaces`: where the kernel describes them.
std::string reachable_address(const std::filesystem::path& interfaces = "/sys/class/net");

// HOCKET_FABRIC_ADDR: which address the user has chosen; empty if none.
std::string chosen_address();

// The chosen one, or else the reachable one.
std::string own_address();

}  // namespace hocket::transport
