#include "runtime/engine/reports/tracer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/engine/reports/failure.hpp"
#include "runtime/status_text.hpp"

namespace hocket::engine {
namespace {

// Messages come below the collectives that are in flight with them.
constexpr int first_message_row = 500;

record::Slice slice_of(const record::Label& label, std::uint64_t number, std::uint64_t count,
                       record::Moment began) {
    record::Slice slice;
    slice.name = fmt::format("{} #{}", label.name(), number);
    slice.category = "collective";
    slice.began = began;
    slice.numbers = {{"number", static_cast<std::int64_t>(number)},
                     {"count", static_cast<std::int64_t>(count)}};
    slice.texts = {{"collective", label.collective},
                   {"what", record::describe(label, number, count)},
                   {"schedule", label.schedule},
                   {"type", record::type_text(label)}};
    return slice;
}

// Which step an execution stands at, without words.
std::int64_t step_id(const Execution& execution) {
    const auto tile = static_cast<std::int64_t>(execution.tile()) << 32;
    if (execution.run().awaited_at_start()) return tile - 1;
    const auto id = execution.run().first_incomplete();
    return id ? tile + static_cast<std::int64_t>(*id) : tile - 2;
}

}  // namespace

// Rows that were used before are used again, so a job that waits for each operation has one.
int Tracer::free_row(bool is_message) {
    int row = 0;
    const int first = is_message ? first_message_row : 0;
    while (std::ranges::any_of(open_, [&](const Open& open) { return open.row == first + row; })) ++row;
    for (int& named = named_[is_message]; named <= row; ++named)
        file_.name_row(first + named, fmt::format("{}, {}{}", record::name_of(origin_),
                                                  is_message ? "messages" : "collectives",
                                                  named == 0 ? "" : fmt::format(" ({})", named + 1)));
    return first + row;
}

Tracer::Open* Tracer::find(bool is_message, std::uint64_t number) {
    const auto found = std::ranges::find_if(
        open_, [&](const Open& open) { return open.is_message == is_message && open.number == number; });
    return found == open_.end() ? nullptr : &*found;
}

void Tracer::end_step(Open& open, record::Moment at) {
    if (!open.step) return;
    const auto [id, began, place] = *std::exchange(open.step, std::nullopt);
    record::Slice slice;
    slice.row = open.row;
    slice.category = "step";
    // "ring.sched:6  x[r - s] : r +> r + 1"
    slice.name = place.location.empty()
                     ? place.doing
                     : place.location.substr(place.location.rfind('/') + 1) + "  " + place.source;
    slice.began = began;
    slice.ended = at;
    slice.texts = {{"doing", place.doing}, {"location", place.location}};
    slice.numbers = {{"step", static_cast<std::int64_t>(place.step)},
                     {"of", static_cast<std::int64_t>(place.steps)}};
    if (place.waits_for >= 0) slice.numbers.push_back({"rank", place.waits_for});
    file_.add(slice);
}

void Tracer::end(Open& open, Status status, record::Moment at) {
    end_step(open, at);
    open.slice.ended = at;
    open.slice.texts.push_back({"status", text_of(status)});
    file_.add(open.slice);
    open_.erase(open_.begin() + (&open - open_.data()));
}

void Tracer::begin(const Execution& execution, record::Moment began) {
    Open open;
    open.number = execution.number();
    open.row = free_row(false);
    open.tiles = execution.start().tiles;
    open.slice = slice_of(*execution.plan().label(), open.number, execution.start().count, began);
    open.slice.row = open.row;
    open_.push_back(std::move(open));
}

void Tracer::add_done(const record::Label& label, std::uint64_t number, std::uint64_t count,
                      record::Moment began) {
    record::Slice slice = slice_of(label, number, count, began);
    slice.row = free_row(false);
    slice.ended = now();
    slice.texts.push_back({"status", text_of(Status::success)});
    file_.add(slice);
}

void Tracer::look(std::span<Execution* const> in_flight) {
    const record::Moment at = now();
    const Open* seen = nullptr;
    for (const Execution* execution : in_flight) {
        Open* const open = find(false, execution->number());
        if (open == nullptr || open == seen || execution->status() != Status::in_progress) continue;
        seen = open;
        const std::int64_t id = step_id(*execution);
        if (open->step && open->step->id == id) continue;
        end_step(*open, at);
        open->step = {id, at, place_of(*execution)};
    }
}

void Tracer::end_tile(const Execution& execution) {
    Open* const open = find(false, execution.number());
    if (open == nullptr) return;
    const record::Moment at = now();
    end_step(*open, at);
    if (--open->tiles == 0) end(*open, execution.status(), at);
}

void Tracer::begin(const MessageRequest& message) {
    Open open;
    open.is_message = true;
    open.number = message.note;
    open.row = free_row(true);
    open.slice.row = open.row;
    open.slice.name = describe(message.start);
    open.slice.category = "message";
    open.slice.began = now();
    open.slice.numbers = {{"rank", message.start.peer},
                          {"tag", message.start.tag},
                          {"bytes", static_cast<std::int64_t>(message.start.bytes)}};
    open_.push_back(std::move(open));
}

void Tracer::end(const MessageRequest& message) {
    if (Open* const open = find(true, message.note)) end(*open, message.status, now());
}

void Tracer::end_all(Status status) {
    const record::Moment at = now();
    while (!open_.empty()) end(open_.back(), status, at);
    file_.flush();
}

}  // namespace hocket::engine
