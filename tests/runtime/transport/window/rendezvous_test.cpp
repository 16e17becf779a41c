// The rendezvous of a host's ranks, and its errors: dead and silent members, strangers.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/runtime/transport/window/windows.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> tell_names(Rank rank, const WindowInvitation& invitation) {
    return rank.job.all_gather(invitation.name(), 10s);
}

[[noreturn]] void die_once_names_are_told(const Tally& know_names) {
    know_names.await(4);  // some may still be receiving them, from this rank if it is rank 0
    kill(getpid(), SIGKILL);
    std::abort();
}

Socket connect_as_guest(const std::string& name) {
    Socket socket = open_unix_socket(SOCK_SEQPACKET);
    const AbstractAddress address(name);
    if (connect(socket.fd(), address.get(), address.size()) != 0) socket.close();
    return socket;
}

OwnWindowPart part_of(const WindowMemory& memory) {
    return {memory.file().fd(), {memory.bytes(), 0, 4096}};
}

// One member's side of an exchange whose parts are not checked.
void exchange(
    const WindowInvitation& invitation, const std::vector<std::string>& names, int self, double seconds,
    const std::function<void(int, WindowPart)>& take = [](int, WindowPart) {}) {
    const WindowMemory memory = WindowMemory::make();
    exchange_parts(invitation, names, self, [&] { return part_of(memory); }, take, {in_seconds(seconds), {}});
}

// The greeting of member 1 of these; the test receives it in place of the first member.
std::string greeting_of_second(const std::vector<std::string>& names) {
    std::string heard(2000, '\0');
    const Socket listener = bind_unix_socket(SOCK_SEQPACKET, "hocket-test-" + names[1]);
    if (listen(listener.fd(), 4) != 0) return "";
    std::thread guest([&] {
        error_of([&] { exchange(WindowInvitation(), {"hocket-test-" + names[1], names[1]}, 1, 0.5); });
    });
    pollfd entry{listener.fd(), POLLIN, 0};
    poll(&entry, 1, 5000);
    const Socket connected(accept(listener.fd(), nullptr, nullptr));
    const ssize_t size = recv(connected.fd(), heard.data(), heard.size(), 0);
    guest.join();
    heard.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return heard;
}

// Returns whether a message with a descriptor gets an answer; otherwise the connection is closed.
bool is_answered(const std::string& name, std::string message) {
    const Socket socket = connect_as_guest(name);
    const WindowMemory memory = WindowMemory::make();
    const int fd = memory.file().fd();
    iovec part{message.data(), message.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    sendmsg(socket.fd(), &header, MSG_NOSIGNAL);
    pollfd entry{socket.fd(), POLLIN, 0};
    char answer[2000];
    return poll(&entry, 1, 5000) == 1 && recv(socket.fd(), answer, sizeof answer, 0) > 0;
}

}  // namespace

TEST_CASE(
    "where the first member is killed before it hands out, the others say so, or what the bootstrap says") {
    const bool ask = GENERATE(false, true);
    const Tally know_names;
    const auto outcomes = run_job(4, [&](Rank rank) -> std::string {
        WindowInvitation invitation;
        const auto names = tell_names(rank, invitation);
        know_names.add();
        if (rank.rank == 0) die_once_names_are_told(know_names);
        const auto lost = [&]() -> std::optional<std::string> {
            if (const auto loss = rank.job.loss()) return fmt::format("rank {} is lost", loss->rank);
            return std::nullopt;
        };
        return error_of([&] {  // another error than the deadline
            Window::open(std::move(invitation), names, rank.rank, 0, in_seconds(15),
                         ask ? lost : std::function<std::optional<std::string>()>());
        });
    });
    for (int r = 1; r < 4; ++r)
        CHECK_THAT(outcomes[r].text, Catch::StartsWith(ask ? "status -6: rank 0 is lost"
                                                           : "status -4: the first rank of this host has "
                                                             "ended"));
}

TEST_CASE("a first member that does not come is awaited to the deadline, or until the wait is abandoned") {
    const Tally ended;
    const auto outcomes = run_job(3, [&](Rank rank) -> std::string {
        WindowInvitation invitation;
        const auto names = tell_names(rank, invitation);
        if (rank.rank == 0) {
            ended.await(2);
            return "";
        }
        int questions = 0;
        const double start = now();
        const std::string error = error_of([&] {
            Window::open(std::move(invitation), names, rank.rank, 0, in_seconds(rank.rank == 1 ? 1 : 15),
                         [&]() -> std::optional<std::string> {
                             if (rank.rank == 2 && ++questions == 5) return "something else is wrong";
                             return std::nullopt;
                         });
        });
        const double seconds = now() - start;
        ended.add();
        return fmt::format("{:.3f} {}", seconds, error);
    });
    CHECK_THAT(outcomes[1].text, Catch::Contains("status -7: the first rank of this host did not"));
    CHECK(std::stod(outcomes[1].text) >= 0.999);  // not before
    CHECK_THAT(outcomes[2].text, Catch::EndsWith("status -6: something else is wrong"));
}

TEST_CASE("a member that does not come is named at the deadline") {
    const Tally know_names;
    const auto outcomes = run_job(4, [&](Rank rank) -> std::string {
        WindowInvitation invitation;
        const auto names = tell_names(rank, invitation);
        know_names.add();
        if (rank.rank == 2) die_once_names_are_told(know_names);
        know_names.await(4);  // so that nobody comes too late
        // The others have time to hear what rank 0 says, even if one of them stands still for a moment.
        const double seconds = rank.rank == 0 ? 3 : 12, start = now();
        const std::string error =
            error_of([&] { Window::open(std::move(invitation), names, rank.rank, 0, in_seconds(seconds)); });
        return fmt::format("{:.3f} {}", now() - start, error);
    });
    CHECK_THAT(outcomes[0].text, Catch::Contains("status -7: of the 4 ranks of this host") &&
                                     Catch::Contains("rank 2 did not come"));
    CHECK(std::stod(outcomes[0].text) >= 2.999);
    for (const int other : {1, 3})  // which had to wait for it, too
        CHECK_THAT(outcomes[other].text, Catch::Contains("status -7: of the 4 ranks of this host") &&
                                             Catch::Contains("rank 2 did not come"));
}

TEST_CASE(
    "a member that has reached the first one waits for its words a little longer than to the deadline") {
    const WindowInvitation first, second;  // nobody takes connections from the first
    const double start = now();
    const std::string error = error_of([&] { exchange(second, {first.name(), second.name()}, 1, 1); });
    CHECK_THAT(error, Catch::Contains("status -7: the first rank of this host did not"));
    CHECK(now() - start >= 1.199);
}

TEST_CASE("strangers of the same user, silent or talking, do not disturb") {
    require_success(run_job(3, [](Rank rank) -> std::string {
        WindowInvitation invitation;
        const auto names = tell_names(rank, invitation);
        const rlimit few{22, 22};  // fewer than the strangers that come
        if (rank.rank == 0) expect(setrlimit(RLIMIT_NOFILE, &few) == 0, "to be able to limit itself");
        std::vector<Socket> silent;
        if (rank.rank == 2) {
            for (int i = 0; i < 200; ++i) silent.push_back(connect_as_guest(names[0]));
            for (const std::string& message :
                 {std::string("x"), std::string(88, 'x'), std::string(5000, '\0')}) {
                silent.push_back(connect_as_guest(names[0]));
                send(silent.back().fd(), message.data(), message.size(), MSG_NOSIGNAL);
            }
            expect(silent.back().is_open(), "a stranger to be able to connect");
        }
        barrier(rank);
        const double start = now();
        const auto window = Window::open(std::move(invitation), names, rank.rank, 0, in_seconds(15));
        expect(now() - start < 10, "the strangers not to delay anything");
        return "";
    }));
}

TEST_CASE("strangers who connect all the time put no deadline off") {
    WindowInvitation invitation;
    std::atomic<bool> done{false};
    std::atomic<int> connections{0};
    std::thread stranger([&] {
        while (!done) {
            const Socket socket = connect_as_guest(invitation.name());
            connections += send(socket.fd(), "x", 1, MSG_NOSIGNAL) == 1;
        }
    });
    const double start = now();
    const std::string error = error_of([&] { exchange(invitation, {invitation.name(), "nobody"}, 0, 0.5); });
    done = true;
    stranger.join();
    CHECK_THAT(error, Catch::Contains("rank 1 did not come"));
    CHECK(now() - start < 10);
    CHECK(connections > 100);
}

TEST_CASE("the descriptor is given to members of this user alone") {
    const WindowInvitation first, second;
    const std::vector<std::string> names{first.name(), second.name()};
    const std::string greeting = greeting_of_second(names);
    REQUIRE(greeting.size() > 40);
    std::string other = greeting;
    other[other.find("hocket-") + 10] ^= 1;  // it knows another name

    Processes processes;
    const auto try_as = [&](uid_t user, const std::string& message) {
        processes.start([&, user]() -> std::string {
            if (user != 0 && setresuid(user, user, user) != 0) return "no privilege";
            return is_answered(names[0], message) ? "answered" : "hung up on";
        });
    };
    const bool can_change_user = geteuid() == 0;
    try_as(0, other);
    try_as(0, greeting.substr(1));
    if (can_change_user) try_as(65534, greeting);
    const std::string error = error_of([&] { exchange(first, names, 0, 1.5); });
    CHECK_THAT(error, Catch::Contains("rank 1 did not come"));
    for (const Outcome& outcome : processes.wait()) CHECK(outcome.text == "hung up on");

    try_as(0, greeting);  // and now it answers, but leaves after the first answer
    CHECK_THAT(error_of([&] { exchange(first, names, 0, 5); }),
               Catch::Contains("rank 1 of the 2 ranks of this host, counted from 0, has gone"));
    CHECK(processes.wait().front().text == "answered");
    if (!can_change_user) HOCKET_SKIP("only root can come as another user; the rest was checked");
}

TEST_CASE("a first member of another user is not believed") {
    if (geteuid() != 0) HOCKET_SKIP("only root can be another user");
    const WindowInvitation first, second;
    Processes processes;
    processes.start([&]() -> std::string {
        if (setresuid(65534, 65534, 65534) != 0) return "no privilege";
        exchange(second, {first.name(), second.name()}, 1, 2);
        return "";
    });
    CHECK_THAT(processes.wait().front().text,
               Catch::StartsWith("status -4:") && Catch::Contains("another user"));
}

TEST_CASE("nonsense from the first member is refused") {
    const WindowInvitation second;
    const std::string name = second.name() + "-first";
    const Socket listener = bind_unix_socket(SOCK_SEQPACKET, name);
    REQUIRE(listen(listener.fd(), 4) == 0);
    const std::string answer =
        GENERATE(as<std::string>{}, "hello", std::string(560, 'x'), std::string(5000, 'x'));
    std::thread host([&] {
        pollfd entry{listener.fd(), POLLIN, 0};
        poll(&entry, 1, 5000);
        const Socket guest(accept(listener.fd(), nullptr, nullptr));
        char greeting[2000];
        if (recv(guest.fd(), greeting, sizeof greeting, 0) > 0)
            send(guest.fd(), answer.data(), answer.size(), MSG_NOSIGNAL);
    });
    const std::string error = error_of([&] { exchange(second, {name, second.name()}, 1, 5); });
    host.join();
    CHECK_THAT(error, Catch::StartsWith("status -4:") && Catch::Contains("same build"));
}

TEST_CASE("a window takes its own invitation only") {
    WindowInvitation mine, other;
    const std::vector<std::string> names{other.name(), mine.name()};
    CHECK(mine.name() != other.name());
    CHECK_THAT(error_of([&] { Window::open(std::move(mine), names, 0, 0, in_seconds(1)); }),
               Catch::StartsWith("status -1:"));
    CHECK_THAT(error_of([&] { Window::open(std::move(other), names, 2, 0, in_seconds(1)); }),
               Catch::StartsWith("status -1:"));
}

TEST_CASE("what one member cannot do, all members say") {
    const int unable = GENERATE(0, 1, 2);
    const bool has_none = GENERATE(true, false);  // of its own; else it cannot take the others'
    const auto outcomes = run_job(3, [&](Rank rank) -> std::string {
        const WindowInvitation invitation;
        const auto names = tell_names(rank, invitation);
        const WindowMemory memory = WindowMemory::make();
        const std::string error = error_of([&] {
            exchange_parts(
                invitation, names, rank.rank,
                [&] {
                    if (has_none && rank.rank == unable)
                        throw Error(Status::out_of_memory, "it is too large");
                    return part_of(memory);
                },
                [&](int, WindowPart) {
                    if (!has_none && rank.rank == unable)
                        throw Error(Status::out_of_memory, "they are too large");
                },
                {in_seconds(10), {}});
        });
        return error;
    });
    for (const Outcome& outcome : outcomes) {
        CHECK_THAT(outcome.text, Catch::StartsWith("status -9: ") &&
                                     Catch::EndsWith(has_none ? "it is too large" : "they are too large"));
        CHECK_THAT(outcome.text, Catch::Contains(fmt::format("rank {} of this host", unable)));
    }
}
