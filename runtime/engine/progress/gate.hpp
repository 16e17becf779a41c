// Lets several threads use one communicator while one of them sleeps on the fabric.
//
// A thread that makes a call is a *visitor*: it has the gate to itself for a short time. A thread that waits
// becomes the *driver* if there is none: it drives the fabric for all threads that wait. The others *follow*:
// they sleep until their own operation has ended or there is no longer a driver. The driver steps aside
// whenever there are visitors, and a visitor that finds it asleep on the fabric wakes it through the bell.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "runtime/transport/net/socket.hpp"

namespace hocket::engine {

class Gate {
  public:
    using Clock = std::chrono::steady_clock;

    Gate();
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

    class Visit {
      public:
        explicit Visit(Gate& gate);
        ~Visit();
        Visit(const Visit&) = delete;

        // Returns true once this thread is the driver, which it stays until the visit ends; returns false
        // once `ended` holds, or at the given time.
        template <typename Ended>
        bool become_driver(Ended ended, Clock::time_point until = Clock::time_point::max()) {
            stop_visiting();
            ++gate_.followers_;
            const auto may_go_on = [&] { return ended() || !gate_.driven_; };
            if (until == Clock::time_point::max())
                gate_.changed_.wait(lock_, may_go_on);
            else
                gate_.changed_.wait_until(lock_, until, may_go_on);
            --gate_.followers_;
            if (ended() || gate_.driven_) return false;
            return driving_ = gate_.driven_ = true;
        }

        // Waits until no thread drives any more, or until call_all() finds that `ended` holds. The driver
        // moves no operation of this thread.
        template <typename Ended>
        void let_drive(Ended ended) {
            stop_visiting();
            gate_.changed_.wait(lock_, [&] { return !gate_.driven_ || ended(); });
        }

        // For the driver, between two looks at the fabric: lets waiting visitors in. Returns false if there
        // were none.
        bool step_aside();

        // For the driver: calls sleep() with the gate open, unless a visitor came in: then there may no
        // longer be a reason to sleep. sleep must return when bell_fd() is readable, and must not throw.
        template <typename Sleep>
        void asleep(Sleep sleep) {
            if (step_aside()) return;
            gate_.asleep_ = true;
            lock_.unlock();
            sleep();
            lock_.lock();
            gate_.asleep_ = false;
            gate_.silence_bell();
            gate_.changed_.notify_all();
            step_aside();
        }

      private:
        void stop_visiting();

        Gate& gate_;
        std::unique_lock<std::mutex> lock_;
        bool visiting_ = false;  // counted among the visitors
        bool driving_ = false;
    };

    // Calls look() with the gate held if that is possible at once, also while the driver sleeps on the
    // fabric, which look() must not touch. Returns false if a thread is at work.
    template <typename Look>
    bool try_look(Look look) {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (lock.owns_lock()) look();
        return lock.owns_lock();
    }

    // Call with the gate held when an operation has ended, so that the threads that follow look again.
    void announce() {
        if (followers_ > 0) changed_.notify_all();
    }
    void call_all() { changed_.notify_all(); }
    bool driven() const { return driven_; }
    bool is_followed() const { return followers_ > 0; }
    int bell_fd() const { return bell_.fd(); }

  private:
    void ring_bell();
    void silence_bell();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<int> visitors_{0};  // threads that came while there was a driver, or are waiting at the gate
    int followers_ = 0;
    bool driven_ = false;
    bool asleep_ = false;
    bool rung_ = false;
    transport::Socket bell_;  // an eventfd
};

}  // namespace hocket::engine
