// A rank's operations at this moment, for observers.
#pragma once

#include "runtime/engine/record/flight.hpp"
#include "runtime/engine/record/recording.hpp"
#include "runtime/engine/reports/failure.hpp"

namespace hocket::engine {

// Returns the notes, with the position of each operation in flight.
record::Recording recording_of(const record::Flight& flight, InFlight in_flight);

}  // namespace hocket::engine
