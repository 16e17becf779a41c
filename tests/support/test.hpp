// The header that every test file includes: Catch2, and a macro that skips a test with a reason and is
// counted.
#pragma once

#include <catch2/catch.hpp>

#include <string>

namespace hocket::test {
// Ends the running test case's count as "skipped"; the caller returns right after.
void note_skip(const std::string& why);
}  // namespace hocket::test

// Catch2 of Debian 12 has no SKIP of its own.
#define HOCKET_SKIP(why)                \
    do {                                \
        ::hocket::test::note_skip(why); \
        return;                         \
    } while (false)
