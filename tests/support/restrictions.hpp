// Circumstances that containers and hardened hosts impose, imposed on the calling process.
#pragma once

#include <atomic>

namespace hocket::test {

// process_vm_readv and process_vm_writev fail with EPERM from now on (a seccomp filter), as they do under
// Yama's ptrace_scope or without CAP_SYS_PTRACE. False if the kernel doesn't allow filters.
bool refuse_cross_memory_access();

// process_vm_readv and process_vm_writev of the calling thread, and of those that it makes, say that they
// have begun, and hang until they are let go; then they fail with ESRCH. False if the kernel doesn't allow
// filters.
bool hang_in_cross_memory_access(std::atomic<bool>& has_begun, const std::atomic<bool>& is_let_go);

// A connect(2) of the calling thread kills the process, with SIGKILL: the next one, or the one after `after`
// others. False if the kernel doesn't allow filters.
bool die_when_connecting(int after = 0);

// Moves to a network namespace in which only the loopback interface is up. False without the privilege.
bool enter_loopback_only_network();

}  // namespace hocket::test
