// Hocket's own threads inside the embedder's process.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace hocket {

// Starts a thread on which no signal handler runs: handlers are the embedder's, for the embedder's threads.
// name: up to 15 bytes, as top and gdb show it. Throws Error(out_of_memory) if the system starts no more
// threads.
std::thread start_thread(const std::string& name, std::function<void()> body);

}  // namespace hocket
