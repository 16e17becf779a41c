#include "runtime/transport/net/event.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "runtime/base/error.hpp"

namespace hocket::transport {

Event::Event() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_.is_open()) throw Error(Status::bootstrap, "cannot make an eventfd(2): " + advised_text(errno));
}

void Event::raise() const {
    const std::uint64_t one = 1;
    while (write(fd(), &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void Event::clear() const {
    std::uint64_t count;
    while (read(fd(), &count, sizeof count) < 0 && errno == EINTR) {
    }
}

}  // namespace hocket::transport
