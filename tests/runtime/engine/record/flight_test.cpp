#include "runtime/engine/record/flight.hpp"

#include <algorithm>

#include "tests/support/test.hpp"

using namespace hocket;
using record::CollectiveNote;
using record::Flight;

namespace {

const CollectiveNote* find(const Flight& flight, std::uint64_t number) {
    const auto found = std::ranges::find_if(flight.collectives(), [&](const CollectiveNote& note) {
        return note.label && note.number == number;
    });
    return found == flight.collectives().end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("the last operations are kept, and what ends later than that changes nothing") {
    Flight flight;
    const auto label = std::make_shared<const record::Label>();
    for (std::uint64_t number = 0; number < Flight::kept + 10; ++number)
        flight.begin(label, number, number, 0);
    CHECK(find(flight, 9) == nullptr);
    REQUIRE(find(flight, 10) != nullptr);
    flight.end(9, Status::success, 1);
    for (const CollectiveNote& note : flight.collectives()) CHECK(note.ended == 0);
    flight.end(10, Status::peer_lost, 7);
    CHECK(find(flight, 10)->ended == 7);
    CHECK(find(flight, 10)->status == Status::peer_lost);
    CHECK(find(flight, 11)->status == Status::in_progress);
    flight.note_done(label, Flight::kept + 10, 3, 0);
    const CollectiveNote& done = *find(flight, Flight::kept + 10);
    CHECK(done.ended == done.started);
    CHECK(done.started > 0);
    CHECK(done.status == Status::success);
    CHECK(find(flight, 10) == nullptr);
}

TEST_CASE("messages are numbered by the rank that notes them") {
    Flight flight;
    const auto first = flight.begin_message(true, 3, 7, 4000), second = flight.begin_message(false, 1, 8, 16);
    flight.end_message(second, Status::success, 5);
    for (const record::MessageNote& note : flight.messages()) {
        if (note.number == first) CHECK((note.sends && note.peer == 3 && note.tag == 7 && note.ended == 0));
        if (note.number == second) CHECK((!note.sends && note.bytes == 16 && note.ended == 5));
    }
    CHECK(first != second);
}
