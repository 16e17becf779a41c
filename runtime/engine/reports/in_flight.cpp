#include "runtime/engine/reports/in_flight.hpp"

#include <algorithm>

#include "runtime/base/status_text.hpp"

namespace hocket::engine {
namespace {

constexpr const char* in_flight_text = "in flight";

// Converts the notes' clock to microseconds since 1970.
class Calendar {
  public:
    Calendar() : offset_(record::read_clock(CLOCK_REALTIME) - record::read_clock(CLOCK_MONOTONIC)) {}
    std::int64_t us(record::Moment moment) const { return (moment + offset_) / 1000; }

  private:
    const record::Moment offset_;
};

template <typename Note>
record::Times times_of(const Note& note, const Calendar& calendar) {
    record::Times times;
    times.started = calendar.us(note.started);
    if (note.ended != 0) times.ended = calendar.us(note.ended);
    times.status = note.ended != 0 ? text_of(note.status) : in_flight_text;
    return times;
}

// For a start that is cut into tiles, reports the oldest tile.
void place(std::vector<record::Collective>& collectives, std::span<Execution* const> operations) {
    std::uint64_t before = UINT64_MAX;
    for (const Execution* execution : operations) {
        if (execution->number() == before) continue;
        before = execution->number();
        auto known = std::ranges::find(collectives, before, &record::Collective::number);
        if (known == collectives.end())  // so many are in flight that the oldest notes are gone
            known = collectives.insert(collectives.end(),
                                       {*execution->plan().label(), before, execution->start().count, {}});
        known->times.ended.reset();
        known->times.status = in_flight_text;
        known->times.place = place_of(*execution);
    }
}

}  // namespace

record::Recording recording_of(const record::Flight& flight, InFlight in_flight) {
    const Calendar calendar;
    record::Recording recording;
    recording.written = calendar.us(record::read_clock(CLOCK_MONOTONIC));
    for (const record::CollectiveNote& note : flight.collectives())
        if (note.label)
            recording.collectives.push_back({*note.label, note.number, note.count, times_of(note, calendar)});
    place(recording.collectives, in_flight.operations);
    std::ranges::sort(recording.collectives, {}, &record::Collective::number);

    std::vector<const record::MessageNote*> messages;
    for (const record::MessageNote& note : flight.messages())
        if (note.number != 0) messages.push_back(&note);
    std::ranges::sort(messages, {}, &record::MessageNote::number);
    for (const record::MessageNote* note : messages) {
        recording.messages.push_back(
            {note->sends, note->peer, note->tag, note->bytes, times_of(*note, calendar)});
        const auto open = std::ranges::find(in_flight.messages, note->number, &MessageRequest::note);
        if (open != in_flight.messages.end() && note->ended == 0)
            recording.messages.back().times.place = place_of(**open);
    }
    return recording;
}

}  // namespace hocket::engine
