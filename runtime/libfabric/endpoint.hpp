// Fabric over an endpoint of one of libfabric's providers.
#pragma once

#include <memory>
#include <string>

#include "runtime/fabric/fabric.hpp"

namespace hocket::transport {

// provider: libfabric's name, layered with rxm where it has no datagrams of its own. Throws Error(transport)
// naming the providers that exist when there is none.
std::unique_ptr<Fabric> open_libfabric(const std::string& provider, const std::string& source_address);

}  // namespace hocket::transport
