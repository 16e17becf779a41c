// When a server's checkpoints are written, and what becomes of those that cannot be.
#include "runtime/params/server/checkpoints.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/params/links/content.hpp"
#include "tests/support/long_enough.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

namespace {

// Set while threads cannot be started, or folders not be listed, in this process.
std::atomic<bool> no_threads = false, no_lists = false;

template <typename Function>
Function* next_function(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// They take the place of the C library's. readdir may have another name in this program (_FILE_OFFSET_BITS).
// Visible, so that the C++ library finds them, too.
#pragma GCC visibility push(default)
extern "C" {
dirent* failing_readdir(DIR* folder) __asm__("readdir");
int failing_pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*body)(void*),
                           void* user) __asm__("pthread_create");

dirent* failing_readdir(DIR* folder) {
    static const auto real = next_function<dirent*(DIR*)>("readdir");
    if (!no_lists) return real(folder);
    errno = EIO;
    return nullptr;
}

int failing_pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*body)(void*), void* user) {
    static const auto real =
        next_function<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
    return no_threads ? EAGAIN : real(thread, how, body, user);
}
}
#pragma GCC visibility pop

namespace {

using namespace hocket;
using namespace hocket::params;
using namespace hocket::test;
namespace fs = std::filesystem;

std::vector<std::string> files_of(const TemporaryFolder& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

// The checkpoints of a server, as its service uses them. Each has a clock and is otherwise the same.
class Disk {
  public:
    explicit Disk(const std::string& folder) {
        mailbox_.attend();
        Job job;
        job.tensors = {{"a", DataType::int64, 1}};
        checkpoints_.emplace(folder, ShardName{.job = job, .run = "r"}, Clock{0}, mailbox_,
                             [this](const Snapshot& snapshot, const std::string& error, bool is_whole) {
                                 if (!error.empty()) ++failures;
                                 if (error.empty() && is_whole) whole.push_back(snapshot.clocks[0]);
                             });
    }
    void write_whole(Clock round) { checkpoints_->write_whole(snapshot_of(round)); }
    void wait() {
        while (checkpoints_->is_writing()) {
            mailbox_.wait();
            mailbox_.empty();
        }
    }
    // As the service does in each tick. Returns whether a checkpoint was due.
    bool tick() {
        const bool is_due = checkpoints_->is_due(0, false);
        if (is_due) checkpoints_->write(snapshot_of(moment));
        wait();
        return is_due;
    }
    // Ticks until nothing is due that failed.
    void recover() {
        const auto until = transport::Clock::now() + long_enough;
        while (!tick() && transport::Clock::now() < until)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }

    std::vector<Clock> whole;  // those that were written, in the order of time
    int failures = 0;

  private:
    static constexpr Clock moment = 1'000'000;
    Snapshot snapshot_of(Clock round) const {
        return {1, {value_of({memory_->allocate(8), 8})}, {round}, {}};
    }

    const std::shared_ptr<Memory> memory_ = Memory::make();
    transport::Mailbox mailbox_;
    std::optional<Checkpoints> checkpoints_;
};

}  // namespace

TEST_CASE("what killed servers have left of any checkpoint is removed, and nothing else") {
    std::mt19937_64 random(20261201);
    const TemporaryFolder folder;
    std::vector<std::string> stay = {"server-0.checkpoint.0123456789abcdef", "server-0.round-x.checkpoint",
                                     "mine.checkpoint.0123456789abcdef.new",
                                     "server-0.round-7.checkpoint.0123456789abcde.new",
                                     "server-0.round-.checkpoint.0123456789abcdef.new"};
    std::vector<std::string> goes;
    for (int i = 0; i < 50; ++i) {
        const auto whole = random() % 4 == 0 ? "" : fmt::format(".round-{}", random() % 100);
        goes.push_back(fmt::format("server-{}{}.checkpoint.{:016x}.new", random() % 3, whole, random()));
    }
    goes.push_back(fmt::format("server.checkpoint.{:016x}.new", random()));
    const std::string living = fmt::format("server-0.round-8.checkpoint.{:016x}.new", random());
    stay.push_back(living);
    for (const auto& names : {stay, goes})
        for (const std::string& name : names) folder.write(name, "half of a checkp");
    const int writer = open((folder / living).c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(flock(writer, LOCK_EX | LOCK_NB) == 0);
    require_folder(folder.path(), true);
    close(writer);
    std::sort(stay.begin(), stay.end());
    CHECK(files_of(folder) == stay);
}

TEST_CASE("each checkpoint of whole rounds is written, in order, whatever fails meanwhile") {
    std::mt19937 random(20261201);
    for (int i = 0; i < 8; ++i) {
        const TemporaryFolder above;
        const std::string folder = above / "there", gone = above / "gone";
        fs::create_directory(folder);
        Disk disk(folder);
        std::vector<Clock> rounds;
        for (Clock round = 1; round <= 12; ++round) {
            const bool is_gone = random() % 3 == 0;
            no_threads = random() % 3 == 0;
            no_lists = random() % 3 == 0;
            const int before = disk.failures;
            if (is_gone) fs::rename(folder, gone);
            rounds.push_back(round);
            disk.write_whole(round);
            disk.wait();
            if (is_gone) fs::rename(gone, folder);
            CHECK((disk.failures > before) == (is_gone || no_threads));
        }
        no_threads = no_lists = false;
        if (disk.whole != rounds) disk.recover();
        CHECK(disk.whole == rounds);
        const auto kept = whole_rounds_in(folder, 0);
        CHECK((!kept.empty() && kept.back() == 12));
    }
}

TEST_CASE("a server does not begin with a folder that cannot be listed, which may have a checkpoint") {
    const TemporaryFolder folder;
    no_lists = true;
    std::string text;
    try {
        require_folder(folder.path(), true);
    } catch (const Error& error) {
        if (error.status() == Status::io) text = error.what();
    }
    no_lists = false;
    CHECK_THAT(text, Catch::Contains(folder.path() + ", cannot be read: " + strerror(EIO)));
    CHECK(whole_rounds_in(folder.path(), 0).empty());
}
