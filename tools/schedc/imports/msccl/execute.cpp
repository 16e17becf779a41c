#include "tools/schedc/imports/msccl/execute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "tools/schedc/imports/msccl/connections.hpp"
#include "tools/schedc/imports/values.hpp"

namespace hocket::tools::imports::msccl {
namespace {

constexpr int most_attempts = 4;

struct Message {
    Clock clock;
    Place sender;
    std::vector<int> versions;
};

// Threadblocks take turns: each does one step, if it can.
class Execution {
  public:
    Execution(const Program& program, const std::set<Place>& copied)
        : program_(program), algorithm_(program.algorithm), values_(algorithm_, copied) {
        for (int g = 0; g < algorithm_.ranks(); ++g) {
            first_block_.push_back(static_cast<int>(turns_.size()));
            for (int b = 0; b < static_cast<int>(program.blocks[g].size()); ++b) {
                turns_.push_back({g, b, 0});
                steps_ += program.blocks[g][b].steps.size();
            }
        }
        if (turns_.size() * steps_ > most_clocks)
            refuse(algorithm_, {},
                   fmt::format("{} steps in {} threadblocks are too many: their product may be {}", steps_,
                               turns_.size(), most_clocks),
                   larger);
        clocks_.assign(turns_.size(), Clock(turns_.size()));
    }

    void run() {
        while (steps_ > 0) {
            const std::size_t before = steps_;
            for (std::size_t block = 0; block < turns_.size(); ++block)
                if (has_step(block) && !awaited(block)) do_step(block);
            if (steps_ == before) refuse_circle();
        }
        values_.check_results();
    }

    Values& values() { return values_; }

  private:
    const Threadblock& threadblock(std::size_t block) const {
        return program_.blocks[turns_[block].gpu][turns_[block].block];
    }
    bool has_step(std::size_t block) const {
        return turns_[block].step < static_cast<int>(threadblock(block).steps.size());
    }
    const XmlStep& step_of(std::size_t block) const { return threadblock(block).steps[turns_[block].step]; }
    Connection incoming(std::size_t block) const {
        return {threadblock(block).receive, turns_[block].gpu, threadblock(block).channel};
    }

    // What the next step waits for; the threadblock is -1 if that is a message.
    std::optional<Place> awaited(std::size_t block) {
        const XmlStep& step = step_of(block);
        const int gpu = turns_[block].gpu;
        if (step.dependency_block >= 0 &&
            turns_[first_block_[gpu] + step.dependency_block].step <= step.dependency_step)
            return Place{gpu, step.dependency_block, step.dependency_step};
        if (step.type->receives && messages_[incoming(block)].empty())
            return Place{threadblock(block).receive, -1, -1};
        return std::nullopt;
    }

    void do_step(std::size_t block) {
        const XmlStep& step = step_of(block);
        const StepType& type = *step.type;
        Clock& clock = clocks_[block];
        Actor actor{turns_[block], {static_cast<int>(block), turns_[block].step, turns_[block]}, &clock};
        if (step.dependency_block >= 0)
            join(clock, over_[{first_block_[actor.place.gpu] + step.dependency_block, step.dependency_step}]);
        Message in{{}, actor.place, {}};
        if (type.receives) {
            std::deque<Message>& queue = messages_[incoming(block)];
            in = std::move(queue.front());
            queue.pop_front();
            join(clock, in.clock);
        } else if (type.sends || type.copies) {
            for (int i = 0; i < step.count; ++i)
                in.versions.push_back(values_.read(actor, values_.name_of(actor.place.gpu, step.src, i)));
        }
        std::vector<int> made = type.receives || type.copies ? make(actor, step, in) : in.versions;
        clock[block] = ++turns_[block].step;
        --steps_;
        if (step.is_awaited) over_[{static_cast<int>(block), actor.use.step}] = clock;
        if (type.sends) {
            const Threadblock& own = threadblock(block);
            messages_[{actor.place.gpu, own.send, own.channel}].push_back(
                {clock, actor.place, std::move(made)});
        }
    }

    std::vector<int> make(const Actor& actor, const XmlStep& step, const Message& in) {
        const int gpu = actor.place.gpu;
        const StepType& type = *step.type;
        std::vector<int> made;
        for (int i = 0; i < step.count; ++i) {
            const Incoming one{in.versions[i], in.sender.gpu, in.sender};
            const Name to = values_.name_of(gpu, step.dst, i);
            // A local reduction combines src into dst.
            const Name operand = type.receives ? values_.name_of(gpu, step.src, i) : to;
            made.push_back(!type.reduces ? values_.copy(actor, to, one)
                           : type.copies ? values_.combine(actor, to, operand, one)
                                         : values_.combine_for_message(actor, operand, one));
            if (type.sends) values_.pass_on(made.back());
        }
        return made;
    }

    std::string text_of_wait(const Place& place, const Place& other) const {
        return short_text(algorithm_, place) + " waits for " +
               (other.block < 0 ? fmt::format("a message of gpu {}", other.gpu)
                                : short_text(algorithm_, other));
    }

    // Follows what each step waits for, until a step comes up again.
    void refuse_circle() {
        std::size_t block = 0;
        while (!has_step(block)) ++block;
        std::vector<std::size_t> path;
        while (std::ranges::find(path, block) == path.end()) {
            path.push_back(block);
            block = awaited_block(block);
        }
        path.erase(path.begin(), std::ranges::find(path, block));
        std::string text;
        for (std::size_t i = 0; i < std::min<std::size_t>(path.size(), 8); ++i)
            text += (i > 0 ? "; " : "") + text_of_wait(turns_[path[i]], *awaited(path[i]));
        if (path.size() > 8) text += "; ...";
        refuse(algorithm_, turns_[path[0]], "it waits for itself: " + text,
               "change the order of these steps, or their dependencies (depid, deps)");
    }

    std::size_t awaited_block(std::size_t block) {
        const Place other = *awaited(block);
        if (other.block >= 0)
            return static_cast<std::size_t>(first_block_[other.gpu]) + static_cast<std::size_t>(other.block);
        for (std::size_t sender = 0; sender < turns_.size(); ++sender)
            if (has_step(sender) && turns_[sender].gpu == other.gpu &&
                threadblock(sender).send == turns_[block].gpu &&
                threadblock(sender).channel == threadblock(block).channel)
                return sender;
        return block;  // cannot be: connections have both ends
    }

    const Program& program_;
    const Algorithm& algorithm_;
    Values values_;
    std::vector<Place> turns_;                   // the next step of each threadblock
    std::vector<int> first_block_;               // by GPU
    std::size_t steps_ = 0;                      // that are left
    std::vector<Clock> clocks_;                  // by threadblock
    std::map<std::pair<int, int>, Clock> over_;  // of steps that others wait for
    std::map<Connection, std::deque<Message>> messages_;
};

std::set<Place> reducing_sends(const Program& program) {
    std::set<Place> found;
    for (int g = 0; g < program.algorithm.ranks(); ++g)
        for (int b = 0; b < static_cast<int>(program.blocks[g].size()); ++b) {
            const std::vector<XmlStep>& steps = program.blocks[g][b].steps;
            for (int s = 0; s < static_cast<int>(steps.size()); ++s)
                if (steps[s].type->name == "rrs") found.insert({g, b, s});
        }
    return found;
}

}  // namespace

Flow execute(const Program& program) {
    connect(program);
    // A step that combines for a message alone combines in place of its operand, which saves a place. Where
    // the operand is needed later, it is done again with another place for the sum.
    std::set<Place> copied;
    for (int attempt = 0;; ++attempt) {
        Execution execution(program, copied);
        execution.run();
        if (execution.values().to_copy().empty()) return execution.values().take();
        if (attempt < most_attempts)
            copied.insert(execution.values().to_copy().begin(), execution.values().to_copy().end());
        else
            copied = reducing_sends(program);
    }
}

}  // namespace hocket::tools::imports::msccl
