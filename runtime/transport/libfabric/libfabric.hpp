// libfabric itself. It is loaded when the first endpoint is opened, and not earlier, because some of the
// libraries that it depends on (libpsm2, libinfinipath) replace the process's signal handlers in their
// constructors. That must not happen to a program only because it is linked with Hocket.
#pragma once

namespace hocket::transport {

// Loads libfabric (HOCKET_LIBFABRIC, else libfabric.so.1) for the rest of the process's life. Call it while
// SignalHandlersKept exists (signal_guard.hpp). Idempotent, thread-safe. Throws Error(transport) if it is not
// installed.
void load_libfabric();

}  // namespace hocket::transport
