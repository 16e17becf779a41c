#include "runtime/engine/reports/tracer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/log.hpp"
#include "runtime/base/status_text.hpp"
#include "runtime/engine/reports/failure.hpp"

namespace hocket::engine {
namespace {

// Messages are shown below the collectives that are in flight with them.
constexpr int rows_of_a_kind = record::TraceFile::most_rows / 2;

int first_row(bool is_message) {
    return is_message ? rows_of_a_kind : 0;
}

std::string name_of(const record::Label& label, std::uint64_t number) {
    return fmt::format("{} #{}", label.name(), number);
}

record::Facts facts_of(const record::Label& label, std::uint64_t number, std::uint64_t count) {
    return {{{"number", static_cast<std::int64_t>(number)}, {"count", static_cast<std::int64_t>(count)}},
            {{"collective", label.collective},
             {"what", record::describe(label, number, count)},
             {"schedule", label.schedule},
             {"type", record::type_text(label)}}};
}

// Identifies an execution's current step, without words.
std::int64_t step_of(const Execution& execution) {
    const auto tile = static_cast<std::int64_t>(execution.tile()) << 32;
    if (execution.run().awaited_at_start()) return tile - 1;
    const auto id = execution.run().first_incomplete();
    return id ? tile + static_cast<std::int64_t>(*id) : tile - 2;
}

}  // namespace

void Tracer::end_because(const std::exception& error) noexcept {
    is_over_ = true;
    log_line("hocket: warning: the trace of {} ends: {}", record::name_of(origin_), error.what());
}

// Rows are reused, so a job that waits for each operation needs only one.
std::optional<int> Tracer::take_row(bool is_message) {
    std::vector<bool>& taken = taken_[is_message];
    const auto place = std::find(taken.begin(), taken.end(), false) - taken.begin();
    const int row = first_row(is_message) + static_cast<int>(place);
    if (place < static_cast<std::ptrdiff_t>(taken.size())) {
        taken[static_cast<std::size_t>(place)] = true;
        return row;
    }
    if (place == rows_of_a_kind) return std::nullopt;
    file_.name_row(row,
                   fmt::format("{}, {}{}", record::name_of(origin_), is_message ? "messages" : "collectives",
                               place == 0 ? "" : fmt::format(" ({})", place + 1)));
    taken.push_back(true);
    return row;
}

void Tracer::end_step(Open& open, record::Moment at) {
    if (open.step) file_.end(open.row, at, {});
    open.step.reset();
}

void Tracer::end(std::map<Key, Open>::iterator open, Status status, record::Moment at) {
    const bool is_message = open->first.first;
    end_step(open->second, at);
    file_.end(open->second.row, at, {.texts = {{"status", text_of(status)}}});
    taken_[is_message][static_cast<std::size_t>(open->second.row - first_row(is_message))] = false;
    open_.erase(open);
}

void Tracer::begin(const Execution& execution, record::Moment began) noexcept {
    guarded([&] {
        const auto row = take_row(false);
        if (!row) return;
        const record::Label& label = *execution.plan().label();
        const std::uint64_t number = execution.number();
        open_.insert({{false, number}, {*row, execution.start().tiles()}});
        file_.begin(*row, began, name_of(label, number), "collective",
                    facts_of(label, number, execution.start().count));
    });
}

void Tracer::add_done(const record::Label& label, std::uint64_t number, std::uint64_t count,
                      record::Moment began) noexcept {
    guarded([&] {
        const auto row = take_row(false);
        if (!row) return;
        record::Facts facts = facts_of(label, number, count);
        facts.texts.push_back({"status", text_of(Status::success)});
        file_.add(*row, began, now(), name_of(label, number), "collective", facts);
        taken_[false][static_cast<std::size_t>(*row)] = false;
    });
}

void Tracer::look(std::span<Execution* const> in_flight) noexcept {
    guarded([&] {
        const record::Moment at = now();
        file_.look(at);
        const Open* seen = nullptr;
        for (const Execution* execution : in_flight) {
            const auto known = open_.find({false, execution->number()});
            if (known == open_.end() || &known->second == seen || execution->status() != Status::in_progress)
                continue;
            Open& open = known->second;
            seen = &open;
            const std::int64_t step = step_of(*execution);
            if (open.step == step) continue;
            end_step(open, at);
            open.step = step;
            const record::Place place = place_of(*execution);
            record::Facts facts{.texts = {{"doing", place.doing}}};
            if (place.steps > 0) {
                facts.numbers = {{"step", static_cast<std::int64_t>(place.step)},
                                 {"of", static_cast<std::int64_t>(place.steps)}};
                facts.texts.push_back({"location", place.location});
            }
            if (place.waits_for >= 0) facts.numbers.push_back({"rank", place.waits_for});
            // "ring.sched:6  x[r - s] : r +> r + 1"
            const std::string name =
                place.location.empty()
                    ? place.doing
                    : place.location.substr(place.location.rfind('/') + 1) + "  " + place.source;
            file_.begin(open.row, at, name, "step", facts);
        }
    });
}

void Tracer::end_tile(const Execution& execution) noexcept {
    guarded([&] {
        const auto open = open_.find({false, execution.number()});
        if (open == open_.end()) return;
        const record::Moment at = now();
        end_step(open->second, at);
        if (--open->second.tiles == 0) end(open, execution.status(), at);
    });
}

void Tracer::begin(const MessageRequest& message) noexcept {
    guarded([&] {
        const auto row = take_row(true);
        if (!row) return;
        open_.insert({{true, message.note}, {*row, 1}});
        file_.begin(*row, now(), describe(message.start), "message",
                    {.numbers = {{"rank", std::max(message.start.peer, -1)},
                                 {"tag", message.start.tag},
                                 {"bytes", static_cast<std::int64_t>(message.start.bytes)}}});
    });
}

void Tracer::end(const MessageRequest& message) noexcept {
    guarded([&] {
        const auto open = open_.find({true, message.note});
        if (open != open_.end()) end(open, message.status, now());
    });
}

void Tracer::end_all(Status status) noexcept {
    guarded([&] {
        const record::Moment at = now();
        while (!open_.empty()) end(open_.begin(), status, at);
        file_.flush();
    });
}

}  // namespace hocket::engine
