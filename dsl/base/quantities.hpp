// Sizes, rates and times as people write and read them: on command lines, in topologies and in networks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/readable.hpp"

namespace hocket::dsl {

// A text that is no such quantity. what() says why, hint what is right.
class QuantityError : public std::runtime_error {
  public:
    QuantityError(const std::string& what, std::size_t where, std::string what_is_right)
        : std::runtime_error(readable(what)), at(where), hint(std::move(what_is_right)) {}
    std::size_t at;  // the index in the text from which on it is wrong
    std::string hint;
};

// All of them read the whole text, and throw QuantityError.

// Reads bits or bytes a second: "10Gb/s", "1.5GB/s". k (or K), M, G and T are powers of 1000. Returns bytes a
// second, finite and more than 0.
double parse_rate(std::string_view text);
// Reads "300ns", "5us", "1.5ms" or "2s". Returns seconds, finite and from 0 on.
double parse_time(std::string_view text);
// Reads bytes: "4096", "64K", "1.5M", "8GiB", "500MB", "500 MB". KB, MB, ... are powers of 1000; KiB, and a
// letter alone, as is usual for memory, of 1024. Returns at most 2^62. A text that comes to no whole number
// of bytes is wrong.
std::uint64_t parse_size(std::string_view text);

// Reads the span's text by one of them. Throws DiagnosticError for the part that is wrong.
template <typename Read>
auto quantity_at(Span span, Read read) try {
    return read(span.text());
} catch (const QuantityError& error) {
    throw DiagnosticError({span.file, span.begin + static_cast<std::uint32_t>(error.at), span.end},
                          error.what(), error.hint);
}

std::string text_of_size(double bytes);    // "341.3 KiB"
std::string text_of_time(double seconds);  // "1.26 us", "1.5 ms": at most four digits

}  // namespace hocket::dsl
