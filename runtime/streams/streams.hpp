// Fabric over plain TCP: one authenticated connection between any two ranks.
#pragma once

#include <memory>
#include <string>

#include "runtime/fabric/fabric.hpp"

namespace hocket::transport {

// As Fabric::open(). connect() is collective here.
std::unique_ptr<Fabric> open_streams(const std::string& source_address);

}  // namespace hocket::transport
