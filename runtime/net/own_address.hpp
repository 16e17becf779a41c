// At which of its addresses a host is reached by others.
#pragma once

#include <filesystem>
#include <string>

namespace hocket::transport {

// Numeric. Of the interfaces that are up: one that rests on hardware before one that software made up for
// this host's containers and guests, then IPv4 before IPv6, then the fastest. Loopback if there is no other.
// `interfaces`: where the kernel describes them.
std::string reachable_address(const std::filesystem::path& interfaces = "/sys/class/net");

}  // namespace hocket::transport
