// The error for a part of a source that cannot be examined.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::cache {

// error: the errno, which decides between not_found and io. problem: a format string such as "the folder {}
// cannot be listed"; values: what it formats.
template <typename... Values>
Error source_error(int error, fmt::format_string<Values...> problem, Values&&... values) {
    const bool is_missing = error == ENOENT || error == ENOTDIR;
    return Error(
        is_missing ? Status::not_found : Status::io,
        fmt::format("{}: {}; {}", fmt::format(problem, std::forward<Values>(values)...), std::strerror(error),
                    is_missing        ? "check the source's path, and that it is mounted"
                    : error == EMFILE ? "the process may have no more files open; raise its limit (ulimit "
                                        "-n): the files of an index stay open"
                                      : "check who may read the source, and its storage"));
}

}  // namespace hocket::cache
