#include "runtime/engine/progress/gate.hpp"

#include <poll.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/test.hpp"

using hocket::engine::Gate;
using namespace std::chrono_literals;

namespace {

void sleep_at(const Gate& gate, int limit_ms) {
    pollfd bell{gate.bell_fd(), POLLIN, 0};
    ::poll(&bell, 1, limit_ms);
}

}  // namespace

TEST_CASE("a visitor wakes a driver that sleeps, and is alone then") {
    Gate gate;
    int shared = 0;  // guarded by the gate
    bool end = false;
    std::thread driver([&] {
        Gate::Visit visit(gate);
        const auto ended = [&] { return end; };
        if (!visit.become_driver(ended)) return;
        while (!end) {
            ++shared;
            visit.asleep([&] { sleep_at(gate, 5000); });
        }
    });
    const auto drives = [&] {
        const Gate::Visit visit(gate);
        return shared > 0;
    };
    while (!drives()) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 200; ++i) {
        Gate::Visit visit(gate);
        ++shared;
    }
    {
        Gate::Visit visit(gate);
        end = true;
    }
    driver.join();
    CHECK(shared >= 201);
    CHECK(std::chrono::steady_clock::now() - begin < 4s);  // no visitor had to wait for a sleep to end
}

TEST_CASE("of several that wait one drives, the others follow, and each returns at its own end") {
    Gate gate;
    constexpr int waiting = 4;
    bool ended[waiting] = {};
    int arrived = 0, returned = 0, drivers = 0, most_drivers = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < waiting; ++i)
        threads.emplace_back([&, i] {
            Gate::Visit visit(gate);
            ++arrived;
            const auto mine = [&, i] { return ended[i]; };
            if (visit.become_driver(mine)) {
                most_drivers = std::max(most_drivers, ++drivers);
                while (!ended[i]) visit.asleep([&] { sleep_at(gate, 1000); });
                --drivers;
            }
            ++returned;
        });
    const auto all_here = [&] {
        const Gate::Visit visit(gate);
        return arrived == waiting;
    };
    while (!all_here()) std::this_thread::yield();
    for (int i = 0; i < waiting; ++i) {
        std::this_thread::sleep_for(1ms);
        Gate::Visit visit(gate);
        ended[i] = true;
        gate.announce();
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(returned == waiting);
    CHECK(most_drivers == 1);
}

TEST_CASE("a driver that never sleeps steps aside for visitors") {
    Gate gate;
    bool end = false;
    std::thread driver([&] {
        Gate::Visit visit(gate);
        if (!visit.become_driver([&] { return end; })) return;
        while (!end) visit.step_aside();
    });
    std::vector<std::thread> visitors;
    int visits = 0;
    for (int i = 0; i < 3; ++i)
        visitors.emplace_back([&] {
            for (int k = 0; k < 500; ++k) {
                Gate::Visit visit(gate);
                ++visits;
            }
        });
    for (std::thread& visitor : visitors) visitor.join();
    {
        Gate::Visit visit(gate);
        CHECK(visits == 1500);
        end = true;
    }
    driver.join();
}
