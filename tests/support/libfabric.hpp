// libfabric in tests that fork many processes which use it.
#pragma once

namespace hocket::test {

// Loads libfabric into this process, for those that it forks: its libraries look for hardware and measure the
// processor's clock when they are loaded, which takes half a second. This process has no more threads and
// files than before, and its signal handlers. Does nothing where libfabric is not installed. Idempotent.
void load_libfabric_for_children();

}  // namespace hocket::test
