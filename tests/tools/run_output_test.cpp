// hocket-run's output on a real terminal: a pseudo-terminal, read back.
#include <stdlib.h>

#include "tests/support/terminal.hpp"
#include "tests/support/test.hpp"
#include "tools/run/output.hpp"

using hocket::tools::Console;
using hocket::tools::LineReader;

namespace {

void flush(Console& console) {
    for (int tries = 0; console.pending(1) && tries < 1000; ++tries) console.write_some(1);
}

}  // namespace

TEST_CASE("on a terminal, rank 0's progress bar is drawn in place and other lines go above it") {
    setenv("NO_COLOR", "1", 1);
    hocket::test::Terminal terminal(STDOUT_FILENO);
    if (!terminal.works()) HOCKET_SKIP("no pseudo-terminal here");
    Console console;
    const bool seen_as_terminal = console.stdout_is_terminal();
    LineReader bar(console, 0, 1), other(console, 1, 1);
    bar.add("\r10 %");
    bar.add("\r20");
    bar.add(" %");
    other.add("hello\n");
    bar.add("\r100 %\n");
    other.add("\rquiet");  // only rank 0's updates are drawn
    other.add("\rlast\n");
    flush(console);
    const std::string text = terminal.text();
    terminal.restore();
    unsetenv("NO_COLOR");
    CHECK(seen_as_terminal);
    CHECK(text ==
          "\r\x1b[K[0] 10 %"
          "\r\x1b[K[0] 20"
          "\r\x1b[K[0] 20 %"
          "\r\x1b[K[1] hello\n[0] 20 %"
          "\r\x1b[K[0] 100 %\n"
          "[1] last\n");
}

TEST_CASE("a line without an end is cut before it fills the memory") {
    Console console;
    LineReader reader(console, 0, 2);
    const std::string piece(100'000, 'x');
    for (int i = 0; i < 20; ++i) reader.add(piece);
    CHECK(console.full());
}
