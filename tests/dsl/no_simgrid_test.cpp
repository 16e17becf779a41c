#include "tests/support/test.hpp"

TEST_CASE("random flows and schedules take as long as in SimGrid") {
    HOCKET_SKIP(
        "SimGrid isn't installed: apt-get install libsimgrid-dev, then meson setup --reconfigure build");
}
