// Fabric when peers die, and where hosts withhold something.
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <thread>

#include "runtime/error.hpp"
#include "runtime/fabric/shm_names.hpp"
#include "tests/runtime/bootstrap/exchange.hpp"
#include "tests/support/restrictions.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;

TEST_CASE("a killed or stopped peer can be given up at once, and the buffers are then free") {
    const std::string provider = GENERATE(as<std::string>{}, "shm", "tcp", "ofi+tcp");
    const int signal = GENERATE(SIGKILL, SIGSTOP);
    const Listener listener;
    Processes ranks(15);
    for (int r = 0; r < 3; ++r)
        ranks.start([&, r]() -> std::string {
            const auto job = Bootstrap::join(options_of(listener, r, 3));
            const Rank rank{*job, r, 3};
            const pid_t victim = std::stoi(job->all_gather(std::to_string(getpid()), 5s)[2]);
            auto fabric = open_connected(rank, provider);
            Flow flow(*fabric);
            std::vector<char> large(8 << 20, 'a'), small(64, 'b'), in(8 << 20);
            const auto all_of_large = whole(large), all_of_small = whole(small);
            flow.receive((r + 1) % 3, 7, in);
            flow.receive((r + 2) % 3, 7, in);
            if (r == 2) kill(getpid(), signal);  // with receives posted
            std::deque<Message> messages(201);
            std::string end = "no failure seen";
            const double start = now();
            try {
                fabric->send(2, 1, 0, all_of_large, messages[200]);
                for (int i = 0; now() < start + 1; ++i) {
                    if (i < 200) fabric->send(2, 100 + i, 0, all_of_small, messages[i]);
                    while (flow.progress())
                        if (!flow.done().back().ok) throw Error(Status::transport, flow.done().back().error);
                    fabric->wait({}, 5ms);
                }
            } catch (const Error& error) {
                end = error.what();
            }
            const double given_up = now();
            fabric->abandon();
            bool refused = false;
            try {
                Message message;
                fabric->send(1, 1, 0, all_of_small, message);
            } catch (const Error&) {
                refused = true;
            }
            expect(refused, "nothing to be possible after abandon()");
            fabric.reset();
            expect(now() - given_up < 1.5, fmt::format("an end within 1.5 s, took {}", now() - given_up));
            kill(victim, SIGKILL);  // it may only be stopped
            return end;
        });
    const auto outcomes = ranks.wait();
    for (int r : {0, 1}) {
        INFO(provider << " signal " << signal << ": " << outcomes[r].text << " signal "
                      << outcomes[r].signal);
        CHECK(outcomes[r].exit_code == 0);
    }
}

TEST_CASE("opening an endpoint leaves the embedder's signal handlers alone") {
    Processes processes;
    processes.start([]() -> std::string {
        const auto mine = +[](int) {};
        for (int number : {SIGINT, SIGTERM}) signal(number, mine);
        const auto fabric = Fabric::open("shm");
        for (int number : {SIGINT, SIGTERM}) {
            struct sigaction action {};
            sigaction(number, nullptr, &action);
            expect(action.sa_handler == mine, fmt::format("the handler of signal {}", number));
        }
        return "";
    });
    require_success(processes.wait());
}

TEST_CASE("what a killed process leaves in /dev/shm is removed by the next one") {
    const auto names_of = [](pid_t pid) {
        int count = 0;
        for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
            if (file.path().filename().string().find(fmt::format(".{}.", pid)) != std::string::npos) ++count;
        return count;
    };
    Processes victims;
    victims.start([]() -> std::string {
        const auto fabric = Fabric::open("shm");
        kill(getpid(), SIGKILL);
        return "";
    });
    const pid_t victim = victims.pid(0);
    victims.wait();
    CHECK(names_of(victim) == 1);
    Processes next;
    next.start([&] {
        const auto fabric = Fabric::open("shm");
        expect(names_of(victim) == 0, "the victim's name to be gone");
        expect(names_of(getpid()) == 1, "a name of its own");
        remove_dead_shm_names();
        expect(names_of(getpid()) == 1, "the living to be left alone");
        return "";
    });
    const pid_t second = next.pid(0);
    require_success(next.wait());
    CHECK(names_of(second) == 0);
}

TEST_CASE("shared memory works where process_vm_readv is refused") {
    const auto outcomes = run_job(2, [&](Rank rank) -> std::string {
        if (!refuse_cross_memory_access()) return "skip";
        const auto fabric = open_connected(rank, "shm");
        for (int round = 0; round < 3; ++round) {
            Flow flow(*fabric);
            const auto mine = pattern((8 << 20) + round, rank.rank);
            std::vector<char> theirs(mine.size());
            flow.receive(1 - rank.rank, round, theirs);
            flow.send(1 - rank.rank, round, 9, mine);
            for (const Completion& completion : flow.finish()) expect(completion.ok, completion.error);
            expect(theirs == pattern(mine.size(), 1 - rank.rank), "the peer's bytes");
        }
        rank.job.all_gather("done", 5s);
        return "";
    });
    if (outcomes[0].text == "skip") HOCKET_SKIP("seccomp filters are not allowed here");
    require_success(outcomes);
}

TEST_CASE("tcp works where loopback is the only interface") {
    Processes world(40);
    world.start([]() -> std::string {
        if (!enter_loopback_only_network()) return "skip";
        const auto outcomes = run_job(2, [](Rank rank) {
            const auto fabric = open_connected(rank, "tcp");
            Flow flow(*fabric);
            const auto mine = pattern(100000, rank.rank);
            std::vector<char> theirs(mine.size());
            flow.receive(1 - rank.rank, 1, theirs);
            flow.send(1 - rank.rank, 1, 9, mine);
            for (const Completion& completion : flow.finish()) expect(completion.ok, completion.error);
            expect(theirs == pattern(mine.size(), 1 - rank.rank), "the peer's bytes");
            rank.job.all_gather("done", 5s);
            return std::string();
        });
        for (const Outcome& outcome : outcomes)
            expect(outcome.exit_code == 0, "success inside: " + outcome.text);
        return "";
    });
    const auto outcomes = world.wait();
    if (outcomes[0].text == "skip") HOCKET_SKIP("network namespaces need a privilege that is missing here");
    require_success(outcomes);
}

namespace {

// The spinlock of a region of the shm provider, as runtime/fabric/shm_locks.cpp finds it.
pthread_spinlock_t* lock_of(const std::string& name) {
    const int fd = shm_open(("/" + name).c_str(), O_RDWR, 0);
    expect(fd >= 0, "the region " + name);
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    expect(memory != MAP_FAILED, "the region to be mapped");
    return reinterpret_cast<pthread_spinlock_t*>(static_cast<char*>(memory) + 24);
}

}  // namespace

TEST_CASE("a process killed while it holds a lock in shared memory makes nobody hang") {
    const Listener listener;
    Processes ranks(15);
    for (int r = 0; r < 2; ++r)
        ranks.start([&, r]() -> std::string {
            const auto job = Bootstrap::join(options_of(listener, r, 2));
            auto fabric = Fabric::open("shm");
            const auto names = job->all_gather(fabric->local_address(), 5s);
            fabric->connect(names, for_seconds(5));
            std::vector<char> data(64);
            Flow flow(*fabric);
            flow.receive(1 - r, 1, data);
            flow.send(1 - r, 1, 0, data);
            flow.finish();
            job->all_gather("", 5s);
            if (r == 1) {
                for (const std::string& name : names) pthread_spin_lock(lock_of(name));
                kill(getpid(), SIGKILL);
            }
            const double start = now();
            while (!job->loss()) expect(now() < start + 2, "the loss of rank 1 within 2 s");
            expect(pthread_spin_trylock(lock_of(names[0])) != 0, "the lock to be held still");
            Message message;
            Completion completion;
            expect(!fabric->send(1, 2, 0, whole(data), message), "no room for a send");
            expect(!fabric->receive(1, 2, whole(data), message), "no room for a receive");
            expect(fabric->poll({&completion, 1}) == 0, "nothing complete");
            fabric->wait({}, 1ms);
            fabric->abandon();
            fabric.reset();
            expect(now() - start < 2, fmt::format("an end within 2 s, took {}", now() - start));
            return "";
        });
    const auto outcomes = ranks.wait();
    INFO(outcomes[0].text << " signal " << outcomes[0].signal);
    CHECK(outcomes[0].exit_code == 0);
    CHECK(outcomes[1].signal == SIGKILL);
}
