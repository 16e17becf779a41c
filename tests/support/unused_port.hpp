// A port for a listener that comes later, or never.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <string>

#include "tests/support/expect.hpp"

namespace hocket::test {

// Returns a port that is free at all addresses, and that the kernel gives to nobody by itself: between this
// call and the port's use other tests make many connections, and many listeners at any port.
inline int unused_port() {
    int first = 0, last = 0;
    expect(bool(std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last),
           "the range of the kernel's ports");
    std::random_device random;
    for (int attempt = 0; attempt < 1000; ++attempt) {
        const int port = 10000 + static_cast<int>(random() % 50000);
        if (port >= first && port <= last) continue;
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_ANY);
        const bool is_free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
        close(fd);
        if (is_free) return port;
    }
    expect(false, "no port outside of " + std::to_string(first) + " to " + std::to_string(last) + " is free");
    return 0;
}

}  // namespace hocket::test
