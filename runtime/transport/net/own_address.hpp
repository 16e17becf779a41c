// Finds the address at which other hosts reach this host.
#pragma once

#include <filesystem>
#include <string>

namespace hocket::transport {

// Returns the best of reachable_nics (nics.hpp), or loopback if there is none.
std::string reachable_address(const std::filesystem::path& interfaces = "/sys/class/net");

// Returns HOCKET_FABRIC_ADDR, the address that the user has chosen; empty if none.
std::string chosen_address();

// Returns the chosen address, or else the reachable one.
std::string own_address();

}  // namespace hocket::transport
