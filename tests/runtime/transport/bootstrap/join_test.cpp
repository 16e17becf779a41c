// Joining and refusals, with real processes.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/transport/bootstrap/join.hpp"
#include "runtime/transport/bootstrap/member.hpp"
#include "tests/runtime/transport/net/handshakes.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/restrictions.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"
#include "tests/support/unused_port.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

int connect_silently(int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port);
    REQUIRE(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    return fd;
}

// Rank 0 opens its listener itself, if it comes.
BootstrapOptions options_at(int port, int rank, int world_size) {
    BootstrapOptions options;
    options.rank = rank;
    options.world_size = world_size;
    options.master_port = port;
    options.secret = "a secret of the tests";
    options.join_timeout = 8000ms;
    return options;
}

void allow_descriptors(rlim_t count) {
    const rlimit limit{count, count};
    expect(setrlimit(RLIMIT_NOFILE, &limit) == 0, "a limit of descriptors");
}

// The C library resolves names on a thread of its own (getaddrinfo_a). The thread sanitizer does not know
// that thread, and ends the process.
bool resolver_can_run() {
#ifdef __SANITIZE_THREAD__
    WARN("the thread sanitizer does not let the C library resolve names: not tested");
    return false;
#else
    return true;
#endif
}

// Returns whether the other side closes the connection; bytes before that are thrown away.
bool is_hung_up_on(int fd) {
    char bytes[256];
    pollfd entry{fd, POLLIN, 0};
    for (;;) {
        if (poll(&entry, 1, 15'000) != 1) return false;
        if (recv(fd, bytes, sizeof bytes, 0) <= 0) return true;
    }
}

// Like Bootstrap::join on a guest; counts the guest when rank 0 has admitted it.
std::unique_ptr<Bootstrap> join_and_tell(BootstrapOptions options, const Tally& admitted) {
    auto member = std::make_unique<Member>(options);
    std::vector<Link> links;
    links.push_back(join_host(options, [&] { admitted.add(); }));
    member->begin(std::move(links));
    return member;
}

// The sanitizers need descriptors when they see a type for the first time.
void be_rank_0_for_a_moment() {
    const Listener listener;
    const Socket stranger(connect_silently(listener.port()));
    auto options = options_of(listener, 0, 2);
    options.join_timeout = 50ms;
    try {
        Bootstrap::join(options);
    } catch (const Error&) {
    }
}

// Makes name look-ups go to a server that never answers. Returns false without the privilege.
bool enter_network_of_a_silent_name_server() {
    if (!enter_loopback_only_network() || unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
        return false;
    char path[] = "/tmp/hocket-resolv-XXXXXX";
    const int file = mkstemp(path);
    const std::string_view text = "nameserver 127.0.0.1\n";
    const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(file);
    const bool mounted = written && mount(path, "/etc/resolv.conf", nullptr, MS_BIND, nullptr) == 0;
    unlink(path);
    const int server = socket(AF_INET, SOCK_DGRAM, 0);
    const sockaddr_in address = loopback(53);
    return mounted && bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

TEST_CASE("wrong secrets, noise and silence are turned away while the right ranks join") {
    const Listener listener;
    const int silent = connect_silently(listener.port());
    const int noisy = connect_silently(listener.port());
    REQUIRE(send(noisy, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
    const Tally turned_away;
    Processes ranks;
    for (int r = 0; r < 3; ++r)
        ranks.start([&, r]() -> std::string {
            if (r == 2) turned_away.await(2);
            const auto job = Bootstrap::join(options_of(listener, r, 3));
            return job->all_gather(std::to_string(r), 5s)[2];
        });
    ranks.start([&] {
        auto options = options_of(listener, 1, 3);
        options.secret = "a guess";
        try {
            Bootstrap::join(options);
        } catch (const Error&) {
            turned_away.add();
            throw;
        }
        return "joined";
    });
    CHECK(is_hung_up_on(noisy));
    pollfd entry{silent, POLLIN, 0};
    CHECK(poll(&entry, 1, 0) == 0);  // the silent guest has kept no other waiting
    turned_away.add();
    const auto outcomes = ranks.wait();
    close(silent), close(noisy);
    for (int r = 0; r < 3; ++r) {
        INFO(outcomes[r].text);
        CHECK(outcomes[r].exit_code == 0);
        CHECK(outcomes[r].text == "2");
    }
    CHECK_THAT(outcomes[3].text, Contains("status -4") && Contains("wrong secret"));
}

TEST_CASE("a stranger does not end the joining where stderr cannot be written") {
    const Listener listener;
    const int noisy = connect_silently(listener.port());
    REQUIRE(send(noisy, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
    const Tally turned_away;
    Processes ranks;
    for (int r = 0; r < 2; ++r)
        ranks.start([&, r]() -> std::string {
            dup2(open("/dev/full", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
            if (r == 1) turned_away.await(1);
            const auto job = Bootstrap::join(options_of(listener, r, 2));
            return job->all_gather(std::to_string(r), 5s)[1];
        });
    CHECK(is_hung_up_on(noisy));
    turned_away.add();
    require_success(ranks.wait());
    close(noisy);
}

TEST_CASE("strangers in masses neither use up rank 0's descriptors nor flood its log, and ranks join") {
    const Listener listener;  // its queue holds 64 connections
    const Tally joined, in_the_midst;
    Processes processes;
    // More connections than rank 0 may have open; dropped ones connect again, until all ranks have joined.
    processes.start([&]() -> std::string {
        std::vector<int> crowd;
        for (; joined.value() < 3; std::this_thread::sleep_for(1ms)) {
            if (crowd.size() == 200) close(crowd.front()), crowd.erase(crowd.begin());
            const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
            const sockaddr_in address = loopback(listener.port());
            connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
            crowd.push_back(fd);
        }
        return "";
    });
    int log[2];
    REQUIRE(pipe2(log, O_CLOEXEC | O_NONBLOCK) == 0);
    for (int r = 0; r < 3; ++r)
        processes.start([&, r]() -> std::string {
            if (r == 0) allow_descriptors(64), dup2(log[1], STDERR_FILENO);
            if (r > 0) in_the_midst.await(1);
            const auto job = Bootstrap::join(options_of(listener, r, 3));
            joined.add();
            return job->all_gather(std::to_string(r), 5s)[2];
        });
    std::string text;
    const auto read_log = [&] {
        char bytes[4096];
        for (ssize_t size; (size = read(log[0], bytes, sizeof bytes)) > 0;)
            text.append(bytes, static_cast<std::size_t>(size));
    };
    CHECK(eventually([&] {
        read_log();
        return text.find("only counted") != std::string::npos;
    }));
    in_the_midst.add();
    const auto outcomes = processes.wait();
    for (int r = 0; r < 3; ++r) {
        INFO(outcomes[1 + r].text);
        CHECK(outcomes[1 + r].exit_code == 0);
        CHECK(outcomes[1 + r].text == "2");
    }
    read_log();
    close(log[0]), close(log[1]);
    INFO(text);
    CHECK_THAT(text, Contains("hocket: rank 0 turned away") && Contains("more connections"));
    CHECK(std::count(text.begin(), text.end(), '\n') == 17);
}

TEST_CASE("rank 0 without descriptors waits for none, and says what to raise") {
    const Listener listener;
    Processes ranks;
    for (int r = 0; r < 2; ++r)
        ranks.start([&, r]() -> std::string {
            auto options = options_of(listener, r, 2);
            options.join_timeout = r == 0 ? 10min : 1500ms;
            if (r == 0) {
                be_rank_0_for_a_moment();
                const int next = dup(0);
                close(next);
                allow_descriptors(static_cast<rlim_t>(next));
            }
            try {
                Bootstrap::join(options);
                return "joined";
            } catch (const Error& error) {
                return error.what();
            }
        });
    const auto outcomes = ranks.wait();
    CHECK_THAT(outcomes[0].text, Contains("rank 0 cannot take all connections: Too many open files (this "
                                          "process may have ") &&
                                     Contains("ulimit -n"));
    CHECK_THAT(outcomes[1].text, Contains("could not reach rank 0"));  // no message could reach it
}

TEST_CASE("rank 0 with descriptors for some ranks tells all of them that it lacks some") {
    const Listener listener;
    Processes ranks;
    for (int r = 0; r < 5; ++r)
        ranks.start([&, r]() -> std::string {
            auto options = options_of(listener, r, 5);
            options.join_timeout = 10min;
            if (r == 0) {
                be_rank_0_for_a_moment();
                const int next = dup(0);
                close(next);
                allow_descriptors(static_cast<rlim_t>(next) + 4);  // two of them are its own
            }
            try {
                Bootstrap::join(options);
                return "joined";
            } catch (const Error& error) {
                return std::to_string(static_cast<int>(error.status())) + " " + error.what();
            }
        });
    for (const Outcome& outcome : ranks.wait())
        CHECK_THAT(outcome.text, Contains("-5 ") && Contains("Too many open files (this process may have "));
}

TEST_CASE("a world of more ranks than there may be descriptors fails in words that name the limit") {
    const Listener listener;
    Processes processes;
    processes.start([&] {
        auto options = options_of(listener, 0, 100);
        options.join_timeout = 300ms;
        allow_descriptors(32);
        Bootstrap::join(options);
        return "joined";
    });
    // The limit was lowered while more descriptors were open.
    processes.start([]() -> std::string {
        std::vector<pollfd> set;
        for (int i = 0; i < 10; ++i) set.push_back({dup(0), POLLIN, 0});
        for (int i = 0; i < 10; ++i) set.push_back({-1, POLLIN, 0});
        allow_descriptors(10);
        poll_until(set, Clock::now());
        allow_descriptors(8);
        poll_until(set, Clock::now());
        return "no error";
    });
    const auto outcomes = processes.wait();
    CHECK_THAT(outcomes[0].text, Contains("status -7") && Contains("and 83 more did not join"));
    CHECK_THAT(outcomes[1].text, Contains("status -5") && Contains("10 connections") &&
                                     Contains("8 open files") && Contains("ulimit -n"));
}

TEST_CASE("a rank that cannot become a member tells the others why") {
    const int failing = GENERATE(0, 1);
    const Listener listener;
    Processes ranks;
    for (int r = 0; r < 3; ++r)
        ranks.start([&, r]() -> std::string {
            auto options = options_of(listener, r, 3);
            const auto prepare = [&] {
                if (r == failing) throw Error(Status::out_of_memory, "nothing left");
            };
            r == 0 ? void(admit_guests(options, prepare)) : void(join_host(options, prepare));
            return "joined";
        });
    for (const Outcome& outcome : ranks.wait())
        CHECK_THAT(outcome.text, Contains("status -9") && Contains("nothing left"));
}

TEST_CASE("a name server that does not answer holds nobody beyond the deadline") {
    if (!resolver_can_run()) return;
    const int rank = GENERATE(0, 1);
    const Listener listener;
    Processes processes;
    processes.start([&]() -> std::string {
        if (!enter_network_of_a_silent_name_server()) return "skip";
        auto options = options_of(listener, rank, 2);
        options.listen_fd = -1;
        options.master_addr = "nobody-knows.example";
        options.join_timeout = 700ms;
        const double start = now();
        try {
            Bootstrap::join(options);
            return "joined";
        } catch (const Error& error) {
            expect(now() - start > 0.6, fmt::format("an attempt; not at once: {}", error.what()));
            // The resolver itself gives up after 10 s.
            expect(now() - start < 5, fmt::format("the deadline to hold, not {} s", now() - start));
            return error.what();
        }
    });
    const Outcome outcome = processes.wait()[0];
    if (outcome.text == "skip") {
        WARN("not allowed to make a network namespace: not tested");
        return;
    }
    CHECK(outcome.exit_code == 0);
    CHECK_THAT(outcome.text, Contains("nobody-knows.example") && Contains("was not resolved in time"));
}

TEST_CASE("a guest turns away from a host that does not know the secret") {
    const Listener listener;
    Processes processes;
    const int impostor = processes.start([&]() -> std::string {
        const Socket guest = next_guest(listener.fd());
        welcome(guest, options_of(listener, 0, 2).secret, "another secret");
        try {
            for (;;) hear_frame(guest);
        } catch (const HungUp&) {
        }
        return "";
    });
    processes.start([&] {
        Bootstrap::join(options_of(listener, 1, 2));
        return "joined";
    });
    const auto outcomes = processes.wait();
    CHECK(outcomes[impostor].exit_code == 0);
    CHECK_THAT(outcomes[1].text, Contains("status -4") && Contains("does not know this job's secret"));
}

TEST_CASE("a second process with the same rank, a rank out of range and another world size are refused") {
    const Listener listener;
    const Tally admitted, refused;
    Processes ranks;
    for (int r = 0; r < 3; ++r)
        ranks.start([&, r] {
            if (r == 2) refused.await(3);
            const auto options = options_of(listener, r, 3);
            const auto job = r == 1 ? join_and_tell(options, admitted) : Bootstrap::join(options);
            return job->all_gather("x", 5s)[0];
        });
    const auto intrude = [&](int rank, int size) {
        ranks.start([&, rank, size] {
            admitted.await(1);
            try {
                Bootstrap::join(options_of(listener, rank, size));
            } catch (const Error&) {
                refused.add();
                throw;
            }
            return "joined";
        });
    };
    intrude(1, 3);
    intrude(1, 4);
    intrude(3, 4);
    const auto outcomes = ranks.wait();
    for (int r = 0; r < 3; ++r) CHECK(outcomes[r].text == "x");
    CHECK_THAT(outcomes[3].text, Contains("status -4") && Contains("another process has joined as rank 1"));
    CHECK_THAT(outcomes[4].text, Contains("status -4") && Contains("WORLD_SIZE 4, rank 0 with 3"));
    CHECK_THAT(outcomes[5].text, Contains("status -4") && Contains("WORLD_SIZE 4, rank 0 with 3"));
}

TEST_CASE("a missing rank is named at the deadline, on all ranks") {
    const Listener listener;
    const Tally running;
    Processes ranks;
    for (int r : {0, 1, 3})
        ranks.start([&, r] {
            auto options = options_of(listener, r, 5);
            options.join_timeout = r == 0 ? 2200ms : 12s;  // the others wait for rank 0's verdict
            running.meet(3);                               // a rank that comes too late would be named, too
            Bootstrap::join(options);
            return "joined";
        });
    for (const Outcome& outcome : ranks.wait()) {
        CHECK_THAT(outcome.text, Contains("status -7") && Contains("ranks 2 and 4") && Contains("2.2 s"));
    }
}

TEST_CASE("a rank that dies while others still join ends the joining") {
    const Listener listener;
    const Tally admitted;
    Processes ranks;
    for (int r : {0, 1, 2})
        ranks.start([&, r] {
            const auto options = options_of(listener, r, 4);  // rank 3 never comes
            r == 0 ? Bootstrap::join(options) : join_and_tell(options, admitted);
            return "joined";
        });
    admitted.await(2);
    ranks.signal(2, SIGKILL);
    const auto outcomes = ranks.wait();
    for (int r : {0, 1}) {
        CHECK_THAT(outcomes[r].text,
                   Contains("status -4") && Contains("rank 2 joined, but its process ended"));
    }
}

TEST_CASE("ranks find rank 0 by port, host name and in any order; an unreachable one is explained") {
    if (!resolver_can_run()) return;
    const int port = unused_port();
    Processes ranks;
    for (int r = 0; r < 3; ++r)
        ranks.start([&, r] {
            if (r == 0) std::this_thread::sleep_for(100ms);  // the others find a port without a listener
            auto options = options_at(port, r, 3);
            if (r == 1) options.master_addr = "localhost";
            return Bootstrap::join(options)->all_gather("found", 5s)[0];
        });
    for (const Outcome& outcome : ranks.wait()) CHECK(outcome.text == "found");

    ranks.start([&] {
        auto options = options_at(port, 1, 2);
        options.join_timeout = 500ms;
        Bootstrap::join(options);
        return "joined";
    });
    CHECK_THAT(ranks.wait()[0].text,
               Contains("status -4") && Contains("rank 1 could not reach rank 0 at 127.0.0.1") &&
                   Contains("within 0.5 s") && Contains("refused") && Contains("MASTER_PORT"));
}

TEST_CASE("a name of loopback is told from addresses that other hosts reach, on both sides") {
    if (!resolver_can_run()) return;
    const int port = unused_port();
    const auto error_of_rank = [&](int rank) {
        Processes ranks;
        ranks.start([&] {
            auto options = options_at(port, rank, 2);
            options.master_addr = "localhost";
            options.join_timeout = 300ms;
            Bootstrap::join(options);
            return "joined";
        });
        return ranks.wait()[0].text;
    };
    CHECK_THAT(error_of_rank(0), Contains("rank 0 listens at ") && Contains("which no other host reaches") &&
                                     Contains("set MASTER_ADDR"));
    CHECK_THAT(error_of_rank(1),
               Contains("1: Connection refused") && Contains("localhost is this host itself"));
}

// Its deadline is later than the test's.
TEST_CASE("who knows that rank 0 listened, and finds nobody there, does not wait for it") {
    const int port = unused_port();
    Processes ranks;
    ranks.start([&] {
        auto options = options_at(port, 1, 2);
        options.host_listens = true;
        options.join_timeout = 600s;
        Bootstrap::join(options);
        return "joined";
    });
    CHECK_THAT(ranks.wait()[0].text, Contains("status -4") && Contains("refused"));
}

TEST_CASE("a port in use and options that make no sense are explained") {
    const Listener listener;
    BootstrapOptions options = options_of(listener, 0, 2);
    options.listen_fd = -1;
    CHECK_THROWS_WITH(Bootstrap::join(options), Contains("cannot listen") && Contains("in use"));
    options.secret.clear();
    CHECK_THROWS_WITH(Bootstrap::join(options), Contains("HOCKET_SECRET"));
    options = options_of(listener, 2, 2);
    CHECK_THROWS_WITH(Bootstrap::join(options), Contains("RANK is 2"));
    options = options_of(listener, 0, 0);
    CHECK_THROWS_WITH(Bootstrap::join(options), Contains("WORLD_SIZE is 0"));
    options = options_of(listener, 1, 2);
    options.master_port = 0;
    CHECK_THROWS_WITH(Bootstrap::join(options), Contains("MASTER_PORT is 0"));
}
