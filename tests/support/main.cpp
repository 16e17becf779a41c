// Catch2's main, and a listener that leaves the counts of test cases where tools/test adds them up.
#define CATCH_CONFIG_MAIN
#include "tests/support/test.hpp"

#include <cstdlib>
#include <fstream>
#include <iostream>

namespace hocket::test {
namespace {

std::string skip_reason;

struct CountListener : Catch::TestEventListenerBase {
    using TestEventListenerBase::TestEventListenerBase;
    int passed = 0, failed = 0, skipped = 0;

    void testCaseStarting(const Catch::TestCaseInfo& info) override {
        TestEventListenerBase::testCaseStarting(info);
        skip_reason.clear();
    }
    void testCaseEnded(const Catch::TestCaseStats& stats) override {
        TestEventListenerBase::testCaseEnded(stats);
        if (!stats.totals.assertions.allOk()) {
            ++failed;
        } else if (!skip_reason.empty()) {
            ++skipped;
            std::cout << "skipped: " << stats.testInfo.name << ": " << skip_reason << std::endl;
        } else {
            ++passed;
        }
    }
    void testRunEnded(const Catch::TestRunStats& stats) override {
        TestEventListenerBase::testRunEnded(stats);
        if (const char* file = std::getenv("HOCKET_TEST_COUNTS"))
            std::ofstream(file) << passed << ' ' << failed << ' ' << skipped << '\n';
    }
};
CATCH_REGISTER_LISTENER(CountListener)

}  // namespace

void note_skip(const std::string& why) {
    skip_reason = why.empty() ? "no reason given" : why;
}

}  // namespace hocket::test
