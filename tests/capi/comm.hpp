// Communicators of the C ABI, for tests.
#pragma once

#include <hocket.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/support/expect.hpp"

namespace hocket::test {

struct DestroyComm {
    void operator()(hkt_comm* comm) const { hkt_comm_destroy(comm); }
};
using Comm = std::unique_ptr<hkt_comm, DestroyComm>;

// Throws the text of hkt_last_error.
inline Comm join(const hkt_comm_options* options = nullptr) {
    hkt_comm* comm = nullptr;
    const hkt_status status = hkt_comm_create(options, &comm);
    expect(status == HKT_SUCCESS, hkt_last_error());
    return Comm(comm);
}

// A world of one rank. timeout_ms: 0 for the usual one.
inline Comm alone(std::int64_t timeout_ms = 0) {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.rank = 0;
    options.world_size = 1;
    options.timeout_ms = timeout_ms;
    return join(&options);
}

// Throws the communicator's last error unless the call went well.
inline void must(hkt_comm* comm, hkt_status status) {
    if (status != HKT_SUCCESS) throw std::runtime_error(hkt_comm_last_error(comm));
}

// The communicator of the ranks that give this color.
inline Comm split(hkt_comm* comm, std::int32_t color, std::int32_t key = 0) {
    hkt_comm* group = nullptr;
    must(comm, hkt_comm_split(comm, color, key, &group));
    return Comm(group);
}

// The text of a call that has to fail so.
inline std::string failure_of(hkt_comm* comm, hkt_status status, hkt_status expected) {
    expect(status == expected, std::string("expected ") + hkt_error_string(expected) + ", got " +
                                   hkt_error_string(status) + ": " + hkt_comm_last_error(comm));
    return hkt_comm_last_error(comm);
}

}  // namespace hocket::test
