#include "capi/plans/tensor_lists.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "capi/ranges.hpp"
#include "dsl/base/collective.hpp"
#include "runtime/compute/program/extra_layout.hpp"

namespace hocket::capi {
namespace {

constexpr const char* function = "hkt_plan_start_with";

// A list of tensors. The caller owns the array of pointers.
class List {
  public:
    List(std::string name, const void* pointers, const std::vector<std::uint64_t>& counts, DataType type)
        : name_(std::move(name)), tensors_(static_cast<const void* const*>(pointers)) {
        if (tensors_ == nullptr)
            refuse(
                fmt::format("{}: {} is null, but has to be a list: the address of an array with {} "
                            "pointer{}, one for each tensor",
                            function, name_, counts.size(), counts.size() == 1 ? "" : "s"));
        for (std::size_t i = 0; i < counts.size(); ++i) {
            ranges_.push_back({name_.c_str(), tensors_[i], counts[i], element_size(type), i});
            bytes_.push_back(counts[i] * element_size(type));
        }
        all_bytes_ = std::accumulate(bytes_.begin(), bytes_.end(), std::uint64_t{0});
    }
    List(const List&) = delete;

    const void* const* tensors() const { return tensors_; }
    const std::vector<Range>& ranges() const { return ranges_; }
    std::span<const std::uint64_t> bytes() const { return bytes_; }  // of each tensor
    std::uint64_t all_bytes() const { return all_bytes_; }

    // Returns the address of the list's elements if they lie one after another, otherwise null.
    const std::byte* place() const {
        const Range *first = nullptr, *last = nullptr;
        for (const Range& range : ranges_) {
            if (range.count == 0) continue;
            if (last != nullptr && last->end() != range.first()) return nullptr;
            if (first == nullptr) first = &range;
            last = &range;
        }
        return first == nullptr ? nullptr : static_cast<const std::byte*>(first->begin);
    }

  private:
    std::string name_;
    const void* const* tensors_;
    std::vector<Range> ranges_;
    std::vector<std::uint64_t> bytes_;
    std::uint64_t all_bytes_;
};

// The bytes of a list, or of the staging memory for its tensors.
struct Stretch {
    const std::byte* begin;
    std::uint64_t bytes;

    bool overlaps(const Stretch& other) const {
        const std::less<> less;
        return less(begin, other.begin + other.bytes) && less(other.begin, begin + bytes);
    }
};

// Throws Error(invalid_argument) unless every rank has all of x, and x is this plan's list of tensors.
void check_plan(const hkt_plan& plan, const engine::Plan& made, std::size_t tensors, std::uint64_t count) {
    const std::vector<std::uint64_t>& counts = plan.tensor_counts;
    if (counts.size() != tensors)
        refuse(
            fmt::format("{}: hkt_start_options.tensors is {}, but hkt_plan_options.tensors was {} when the "
                        "plan was made",
                        function, tensors, counts.size()));
    if (made.input() == dsl::Share::own || made.output() == dsl::Share::own)
        refuse(
            fmt::format("{}: {} divides x by rank, and lists of tensors are for collectives whose x is "
                        "whole on each rank: give whole buffers",
                        function, dsl::name_of(made.program().collective)));
    const std::uint64_t all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    if (all != count)
        refuse(fmt::format("{}: count is {}, but the plan's tensors have {} elements", function, count, all));
}

// The checked lists of a start.
struct Lists {
    std::deque<List> all;                         // a deque, because the lists' names must not move
    const List *send = nullptr, *recv = nullptr;  // null: this rank has none
    std::vector<const List*> given;

    Lists(const hkt_plan& plan, const engine::Plan& made, const StartBuffers& buffers) {
        const auto add = [&](std::string name, const void* pointers, DataType type) {
            return &all.emplace_back(std::move(name), pointers, plan.tensor_counts, type);
        };
        if (made.input() != dsl::Share::none) send = add("send", buffers.send, made.type());
        if (made.output() != dsl::Share::none) recv = add("recv", buffers.recv, made.type());
        for (std::size_t i = 0; i < buffers.given.size(); ++i)
            given.push_back(
                add(fmt::format("buffers[{}]", i), buffers.given[i], compute::working_type(made.type())));
        check();
    }

  private:
    // Inputs are copied before anything is written, so only the outputs must not overlap.
    void check() const {
        for (const List& list : all) {
            if (&list == recv)
                check_ranges(function, list.ranges(), {});
            else
                for (const Range& range : list.ranges()) check_ranges(function, {}, {range});
        }
    }
};

// Returns true if the engine may work on the caller's buffers directly: each list is contiguous, and send
// either equals recv or does not overlap it.
bool lie_together(const Lists& lists) {
    const std::byte *from = lists.send ? lists.send->place() : nullptr,
                    *to = lists.recv ? lists.recv->place() : nullptr;
    if ((lists.send && !from) || (lists.recv && !to)) return false;
    return !from || !to || from == to ||
           !Stretch{from, lists.send->all_bytes()}.overlaps({to, lists.recv->all_bytes()});
}

// Returns true if the engine may read the list where it is: it is contiguous, and no result is written there.
bool may_stay(const List& given, const Stretch& written) {
    return given.place() && !Stretch{given.place(), given.all_bytes()}.overlaps(written);
}

// Returns the results' place in the caller's memory; nothing if they come from staging memory.
Stretch written_in_place(const Lists& lists) {
    if (!lists.recv || !lie_together(lists)) return {nullptr, 0};
    return {lists.recv->place(), lists.recv->all_bytes()};
}

// The host gathers what does not lie together. Throws Error(invalid_argument) for such tensors on a device.
void check_places(const Lists& lists) {
    const auto check = [](const List* list) {
        if (!list) return;
        for (const Range& range : list->ranges())
            if (range.count > 0)
                refuse_device(function, range.words(), range.begin,
                              "let the tensors of the list lie one after another, as views of one buffer "
                              "that recv does not overlap, or copy them to the host first");
    };
    if (!lie_together(lists)) {
        check(lists.send);
        check(lists.recv);
    }
    for (const List* list : lists.given)
        if (!may_stay(*list, written_in_place(lists))) check(list);
}

StartBuffers gather_lists(hkt_plan& plan, const Lists& lists) {
    auto gathered = std::make_unique<engine::GatheredTensors>(plan.gather_memory);
    StartBuffers start{nullptr, nullptr, {}};
    const Stretch written = written_in_place(lists);
    if (lie_together(lists)) {
        if (lists.send) start.send = lists.send->place();
        start.recv = const_cast<std::byte*>(written.begin);
    } else {
        // In place: one range of memory holds both the input and the results.
        std::byte* const room = gathered->room_for((lists.send ? lists.send : lists.recv)->bytes());
        if (lists.send) {
            engine::GatheredTensors::copy_into(room, lists.send->tensors(), lists.send->bytes());
            start.send = room;
        }
        if (lists.recv) {
            gathered->expect(room, const_cast<void* const*>(lists.recv->tensors()), lists.recv->bytes());
            start.recv = room;
        }
    }
    for (const List* list : lists.given) {
        start.given.push_back(list->place());
        if (may_stay(*list, written)) continue;
        std::byte* const room = gathered->room_for(list->bytes());
        engine::GatheredTensors::copy_into(room, list->tensors(), list->bytes());
        start.given.back() = room;
    }
    start.gathered = std::move(gathered);
    return start;
}

}  // namespace

StartBuffers gather(hkt_plan& plan, const StartBuffers& buffers, std::size_t tensors, std::uint64_t count) {
    const engine::Plan& made = *plan.comm->engine->plans().plan_for(*plan.plans, count).plan;
    check_plan(plan, made, tensors, count);
    const Lists lists(plan, made, buffers);
    check_places(lists);
    // Nothing is copied for a start that is going to fail.
    if (const auto failure = plan.comm->engine->progress().failure())
        throw Error(failure->status, failure->text);
    if (count == 0) return {nullptr, nullptr, std::vector<const std::byte*>(buffers.given.size())};
    try {
        return gather_lists(plan, lists);
    } catch (const std::exception& error) {
        plan.comm->engine->progress().cannot_start(error);
        throw;
    }
}

}  // namespace hocket::capi
