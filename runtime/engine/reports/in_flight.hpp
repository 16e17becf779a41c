// What a rank's operations are at this moment, for those who look from outside.
#pragma once

#include "runtime/engine/record/flight.hpp"
#include "runtime/engine/record/recording.hpp"
#include "runtime/engine/reports/failure.hpp"

namespace hocket::engine {

// What the notes tell, with the place of each operation that is in flight.
record::Recording recording_of(const record::Flight& flight, InFlight in_flight);

}  // namespace hocket::engine
