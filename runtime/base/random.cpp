#include "runtime/base/random.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/error.hpp"

namespace hocket {

std::string random_bytes(std::size_t bytes) {
    std::string random(bytes, '\0');
    if (getentropy(random.data(), random.size()) != 0)
        throw Error(Status::bootstrap,
                    fmt::format("the system gives no random numbers (getentropy: {})", std::strerror(errno)));
    return random;
}

std::string random_hex(std::size_t bytes) {
    std::string text;
    for (const char byte : random_bytes(bytes))
        text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return text;
}

}  // namespace hocket
