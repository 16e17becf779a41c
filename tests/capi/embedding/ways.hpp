// The connections of the ranks of these tests, and communicators whose operations move by themselves.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/capi/comm.hpp"

namespace hocket::test {

// Memory between ranks of one host, messages, and both.
inline const std::vector<std::map<std::string, std::string>> ways = {
    {}, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}, {{"HOCKET_PROVIDER_FOR_ALL", "ofi+tcp"}}};

inline Comm join_with_thread() {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.progress = HKT_PROGRESS_THREAD;
    return join(&options);
}

}  // namespace hocket::test
