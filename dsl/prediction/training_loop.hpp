// What a job computes and moves next, layer by layer and batch by batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "dsl/prediction/workload.hpp"

namespace hocket::dsl {

inline constexpr double no_event = std::numeric_limits<double>::infinity();

struct ExchangeTimes {
    // When the first batch of gradients begins; how long from there to the end of the last one; and the same
    // from the first batch of weights on. Seconds.
    double begin = 0, push = 0, pull = 0;
    // Of the whole iteration: its length; how long the workers compute; how long batches are on their way,
    // with their start-ups; and how long both.
    double iteration = 0, computation = 0, communication = 0, overlap = 0;
};

// The workers of a job compute layers one after the other: backward from the last to the first, then forward.
// A batch of gradients can go when its layers have computed backward. One goes at a time, that of the first
// layers first. So do batches of weights. A layer computes forward when its weights have come.
class TrainingLoop {
  public:
    enum class Way : std::uint8_t { push, pull };
    struct Batch {
        Way way;
        double share;  // of all weights, or all gradients
    };
    // The job must be right (why_no_plan), and outlive the object.
    explicit TrainingLoop(const Job& job);

    // When something ends by itself; no_event if nothing does.
    double next() const;
    // Counts this time, in which nothing begins or ends.
    void pass(double seconds);
    // Ends and begins what can be at this time, up to a batch whose bytes now begin to flow: call it until it
    // returns nothing. The batch flows until arrived().
    std::optional<Batch> advance(double now);
    void arrived(Way way, double now);

    bool is_over() const { return is_over_; }
    std::size_t layers() const { return layers_.size(); }
    std::size_t batches() const { return push_.ends.size() + (pulls_ ? pull_.ends.size() : 0); }
    const std::vector<ExchangeTimes>& exchanges() const { return exchanges_; }

  private:
    // The batches of one direction.
    struct Line {
        std::vector<std::size_t> ends;
        std::vector<double> shares;
        std::vector<bool> done;
        std::size_t left = 0;   // that are not done
        std::size_t batch = 0;  // on its way, if it is busy
        bool is_busy = false;
        double timer = no_event;  // of its start-up, or until it has combined
        double begun = 0, ended = 0;

        std::size_t begin_of(std::size_t index) const { return index == 0 ? 0 : ends[index - 1]; }
        std::size_t batch_of(std::size_t layer) const;
    };

    Line line_of(const std::vector<std::size_t>& ends) const;
    bool is_backward() const { return step_ < layers(); }
    bool may_push(std::size_t batch) const;
    bool may_use(std::size_t layer) const;
    bool may_pull(std::size_t batch) const;
    bool end_computing(double now);
    bool compute(double now);
    void begin_iteration(double now);
    void end_iteration(double now);
    std::optional<Way> end_startup(double now);
    bool move(Way way, double now);
    Line& line(Way way) { return way == Way::push ? push_ : pull_; }

    const Overlap& overlap_;
    std::vector<ModelLayer> layers_;
    std::size_t iterations_;
    double start_;  // of the job, or no_event when it has begun
    bool pulls_;    // there are servers
    bool is_over_ = false;
    Line push_, pull_;
    std::size_t step_ = 0;  // of the iteration: layers backward, then forward
    double computed_ = no_event;
    double begun_ = 0;  // the iteration
    std::vector<ExchangeTimes> exchanges_;
};

// Returns what is wrong with the job's layers and batches; nothing if they are right.
std::optional<std::string> why_no_plan(const Job& job);

}  // namespace hocket::dsl
