// Which sending step belongs to which receiving one.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "tools/schedc/imports/msccl/program.hpp"

namespace hocket::tools::imports::msccl {

// The sender, the receiver, the channel.
using Connection = std::tuple<int, int, int>;

struct Ends {
    std::vector<Place> senders, receivers;  // the n-th of both belong together
};

// Throws DiagnosticError if the two ends of a connection do not fit together, or if two threadblocks share
// one.
std::map<Connection, Ends> connect(const Program& program);

}  // namespace hocket::tools::imports::msccl
