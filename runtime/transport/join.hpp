// Becoming a member: rank 0 (the host) admits the other ranks (its guests).
#pragma once

#include <vector>

#include "runtime/transport/bootstrap.hpp"
#include "runtime/transport/link.hpp"

namespace hocket::transport {

// Both return when all ranks have joined, and throw as Bootstrap::join does.
std::vector<Link> admit_guests(const BootstrapOptions& options);  // by rank; entry 0 is empty
Link join_host(const BootstrapOptions& options);

// For texts: "60 s", "0.5 s".
std::string seconds_text(std::chrono::milliseconds duration);

// For texts: "rank 3", "ranks 1, 2 and 7"; long lists are cut.
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace hocket::transport
