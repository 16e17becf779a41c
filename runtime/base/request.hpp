// What an hkt_request is: something started that somebody will wait for. Collectives, messages between
// two ranks, batches of the data cache, pushes and pulls of parameters and what is joined of several share
// it, so that callers wait for all of them in the same way.
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
