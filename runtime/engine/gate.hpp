// Lets several threads use one communicator, and lets one of them sleep on the fabric meanwhile.
//
// A thread that calls is a *visitor*: it has the gate to itself and is soon gone. A thread that waits
// becomes the *driver*, if there is none: it drives the fabric for all that are waiting, and the others
// *follow*: they sleep until their own operation has ended or the driver's place is free. The driver keeps
// nobody waiting: it steps aside for visitors whenever there are any, and a visitor who finds it asleep on
// the fabric wakes it through the bell.
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

        // True once this thread is the driver, which it stays until the visit's end; false once `ended`
        // holds.
        template <typename Ended>
        bool become_driver(Ended ended) {
            stop_visiting();
            ++gate_.followers_;
            gate_.changed_.wait(lock_, [&] { return ended() || !gate_.driven_; });
            --gate_.followers_;
            if (ended()) return false;
            return driving_ = gate_.driven_ = true;
        }

        // For the driver, between two looks at the fabric: lets in whoever is at the gate. False: nobody was.
        bool step_aside();

        // For the driver: calls sleep() with the gate open, unless somebody came in: then there may be no
        // more reason to sleep. sleep must return when bell_fd() is readable, and must not throw.
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

    // With the gate held: some operation has ended; those who follow should look.
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
    std::atomic<int> visitors_{0};  // those who came while there was a driver, or wait at the gate
    int followers_ = 0;
    bool driven_ = false;
    bool asleep_ = false;
    bool rung_ = false;
    int bell_ = -1;  // eventfd
};

}  // namespace hocket::engine
