// Lets several threads use one communicator, and lets one of them sleep on the fabric meanwhile.
//
// A thread that makes a call is a *visitor*: it has the gate to itself and is soon gone. A thread that waits
// becomes the *driver* if there is none: it drives the fabric for all that wait, and the others *follow*:
// they sleep until their own operation has ended or there is no driver any more. The driver keeps nobody
// waiting: it steps aside for visitors whenever there are any, and a visitor that finds it asleep on the
// fabric wakes it through the bell.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace hocket::engine {

class Gate {
  public:
    Gate();
    ~Gate();
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

    class Visit {
      public:
        explicit Visit(Gate& gate);
        ~Visit();
        Visit(const Visit&) = delete;

        // True once this thread is the driver, which it stays until the visit ends; false once `ended` holds.
        template <typename Ended>
        bool become_driver(Ended ended) {
            stop_visiting();
            ++gate_.followers_;
            gate_.changed_.wait(lock_, [&] { return ended() || !gate_.driven_; });
            --gate_.followers_;
            if (ended()) return false;
            return driving_ = gate_.driven_ = true;
        }

        // For the driver, between two looks at the fabric: lets visitors at the gate in. False: there were
        // none.
        bool step_aside();

        // For the driver: calls sleep() with the gate open, unless a visitor came in: after that there may be
        // no reason to sleep. sleep must return when bell_fd() is readable, and must not throw.
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

    // To be called with the gate held: some operation has ended, and the threads that follow should look.
    void announce() {
        if (followers_ > 0) changed_.notify_all();
    }
    bool driven() const { return driven_; }
    int bell_fd() const { return bell_; }

  private:
    void ring_bell();
    void silence_bell();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<int> visitors_{0};  // threads that came while there was a driver, or wait at the gate
    int followers_ = 0;
    bool driven_ = false;
    bool asleep_ = false;
    bool rung_ = false;
    int bell_ = -1;  // eventfd
};

}  // namespace hocket::engine
