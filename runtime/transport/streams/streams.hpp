// Fabric over plain TCP: one authenticated connection between any two ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::transport {

// source_address, wanted_nics: as for open_fabric (engine/job/open_fabric.hpp). connect() is collective here.
std::unique_ptr<Fabric> open_streams(const std::string& source_address, std::vector<std::string> wanted_nics);

}  // namespace hocket::transport
