// The tests use a clock of their own to observe which sender waits for which. Tests with several processes
// check the shared state: all processes read the same moment from the clock.
#include "runtime/params/priority/priority_gate.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "runtime/base/error.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/restrictions.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

namespace {

using namespace hocket;
using namespace hocket::params;
using namespace hocket::test;
using namespace std::chrono_literals;
using Catch::Contains;
using std::chrono::milliseconds;
using Time = transport::Clock::time_point;
namespace fs = std::filesystem;

constexpr std::size_t KiB = 1024;
constexpr Time start{1000s};

// A host whose clock the test advances.
class Host {
  public:
    PriorityGate gate(int priority, std::optional<milliseconds> longest_wait = std::nullopt,
                      milliseconds window = 50ms, const std::string& links = "a card") {
        return {priority, longest_wait, options(links, window)};
    }
    PriorityOptions options(const std::string& links = "a card", milliseconds window = 50ms) {
        return {.window = window, .links = links, .folder = folder_.path(), .now = [this] { return now; }};
    }
    const std::string& folder() const { return folder_.path(); }
    // The only file, for all processes that share the same links.
    fs::path file() const { return fs::directory_iterator(folder())->path(); }

    Time now = start;

  private:
    TemporaryFolder folder_;
};

// Returns "" if the path is not a file.
std::string contents(const fs::path& path) {
    if (!fs::is_regular_file(path)) return "";
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// A barrier for processes.
class Meeting {
  public:
    explicit Meeting(int members) : members_(members) {
        if (pipe(arrived_) < 0 || pipe(go_) < 0) throw std::runtime_error("no pipes");
    }
    ~Meeting() {
        for (const int end : {arrived_[0], arrived_[1], go_[0], go_[1]}) close(end);
    }
    Meeting(const Meeting&) = delete;

    void come() const {
        char byte = 0;
        expect(write(arrived_[1], &byte, 1) == 1 && read(go_[0], &byte, 1) == 1, "the meeting has failed");
    }
    // The test lets them go on when all have arrived.
    void lead() const {
        char byte = 0;
        for (int i = 0; i < members_; ++i) REQUIRE(read(arrived_[0], &byte, 1) == 1);
        for (int i = 0; i < members_; ++i) REQUIRE(write(go_[1], &byte, 1) == 1);
    }

  private:
    const int members_;
    int arrived_[2], go_[2];
};

}  // namespace

TEST_CASE("jobs wait for the traffic of those with a higher priority, and no others") {
    Host host;
    PriorityGate low = host.gate(3), equal = host.gate(7), high = host.gate(7), highest = host.gate(255);
    CHECK(low.may_receive());
    host.now += 5ms;
    high.received(64 * KiB);
    CHECK_FALSE(low.may_receive());
    CHECK(low.look_again() == host.now + 50ms);
    CHECK(equal.may_receive());
    CHECK(highest.may_receive());

    host.now += 49ms;
    CHECK_FALSE(low.may_receive());
    high.received(64 * KiB);
    host.now += 49ms;
    CHECK_FALSE(low.may_receive());
    host.now += 1ms;
    CHECK(low.may_receive());

    low.received(64 * KiB);
    CHECK(high.may_receive());
    highest.received(64 * KiB);
    host.now += 1ms;
    CHECK_FALSE(high.may_receive());
    CHECK_FALSE(low.may_receive());
}

TEST_CASE("a process that looks further ahead is not cut short by another of its priority") {
    Host host;
    PriorityGate low = host.gate(0), patient = host.gate(9, {}, 400ms), hasty = host.gate(9, {}, 20ms);
    patient.received(64 * KiB);
    hasty.received(64 * KiB);
    CHECK_FALSE(low.may_receive());
    CHECK(low.look_again() == start + 400ms);
}

TEST_CASE("what a job without work sends is no traffic") {
    Host host;
    PriorityGate low = host.gate(0), high = host.gate(1);
    for (int i = 0; i < 1000; ++i, host.now += 10ms) {
        high.received(100);
        REQUIRE(low.may_receive());
    }
    // Many small messages are.
    for (int i = 0; i < 50; ++i) high.received(100);
    host.now += 1ms;
    CHECK_FALSE(low.may_receive());
}

TEST_CASE("a job with a lower priority has its turn when it has waited long enough") {
    const auto turns_in_10_s = [](std::optional<milliseconds> longest_wait) {
        Host host;
        PriorityGate low = host.gate(0, longest_wait), high = host.gate(200);
        std::vector<Time> turns;
        for (; host.now < start + 10s; host.now += 1ms) {
            high.received(64 * KiB);
            if (low.may_receive()) {
                turns.push_back(host.now);
                low.received(64 * KiB);
            }
            REQUIRE_FALSE(low.may_receive());
            REQUIRE(low.look_again() > host.now);
        }
        for (std::size_t i = 1; i < turns.size(); ++i) REQUIRE(turns[i] - turns[i - 1] >= *longest_wait);
        return turns.size();
    };
    CHECK(turns_in_10_s(100ms) == 99);
    CHECK(turns_in_10_s(1s) == 9);
    CHECK(turns_in_10_s(std::nullopt) == 0);
}

TEST_CASE("a turn lasts until something has come") {
    Host host;
    PriorityGate low = host.gate(0, 200ms), high = host.gate(1, {}, 10s);
    high.received(64 * KiB);
    CHECK_FALSE(low.may_receive());
    CHECK(low.look_again() == start + 200ms);
    host.now += 200ms;
    CHECK(low.may_receive());
    low.received(100);  // a heartbeat
    host.now += 500ms;
    CHECK(low.may_receive());
    low.received(5 * KiB);
    CHECK_FALSE(low.may_receive());
    CHECK(low.look_again() == host.now + 200ms);
}

// A link of 200 Mbit/s. The one job needs it for 100 ms and calculates for 100 ms; the other one has always
// more to send, and the kernel takes 128 KiB of that before the receiver reads.
TEST_CASE("rounds with priority take as long as alone, and others go on between them") {
    constexpr std::size_t per_ms = 25'000, round_bytes = 100 * per_ms, kernel_room = 128 * KiB;
    Host host;
    PriorityGate low = host.gate(0, 1s), high = host.gate(1);
    std::size_t left = round_bytes, waiting = 0, low_bytes = 0;
    Time calculated{};
    int rounds = 0;
    for (; host.now < start + 20s; host.now += 1ms) {
        const bool is_calculating = host.now < calculated;
        const std::size_t low_share = std::min(kernel_room - waiting, is_calculating ? per_ms : per_ms / 2);
        waiting += low_share;
        if (!is_calculating) {
            const std::size_t high_share = std::min(left, per_ms - low_share);
            high.received(high_share);
            left -= high_share;
            if (left == 0) {
                ++rounds;
                left = round_bytes;
                calculated = host.now + 100ms;
            }
        }
        while (waiting > 0 && low.may_receive()) {
            const std::size_t taken = std::min(waiting, 64 * KiB);
            low.received(taken);
            low_bytes += taken;
            waiting -= taken;
        }
    }
    CHECK(rounds >= 100 / 1.1);
    CHECK(low_bytes > 20'000 * per_ms / 5);
}

TEST_CASE("the processes of a host see each other's traffic") {
    Host host;
    const int priorities[] = {1, 2, 3};
    Meeting begun(3), looked(3), marked(3);
    Processes processes;
    for (const int priority : priorities)
        processes.start([&, priority] {
            PriorityGate gate = host.gate(priority);
            begun.come();
            expect(gate.is_shared(), "it is alone");
            expect(gate.may_receive(), "it waits for nobody");
            looked.come();
            if (priority == 2) gate.received(64 * KiB);
            marked.come();
            host.now += 1ms;
            expect(gate.may_receive() == (priority != 1), "the wrong one waits");
            host.now += 49ms;
            expect(gate.may_receive(), "it waits too long");
            return std::string();
        });
    const PriorityGate user = host.gate(0);  // so that the file stays
    for (const Meeting* meeting : {&begun, &looked, &marked}) meeting->lead();
    require_success(processes.wait());
    const auto facts = fs::status(host.file());
    CHECK(facts.permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("the end of a process with priority sets the others free") {
    Host host;
    PriorityGate low = host.gate(0);
    Processes processes;
    processes.start([&] {
        PriorityGate high = host.gate(1);
        high.received(64 * KiB);
        raise(SIGKILL);
        return std::string();
    });
    CHECK(processes.wait()[0].signal == SIGKILL);
    CHECK_FALSE(low.may_receive());
    host.now += 50ms;
    CHECK(low.may_receive());
}

TEST_CASE("processes that begin at the same moment share one memory") {
    constexpr int members = 6;
    for (int round = 0; round < 10; ++round) {
        Host host;
        Meeting begin(members), marked(members);
        Processes processes;
        for (int priority = 0; priority < members; ++priority)
            processes.start([&, priority] {
                begin.come();
                PriorityGate gate = host.gate(priority);
                expect(gate.is_shared(), "it is alone");
                gate.received(64 * KiB);
                marked.come();
                expect(gate.may_receive() == (priority == members - 1), "it does not see the others");
                return std::string();
            });
        begin.lead();
        marked.lead();
        require_success(processes.wait());
    }
}

TEST_CASE("other links are another host's") {
    Host host;
    PriorityGate low = host.gate(0), elsewhere = host.gate(1, {}, 50ms, "another card");
    elsewhere.received(64 * KiB);
    CHECK(low.may_receive());

    CHECK(name_of_links([](const char*) { return "rack 7"; }) == "rack 7");
    const auto unset = [](const char*) -> const char* { return nullptr; };
    const std::string here = name_of_links(unset);
    CHECK_THAT(here, Contains("net:["));
    Processes processes;
    processes.start([&] {
        if (!enter_loopback_only_network()) return std::string("no privilege");
        return std::string(name_of_links(unset) == here ? "the same links" : "other links");
    });
    const std::string found = processes.wait()[0].text;
    if (found == "no privilege") HOCKET_SKIP("it needs the privilege to make a network namespace");
    CHECK(found == "other links");
}

TEST_CASE("a file that is not the memory is left alone, and nobody waits") {
    Host host;
    fs::path file;
    std::string foreign;
    {
        const PriorityGate user = host.gate(0);
        file = host.file();
        foreign.assign(fs::file_size(file), 'x');
    }
    const auto write_file = [&] { std::ofstream(file, std::ios::binary) << foreign; };
    std::ofstream(file, std::ios::binary) << std::string(foreign.size(), '\0');
    SECTION("other contents") {
        write_file();
    }
    SECTION("too short") {
        foreign.resize(100);
        write_file();
    }
    SECTION("too long") {
        foreign.resize(1 << 20);
        write_file();
    }
    SECTION("a link") {
        const fs::path real = host.folder() + "/real";
        fs::rename(file, real);
        fs::create_symlink(real, file);
    }
    SECTION("a pipe") {
        fs::remove(file);
        REQUIRE(mkfifo(file.c_str(), 0600) == 0);
    }
    SECTION("a folder") {
        fs::remove(file);
        fs::create_directory(file);
    }
    SECTION("others may write to it") {
        fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
    }
    SECTION("another user's") {
        if (geteuid() != 0) HOCKET_SKIP("only root can give files away");
        REQUIRE(chown(file.c_str(), 12345, 12345) == 0);
    }
    SECTION("no folder") {
        fs::remove_all(host.folder());
    }
    const std::string before = contents(file);

    PriorityGate low = host.gate(0), high = host.gate(1);
    CHECK_FALSE(low.is_shared());
    high.received(64 * KiB);
    CHECK(low.may_receive());
    CHECK(contents(file) == before);
}

TEST_CASE("the file of the memory goes with its last user") {
    Host host;
    const auto files = [&] {
        return std::distance(fs::directory_iterator(host.folder()), fs::directory_iterator());
    };
    {
        PriorityGate low = host.gate(0);
        {
            PriorityGate high = host.gate(1);
            high.received(64 * KiB);
        }
        CHECK(files() == 1);
        CHECK_FALSE(low.may_receive());  // it is still the same one
        host.gate(2).received(64 * KiB);
        host.now += 49ms;
        CHECK_FALSE(low.may_receive());
    }
    CHECK(files() == 0);
    CHECK(host.gate(0).is_shared());  // and the next one makes a new file
    CHECK(files() == 0);
}

TEST_CASE("the file of a killed user goes with the next one") {
    Host host;
    Processes processes;
    processes.start([&] {
        const PriorityGate gate = host.gate(1);
        raise(SIGKILL);
        return std::string();
    });
    CHECK(processes.wait()[0].signal == SIGKILL);
    CHECK(fs::exists(host.file()));
    CHECK(host.gate(0).is_shared());
    CHECK(fs::is_empty(host.folder()));
}

TEST_CASE("a forked child does not remove what its parent uses") {
    Host host;
    auto parents = std::make_unique<PriorityGate>(0, std::nullopt, host.options());
    Processes processes;
    processes.start([&] {
        parents.reset();
        return std::string();
    });
    require_success(processes.wait());
    host.gate(1).received(64 * KiB);
    CHECK_FALSE(parents->may_receive());
    parents.reset();
    CHECK(fs::is_empty(host.folder()));
}

TEST_CASE("who comes while the last user removes the file shares memory with who comes after") {
    constexpr int members = 4, rounds = 5000;
    Host host;
    Processes processes(100);
    for (int member = 0; member < members; ++member)
        processes.start([&, member] {
            host.now += member * 1000s;  // so that the others' traffic no longer counts
            for (int round = 0; round < rounds; ++round, host.now += 1s) {
                PriorityGate high = host.gate(member + 1);
                expect(high.is_shared(), "it is alone");
                high.received(64 * KiB);
                PriorityGate low = host.gate(0);
                expect(!low.may_receive(), "it has another file");
            }
            return std::string();
        });
    require_success(processes.wait());
    CHECK(fs::is_empty(host.folder()));
}

TEST_CASE("times that nobody can have written count for nothing") {
    Host host;
    PriorityGate low = host.gate(0), high = host.gate(255);
    const fs::path file = host.file();
    for (const std::int64_t time : {std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}}) {
        std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
        bytes.seekp(64);
        for (int i = 0; i < 256; ++i) bytes.write(reinterpret_cast<const char*>(&time), sizeof time);
        bytes.close();
        host.now += 1s;
        CHECK(low.may_receive());
        high.received(64 * KiB);
        host.now += 1ms;
        CHECK_FALSE(low.may_receive());
        CHECK(low.look_again() == host.now + 49ms);
    }
}

TEST_CASE("without room for the memory nobody waits, and one line says so") {
    Host host;
    Processes processes;
    const std::string log = host.folder() + "/log";
    const PriorityOptions here = host.options();
    processes.start([&] {
        const int fd = open(log.c_str(), O_WRONLY | O_CREAT, 0600);
        expect(dup2(fd, STDERR_FILENO) == STDERR_FILENO, "no log");
        signal(SIGXFSZ, SIG_IGN);
        const rlimit none{1024, 1024};
        expect(setrlimit(RLIMIT_FSIZE, &none) == 0, "no limit");
        PriorityGate gate(0, std::nullopt, here);
        for (int i = 0; i < 3; ++i) {
            gate.received(64 * KiB);
            expect(!gate.is_shared() && gate.may_receive(), "it waits");
        }
        return std::string();
    });
    require_success(processes.wait());
    const std::string text = contents(log);
    CHECK_THAT(text,
               Contains("hocket: warning: this job takes no part in priorities between jobs on this host: " +
                        host.folder()) &&
                   Contains("File too large"));
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("priorities and windows have bounds") {
    Host host;
    for (const int priority : {-1, 256}) CHECK_THROWS_AS(host.gate(priority), Error);
    for (const milliseconds window : {0ms, 10'001ms}) CHECK_THROWS_AS(host.gate(0, {}, window), Error);
    CHECK_NOTHROW(host.gate(255, {}, 10s));
}

TEST_CASE("priorities work with the real clock, too") {
    const TemporaryFolder folder;
    const PriorityOptions options{.window = 10s, .folder = folder.path()};
    PriorityGate low(0, std::nullopt, options), high(1, std::nullopt, options);
    REQUIRE(low.is_shared());
    high.received(64 * KiB);
    CHECK_FALSE(low.may_receive());
    CHECK(low.look_again() > transport::Clock::now());
}
