// Names of the shm provider's regions in /dev/shm. They tell whose process they belong to, so that those of
// processes which were killed can be found and removed.
#pragma once

#include <string>

namespace hocket::transport {

// "hocket.<pid namespace>.<pid>.<start time>.<serial>": unique on this host, and short.
std::string fresh_shm_name();

// The pid in such a name; 0 if it is no such name.
int pid_in_shm_name(const std::string& name);

// Removes the regions of processes that no longer exist. Leaves alone what it cannot judge: names of other
// programs and of other pid namespaces. Returns the number of files removed. Never throws.
int remove_dead_shm_names() noexcept;

}  // namespace hocket::transport
