#include "runtime/fabric/shm_names.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace hocket::transport {
namespace {

unsigned long pid_namespace() {
    struct stat status {};
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// Clock ticks since boot, which tell a process from a later one with the same pid; 0: no such process.
unsigned long long start_time(int pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string line;
    if (!std::getline(file, line)) return 0;
    std::istringstream fields(line.substr(line.rfind(')') + 1));  // behind the name, which may hold anything
    char state = 0;
    std::string skipped;
    fields >> state;
    if (state == 'Z' || state == 'X') return 0;
    for (int field = 4; field < 22; ++field) fields >> skipped;
    unsigned long long ticks = 0;
    fields >> ticks;
    return ticks;
}

struct Owner {
    unsigned long pid_namespace = 0;
    int pid = 0;
    unsigned long long started = 0;
};

// All zero if it is no name of this kind.
Owner owner_of(const std::string& name) {
    Owner owner;
    const int fields =
        std::sscanf(name.c_str(), "hocket.%lu.%d.%llu.", &owner.pid_namespace, &owner.pid, &owner.started);
    return fields == 3 ? owner : Owner{};
}

bool is_dead(const std::string& name) {
    const Owner owner = owner_of(name);
    return owner.pid_namespace != 0 && owner.pid_namespace == pid_namespace() &&
           start_time(owner.pid) != owner.started;
}

}  // namespace

std::string fresh_shm_name() {
    static std::atomic<unsigned> serial{0};
    return fmt::format("hocket.{}.{}.{}.{}", pid_namespace(), getpid(), start_time(getpid()), serial++);
}

int pid_in_shm_name(const std::string& name) {
    return owner_of(name).pid;
}

int remove_dead_shm_names() noexcept try {
    int removed = 0;
    std::error_code error;  // files come and go: every failure means "not ours to remove"
    for (std::filesystem::directory_iterator file("/dev/shm", error), end; !error && file != end;
         file.increment(error)) {
        std::error_code ignored;
        if (is_dead(file->path().filename()) && std::filesystem::remove(file->path(), ignored)) ++removed;
    }
    return removed;
} catch (...) {
    return 0;
}

}  // namespace hocket::transport
