// Libraries that take long to load, in tests that fork many processes which use them.
#pragma once

namespace hocket::test {

// Each loads a library into this process, for those that it forks. This process has no more threads and files
// than before, and its signal handlers. They do nothing where the library is not installed. Idempotent.
//
// libfabric's libraries look for hardware and measure the processor's clock when they are loaded, which takes
// half a second. The compiler's library is LLVM, which takes some 30 ms of a process's time.
void load_libfabric_for_children();
void load_compiler_for_children();

}  // namespace hocket::test
