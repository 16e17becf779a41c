// Messages of bytes, for tests on memory of devices.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/capi/device/jobs.hpp"

namespace hocket::test {

using Bytes = std::vector<std::byte>;

inline Bytes contents(std::size_t bytes, int number) {
    Bytes filled(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        filled[i] = static_cast<std::byte>((i * 7 + i / 251 + static_cast<std::size_t>(number) * 31) % 256);
    return filled;
}

inline hkt_request* send(hkt_comm* comm, const void* from, std::size_t bytes, int peer, int tag) {
    hkt_request* request = nullptr;
    must(comm, hkt_send(from, bytes, HKT_UINT8, peer, tag, comm, &request));
    return request;
}

inline hkt_request* receive(hkt_comm* comm, void* to, std::size_t bytes, int peer, int tag) {
    hkt_request* request = nullptr;
    must(comm, hkt_recv(to, bytes, HKT_UINT8, peer, tag, comm, &request));
    return request;
}

}  // namespace hocket::test
