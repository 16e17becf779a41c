#include "runtime/params/priority/host_traffic.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "runtime/base/log.hpp"
#include "runtime/base/xxh3.hpp"

namespace hocket::params {
namespace {

using Descriptor = transport::Socket;

constexpr std::uint64_t traffic_magic = 0x6f697270'74636b68;  // "hkctprio"
constexpr int most_attempts = 1000;  // of 1 ms each, to open the file while others remove it
constexpr int layout_version = 1;    // part of the file's name, so that other versions use other files

// The name contains the time namespace: the monotonic clock counts from the start of the host, but differs
// between time namespaces.
std::string file_name(const std::string& links) {
    std::error_code none;
    const std::string text = links + " " + std::filesystem::read_symlink("/proc/self/ns/time", none).string();
    return fmt::format("hocket-params-priority-{}-{}-{:016x}", layout_version, geteuid(),
                       XXH3_64bits(text.data(), text.size()));
}

std::int64_t ns_of(transport::Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

transport::Clock::time_point time_of(std::int64_t ns) {
    return transport::Clock::time_point(
        std::chrono::duration_cast<transport::Clock::duration>(std::chrono::nanoseconds(ns)));
}

// Returns "" if the file is usable, else what is wrong with it.
std::string complaint_about(int fd, std::size_t bytes) {
    struct stat facts {};
    if (fstat(fd, &facts) < 0) return transport::error_text(errno);
    if (!S_ISREG(facts.st_mode)) return "it is not a file";
    if (facts.st_uid != geteuid() || (facts.st_mode & 022) != 0) return "other users may write to it";
    const auto size = static_cast<std::uint64_t>(facts.st_size);
    if (size != 0 && size != bytes) return "it is something else";
    return "";
}

bool is_named(const std::string& path, int fd) {
    struct stat named {
    }, opened{};
    return lstat(path.c_str(), &named) == 0 && fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

// Opens the file and takes a shared lock, as all users do. Returns a closed descriptor, and the reason in
// `why`, if there is no file to share.
Descriptor open_among_users(const std::string& path, std::size_t bytes, std::string& why) {
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
        Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
        if (!file.is_open()) {
            why = transport::error_text(errno);
            return {};
        }
        why = complaint_about(file.fd(), bytes);
        if (!why.empty()) return {};
        const bool is_locked = flock(file.fd(), LOCK_SH | LOCK_NB) == 0;
        if (is_locked && is_named(path, file.fd())) return file;
        if (!is_locked && errno != EWOULDBLOCK && errno != EINTR) {
            why = transport::error_text(errno);
            return {};
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // its last user is removing it
    }
    why = "another process holds a lock on it";
    return {};
}

// Removes the file if this is its last user. A process that opens the file meanwhile notices that the name is
// gone, and makes a new one.
void leave(const std::string& path, const Descriptor& file) {
    if (flock(file.fd(), LOCK_EX | LOCK_NB) < 0) return;
    if (is_named(path, file.fd())) unlink(path.c_str());
    flock(file.fd(), LOCK_UN);  // closing is not enough if a forked child has the descriptor, too
}

}  // namespace

// A file of zeros is valid: the first user has nothing to initialize that another could find half done.
struct HostTraffic::Slots {
    std::atomic<std::uint64_t> magic;
    std::array<std::atomic<std::uint64_t>, 7> zero;
    std::array<std::atomic<std::int64_t>, highest_priority + 1> until;  // in ns of the monotonic clock
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

struct HostTraffic::User {
    std::string path;
    Descriptor file;
    std::shared_ptr<Slots> slots;
    pid_t process = getpid();

    User(std::string path, Descriptor file, std::shared_ptr<Slots> slots)
        : path(std::move(path)), file(std::move(file)), slots(std::move(slots)) {}
    User(const User&) = delete;
    ~User() {
        if (getpid() == process) leave(path, file);  // a forked child shares its parent's lock
    }
};

std::string name_of_links(const Environment& environment) {
    if (const auto name = EnvironmentReader(environment).text("HOCKET_PARAMS_HOST")) return *name;
    std::error_code none;
    return std::filesystem::read_symlink("/proc/self/ns/net", none).string();
}

HostTraffic::HostTraffic(const std::string& folder, const std::string& links) {
    const std::string path = folder + "/" + file_name(links);
    std::string why;
    slots_ = map(path, why);
    if (slots_) return;
    is_shared_ = false;
    slots_ = std::make_shared<Slots>();
    log_line(
        "hocket: warning: this job takes no part in priorities between jobs on this host: {}: {}; a file "
        "that is not Hocket's must be removed",
        path, why);
}

// Returns null, and the reason in `why`, if the file cannot be mapped.
std::shared_ptr<HostTraffic::Slots> HostTraffic::map(const std::string& path, std::string& why) {
    Descriptor file = open_among_users(path, sizeof(Slots), why);
    if (!file.is_open()) return nullptr;
    // Allocates the pages now: on a full file system, a store to a missing page would kill the process.
    int error;
    while ((error = posix_fallocate(file.fd(), 0, sizeof(Slots))) == EINTR) continue;
    if (error != 0) {
        why = transport::error_text(error);
        return nullptr;
    }
    void* const memory = mmap(nullptr, sizeof(Slots), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
    if (memory == MAP_FAILED) {
        why = transport::error_text(errno);
        return nullptr;
    }
    const std::shared_ptr<Slots> slots(static_cast<Slots*>(memory),
                                       [](Slots* mapped) { munmap(mapped, sizeof(Slots)); });
    std::uint64_t found = 0;
    if (!slots->magic.compare_exchange_strong(found, traffic_magic) && found != traffic_magic) {
        why = "it is something else";
        return nullptr;
    }
    const auto user = std::make_shared<User>(path, std::move(file), slots);
    return {user, slots.get()};
}

void HostTraffic::mark(int priority, transport::Clock::time_point until) {
    auto& slot = slots_->until[static_cast<std::size_t>(priority)];
    const std::int64_t known = slot.load(std::memory_order_relaxed);
    // Keeps a later time, which another process of this priority may have set, unless it is out of range and
    // thus damaged.
    if (known >= ns_of(until) && known <= ns_of(until + longest_window)) return;
    slot.store(ns_of(until), std::memory_order_relaxed);
}

transport::Clock::time_point HostTraffic::busy_above(int priority, transport::Clock::time_point now) const {
    const std::int64_t last = ns_of(now + longest_window);  // a later time is damaged
    std::int64_t busy = 0;
    for (auto level = static_cast<std::size_t>(priority) + 1; level < slots_->until.size(); ++level) {
        const std::int64_t until = slots_->until[level].load(std::memory_order_relaxed);
        if (until <= last) busy = std::max(busy, until);
    }
    return time_of(busy);
}

}  // namespace hocket::params
