// Catch2 for the tests that also run on a device. There, on a machine that may have nothing but CUDA, a few
// macros of the same names take its place; device_main.cpp runs the test cases then.
#pragma once

#if !defined(HOCKET_ON_DEVICE)
#include "tests/support/test.hpp"
#else

#include <functional>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace hocket::test {

struct TestCase {
    std::string name;
    void (*run)();
};
inline std::vector<TestCase>& test_cases() {
    static std::vector<TestCase> cases;
    return cases;
}
struct Registered {
    Registered(const char* name, void (*run)()) { test_cases().push_back({name, run}); }
};

// The texts of INFO, as long as they are in scope.
inline std::vector<std::string> notes;
struct Note {
    explicit Note(const std::string& text) { notes.push_back(text); }
    ~Note() { notes.pop_back(); }
};

inline int failed_checks = 0;
inline bool check_that(bool holds, const char* what, const char* file, int line) {
    if (holds) return true;
    ++failed_checks;
    std::cout << file << ':' << line << ": not so: " << what << '\n';
    for (const std::string& note : notes) std::cout << "    with " << note << '\n';
    return false;
}

}  // namespace hocket::test

#define HOCKET_JOIN_NOW(a, b) a##b
#define HOCKET_JOIN(a, b) HOCKET_JOIN_NOW(a, b)
#define TEST_CASE(name)                                                                                     \
    static void HOCKET_JOIN(test_, __LINE__)();                                                             \
    static const hocket::test::Registered HOCKET_JOIN(registered_, __LINE__)(name,                          \
                                                                             HOCKET_JOIN(test_, __LINE__)); \
    static void HOCKET_JOIN(test_, __LINE__)()
#define CHECK(...) hocket::test::check_that(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
#define REQUIRE(...) \
    if (!CHECK(__VA_ARGS__)) throw std::runtime_error("the rest of the test case is left out")
#define INFO(text)                                   \
    std::ostringstream HOCKET_JOIN(text_, __LINE__); \
    HOCKET_JOIN(text_, __LINE__) << text;            \
    const hocket::test::Note HOCKET_JOIN(note_, __LINE__)(HOCKET_JOIN(text_, __LINE__).str())

#endif
