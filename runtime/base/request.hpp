// The base of every hkt_request: an operation that was started and will be waited for. Collectives, messages
// between two ranks, batches of the data cache, pushes and pulls of parameters, and joined requests share it,
// so that callers wait for all of them in the same way.
#pragma once

#include <cstdint>

namespace hocket {

struct Request {
    enum class Type : std::uint8_t { collective, message, batch, joined, parameters };

    explicit Request(Type of) : type(of) {}
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

    const Type type;
    void* user = nullptr;  // for the use of the code that the request is lent to

  protected:
    ~Request() = default;
};

}  // namespace hocket
