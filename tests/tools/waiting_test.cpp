#include "tools/schedc/waiting.hpp"

#include "tests/support/terminal.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using namespace hocket;

namespace {

// What a command with this patience shows on a terminal if its work takes 50 ms.
std::string shown(test::Terminal& terminal, std::chrono::milliseconds patience) {
    {
        tools::Waiting waiting(patience);
        const dsl::Deadline deadline(60s, &waiting);
        deadline.check("laying out");
        for (int i = 0; i < 5; ++i) {
            deadline.note(static_cast<std::uint64_t>(i), 4);
            deadline.check("predicting");
            std::this_thread::sleep_for(10ms);
        }
        waiting.end();
        waiting.end();
    }
    return terminal.text();
}

}  // namespace

TEST_CASE("what a long command is at is a line that is gone before the result") {
    test::Terminal terminal(STDERR_FILENO);
    if (!terminal.works()) HOCKET_SKIP("no pseudo-terminal here");
    const std::string text = shown(terminal, 0ms);
    terminal.restore();
    CHECK_THAT(text, Catch::StartsWith("\rlaying out, 0.0 s\x1b[K") && Catch::EndsWith("\r\x1b[K"));
    CHECK(text.find('\n') == std::string::npos);
    CHECK(text.substr(0, text.size() - 4).find("\r\x1b[K") == std::string::npos);  // removed once
}

TEST_CASE("a short command shows nothing") {
    test::Terminal terminal(STDERR_FILENO);
    if (!terminal.works()) HOCKET_SKIP("no pseudo-terminal here");
    const std::string text = shown(terminal, 60s);
    terminal.restore();
    CHECK(text == "");
}

TEST_CASE("where stderr is no terminal nothing is shown") {
    test::Terminal terminal(STDERR_FILENO);
    if (!terminal.works()) HOCKET_SKIP("no pseudo-terminal here");
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    dup2(ends[1], STDERR_FILENO);
    {
        tools::Waiting waiting(0ms);
        dsl::Deadline(60s, &waiting).check("predicting");
    }
    terminal.restore();
    close(ends[1]);
    char byte;
    CHECK(read(ends[0], &byte, 1) == 0);
    close(ends[0]);
}

TEST_CASE("the line says what is done, how far it is, and for how long") {
    CHECK(tools::waiting_text(0, 0, "predicting: following messages", 43, 100, 12s) ==
          "predicting: 43 %, 12 s");
    CHECK(tools::waiting_text(0, 0, "verifying ring", 0, 0, 2.5s) == "verifying ring, 2.5 s");
    CHECK(tools::waiting_text(3, 40, "predicting how", 7, 4, 200s) ==
          "point 3 of 40; predicting: 100 %, 3 m 20 s");
}
