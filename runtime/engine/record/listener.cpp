#include "runtime/engine/record/listener.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dsl/base/named_file.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/forks.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/thread.hpp"

namespace hocket::record {
namespace {

constexpr int look_again_ms = 250;  // inotify does not report files that other hosts have made
constexpr std::size_t most_request_bytes = 4096;

// State that the signal handler uses. A process has one disposition of each signal, however many copies of
// Hocket it has loaded.
constinit std::atomic<int> bell{-1};
struct Disposition {
    struct sigaction before {};
    int users = 0;
};
std::array<Disposition, NSIG> dispositions;

void on_signal(int signal, siginfo_t* info, void* context) {
    const int errno_before = errno;
    const std::uint64_t one = 1;
    if (const int fd = bell.load(); fd >= 0) [[maybe_unused]]
        const ssize_t ignored = write(fd, &one, sizeof one);
    errno = errno_before;
    const struct sigaction& before = dispositions[static_cast<std::size_t>(signal)].before;
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(signal, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(signal);
}

bool is_ours(int signal) {
    struct sigaction now {};
    return sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == on_signal;
}

// The flags and the mask of the program's handler still apply to it.
void catch_signal(int signal) {
    Disposition& disposition = dispositions[static_cast<std::size_t>(signal)];
    if (disposition.users++ > 0 && is_ours(signal)) return;
    struct sigaction ours {};
    if (sigaction(signal, nullptr, &disposition.before) == 0) {
        const bool has_handler =
            disposition.before.sa_handler != SIG_DFL && disposition.before.sa_handler != SIG_IGN;
        if (has_handler) ours = disposition.before;
        ours.sa_flags =
            SA_SIGINFO | (has_handler ? disposition.before.sa_flags & ~static_cast<int>(SA_RESETHAND)
                                      : SA_RESTART | SA_ONSTACK);
        ours.sa_sigaction = on_signal;
        if (sigaction(signal, &ours, nullptr) == 0) return;
    }
    --disposition.users;
    throw Error(Status::io, fmt::format("signal {} cannot be caught: {}", signal, std::strerror(errno)));
}

void release_signal(int signal) {
    Disposition& disposition = dispositions[static_cast<std::size_t>(signal)];
    if (--disposition.users == 0 && is_ours(signal)) sigaction(signal, &disposition.before, nullptr);
}

// Distinguishes one request file from another.
struct Stamp {
    std::int64_t seconds = 0, nanoseconds = 0;
    std::uint64_t inode = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
};

Stamp stamp_of(const std::string& file) {
    struct stat facts {};
    if (file.empty() || stat(file.c_str(), &facts) != 0) return {};
    return {facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_ino};
}

std::string first_line(const std::string& file) {
    try {
        const std::string text = read_text(file, most_request_bytes);
        return text.substr(0, text.find('\n'));
    } catch (const UnreadableFile& refused) {
        throw Error(Status::io, fmt::format("the request {} cannot be read: {}", file, refused.what()));
    }
}

}  // namespace

struct Listener::Entry {
    std::string file;  // "" for no folder
    int signal;
    Asked asked;
    Stamp seen;
};

// Serves all communicators of a process with one thread. A forked child starts a new one when it needs one.
class Listener::Station final : private forks::Inherited {
  public:
    static Station& get();

    void add(Entry& entry);
    void remove(Entry& entry);

  private:
    Station() { begin(); }
    ~Station() { end(); }
    void start();
    void stop();
    void run();
    void look(bool rung);
    void in_child() noexcept override;

    static constinit std::atomic<Station*> current;

    std::mutex changing_;  // serialises add() and remove()
    std::mutex mutex_;     // guards entries_
    std::vector<Entry*> entries_;
    std::atomic<bool> is_ending_ = false, has_files_ = false;
    int event_ = -1;
    std::thread thread_;
};

constinit std::atomic<Listener::Station*> Listener::Station::current{nullptr};

Listener::Station& Listener::Station::get() {
    Station* known = current.load();
    if (known) return *known;
    auto* const made = new Station;
    if (current.compare_exchange_strong(known, made)) return *made;
    delete made;
    return *known;
}

// The child does not have the thread, the locks may be held for ever, and `event_` is about to be closed.
void Listener::Station::in_child() noexcept {
    current = nullptr;
    bell = -1;
    for (int signal = 1; signal < NSIG; ++signal) {
        Disposition& disposition = dispositions[static_cast<std::size_t>(signal)];
        if (disposition.users > 0 && is_ours(signal)) sigaction(signal, &disposition.before, nullptr);
        disposition.users = 0;
    }
}

void Listener::Station::add(Entry& entry) {
    const std::lock_guard one_at_a_time(changing_);
    if (entries_.empty()) start();
    try {
        if (entry.signal != 0) catch_signal(entry.signal);
    } catch (...) {
        if (entries_.empty()) stop();
        throw;
    }
    const std::lock_guard lock(mutex_);
    entries_.push_back(&entry);
    if (!entry.file.empty() && !has_files_.exchange(true)) eventfd_write(event_, 1);
}

void Listener::Station::remove(Entry& entry) {
    const std::lock_guard one_at_a_time(changing_);
    {
        const std::lock_guard lock(mutex_);  // held by a call that is under way
        std::erase(entries_, &entry);
    }
    if (entry.signal != 0) release_signal(entry.signal);
    if (entries_.empty()) stop();
}

// The eventfd stays open as long as the process, because a signal handler may be using it.
void Listener::Station::start() {
    if (event_ < 0) event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_ < 0)
        throw Error(Status::io, fmt::format("an eventfd cannot be made: {}", std::strerror(errno)));
    forks::close_in_children(event_);
    bell = event_;
    is_ending_ = has_files_ = false;
    thread_ = start_thread("hkt-recorder", [this] { run(); });
}

void Listener::Station::stop() {
    is_ending_ = true;
    eventfd_write(event_, 1);
    thread_.join();
}

void Listener::Station::run() {
    while (!is_ending_) {
        pollfd entry{event_, POLLIN, 0};
        const bool rung = poll(&entry, 1, has_files_ ? look_again_ms : -1) > 0;
        eventfd_t count = 0;
        if (rung) eventfd_read(event_, &count);
        if (!is_ending_) look(rung);
    }
}

void Listener::Station::look(bool rung) {
    const std::lock_guard lock(mutex_);
    for (Entry* entry : entries_) {
        const Stamp now = stamp_of(entry->file);
        const bool is_requested = now != Stamp() && now != entry->seen;
        entry->seen = now;
        try {
            if (is_requested)
                entry->asked("request", first_line(entry->file));
            else if (rung && entry->signal != 0)
                entry->asked("signal", "");
        } catch (const std::exception& error) {
            log_line("hocket: warning: {}", error.what());
        }
    }
}

Listener::Listener(const std::string& folder, int signal, Asked asked)
    : station_(Station::get()),
      entry_(std::make_unique<Entry>(
          Entry{folder.empty() ? "" : folder + "/" + request_file, signal, std::move(asked), {}})) {
    entry_->seen = stamp_of(entry_->file);
    station_.add(*entry_);
}

Listener::~Listener() {
    station_.remove(*entry_);
}

}  // namespace hocket::record
