// Many processes on one folder, killed at any moment.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "runtime/cache/directory/directory.hpp"
#include "tests/runtime/cache/folders.hpp"
#include "tests/support/going_on.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/sizes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace hocket::test;

namespace {

constexpr std::uint64_t limit = 512 * MiB;
constexpr std::uint64_t shared_keys = 2000;  // that all processes write; behind them each has its own

std::uint64_t size_of(std::uint64_t key) {
    return key % 16 == 0 ? 4096 + key % 3000 : key % 200;
}

// For sanitizers, with which a process takes long to start.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const std::uint64_t rounds = 2;
#else
const std::uint64_t rounds = hocket::test::in_long_form(20, 6);
#endif

// A child's report about itself.
struct Report {
    enum Kind : std::uint64_t { committed, wrong } kind;
    std::uint64_t key;
};

// Writes, reads and reports until it is killed; one round in three the folder is opened anew.
[[noreturn]] void live(const std::string& folder, std::uint64_t first_key, int to_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const Files files;
    std::mt19937_64 random(first_key);
    const auto report = [&](Report::Kind kind, std::uint64_t key) {
        const Report message{kind, key};
        if (::write(to_parent, &message, sizeof message) != sizeof message) ::_exit(1);
    };
    for (std::uint64_t own = first_key;;) {
        Directory directory(files, options_for(folder, limit));
        for (int i = 0; i < 1000; ++i) {
            const std::uint64_t key = random() % 4 == 0 ? random() % shared_keys : own++;
            if (put(directory, files, key, payload_of(key, size_of(key)))) report(Report::committed, key);
            const auto known = random() % shared_keys;
            const auto payload = get(directory, files, known);
            if (payload && *payload != payload_of(known, size_of(known))) report(Report::wrong, known);
            if (i % 4 != 0) continue;
            directory.refresh();
            ::usleep(1000);  // there may be few cores
            if (i % 500 == 0) directory.flush();
        }
        if (random() % 3 == 0) directory.close();
    }
}

class Child {
  public:
    Child(const std::string& folder, std::uint64_t first_key) {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
        reports_ = Descriptor(ends[0]);
        const Descriptor to_parent(ends[1]);
        pid_ = hocket::test::fork_to_go_on();
        if (pid_ == 0) live(folder, first_key, to_parent.get());
    }
    ~Child() { kill(); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    void kill() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

    // The reports that the child has sent since the last call.
    std::vector<Report> reports() {
        std::vector<Report> all;
        pollfd entry{reports_.get(), POLLIN, 0};
        std::array<Report, 512> some;
        while (::poll(&entry, 1, 0) > 0 && (entry.revents & POLLIN)) {
            const ssize_t got = ::read(reports_.get(), some.data(), sizeof some);
            if (got <= 0) break;
            all.insert(all.end(), some.begin(), some.begin() + got / static_cast<ssize_t>(sizeof(Report)));
        }
        return all;
    }

  private:
    Descriptor reports_;
    pid_t pid_ = -1;
};

// Kills children that share one folder, and checks the samples that they acknowledged.
class TestArena {
  public:
    explicit TestArena(std::uint64_t seed) : random_(seed) {
        for (std::size_t i = 0; i < 8; ++i) children_.push_back(make());
    }

    void kill_one() {
        std::this_thread::sleep_for(std::chrono::milliseconds(2 + random_() % 6));
        std::unique_ptr<Child>& child = children_[random_() % children_.size()];
        child->kill();
        const auto acknowledged = take(*child);
        survivor_.refresh();
        for (const std::uint64_t key : acknowledged) check(survivor_, key);
        child = make();
        for (const auto& other : children_) take(*other);  // so that their pipes don't fill
    }

    void end() {
        for (const auto& child : children_) {
            child->kill();
            take(*child);
        }
        Directory directory(files_, options_for(folder_.path(), limit));
        REQUIRE(files_with(folder_.path(), ".open").empty());
        REQUIRE(files_with(folder_.path(), ".making").empty());
        for (const std::uint64_t key : all_) check(directory, key);
        const auto verification = directory.verify(nullptr);
        CHECK(verification.bad_segments == 0);
        CHECK(verification.bad_records == 0);
        CHECK(verification.records >= all_.size());
        CHECK(folder_bytes(folder_.path()) <= limit);
    }

    std::size_t acknowledged() const { return all_.size(); }

  private:
    std::unique_ptr<Child> make() { return std::make_unique<Child>(folder_.path(), ++generation_ << 32); }

    std::vector<std::uint64_t> take(Child& child) {
        std::vector<std::uint64_t> keys;
        for (const Report& report : child.reports()) {
            REQUIRE(report.kind == Report::committed);
            keys.push_back(report.key);
            all_.insert(report.key);
        }
        return keys;
    }

    void check(Directory& directory, std::uint64_t key) {
        INFO("key " << key);
        const auto payload = get(directory, files_, key);
        REQUIRE(payload);
        REQUIRE(*payload == payload_of(key, size_of(key)));
    }

    const Files files_;
    const TemporaryFolder folder_{fast_folder()};
    Directory survivor_{files_, options_for(folder_.path(), limit)};
    std::mt19937_64 random_;
    std::uint64_t generation_ = 0;
    std::vector<std::unique_ptr<Child>> children_;
    std::set<std::uint64_t> all_;
};

}  // namespace

TEST_CASE(
    "eight processes on one folder, killed again and again: what was acknowledged is there, and right") {
    std::size_t acknowledged = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        TestArena arena(round);
        for (int kills = 0; kills < 50; ++kills) arena.kill_one();
        arena.end();
        acknowledged += arena.acknowledged();
    }
    CHECK(acknowledged > 1000);
}

TEST_CASE("processes see each other's records while they are being written") {
    const Files files;
    const TemporaryFolder folder;
    Directory directory(files, options_for(folder.path()));
    REQUIRE(put(directory, files, 0, payload_of(0, size_of(0))));
    Child child(folder.path(), shared_keys);
    std::size_t seen = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (seen < 500 && std::chrono::steady_clock::now() < deadline) {
        const auto reports = child.reports();
        directory.refresh();
        for (const Report& report : reports) {
            REQUIRE(report.kind == Report::committed);
            REQUIRE(get(directory, files, report.key) == payload_of(report.key, size_of(report.key)));
            ++seen;
        }
    }
    CHECK(seen >= 500);
}

TEST_CASE("a flight ends with its process") {
    const Files files;
    const TemporaryFolder folder;
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const Descriptor from_child(ends[0]);
    Descriptor to_parent(ends[1]);
    const pid_t child = hocket::test::fork_to_go_on();
    if (child == 0) {
        Directory directory(files, options_for(folder.path()));
        const char answer = directory.begin_flight(7) ? 'y' : 'n';
        if (::write(to_parent.get(), &answer, 1) == 1) ::pause();
        ::_exit(0);
    }
    char answer = 0;
    REQUIRE(::read(from_child.get(), &answer, 1) == 1);
    CHECK(answer == 'y');
    Directory directory(files, options_for(folder.path()));
    CHECK_FALSE(directory.begin_flight(7));
    CHECK(directory.begin_flight(8));
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    CHECK(directory.begin_flight(7));
}
