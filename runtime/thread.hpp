// Threads of Hocket's own, inside the embedder's process.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace hocket {

// A thread on which no signal handler runs: those are the embedder's, for the embedder's threads. name: up to
// 15 bytes, as top and gdb show it. Throws Error(out_of_memory): the system starts no more threads.
std::thread start_thread(const std::string& name, std::function<void()> body);

}  // namespace hocket
