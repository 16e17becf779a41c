// Resolves texts to a topology, an operator, an update, or a schedule or algorithm of a collective.
// (PlanRequest lists the forms.)
#pragma once

#include <string>
#include <vector>

#include "dsl/elaboration/elaborate.hpp"
#include "dsl/elaboration/library.hpp"
#include "dsl/graph/operator.hpp"
#include "dsl/graph/topology.hpp"
#include "dsl/graph/update.hpp"

namespace hocket::dsl {

// These functions throw DiagnosticError if the text is wrong, NotFoundError if nothing has the name. `ranks`
// 0: any number.
Topology find_topology(Library& library, const std::string& text, Rank ranks);
// Reads the folders only if the topology has a name.
Topology find_topology(const std::string& text, const std::vector<std::string>& search_path, Rank ranks);
Runnable find_runnable(Library& library, const std::string& text, Collective collective);
// Returns one of the table's collectives, or one that a file defines: "scan", "my.sched:scan", or "my.sched"
// if that file defines one. `schedule`: the text of the schedule that is to run; if it names a file, that
// file's definitions come first.
Collective find_collective(Library& library, const std::string& text, const std::string& schedule = {});
// Returns the table's collectives, and those that the library's files and the file of `schedule`, if it names
// one, define.
std::vector<Collective> collectives_for(Library& library, const std::string& schedule);
// Returns the first collective that has a schedule or algorithm named `text`. An empty `text` gives
// all_reduce.
Collective first_collective_of(Library& library, const std::string& text);
Collective first_collective_of(const std::string& text, const std::vector<std::string>& search_path);
// Returns the collective named `text`, or if that is empty the first one that has the schedule.
Collective find_collective(const std::string& text, const std::string& schedule,
                           const std::vector<std::string>& search_path);
// text: "absmax", "my.sched:absmax", or "my.sched" if that file has one operator.
Operator find_operator(Library& library, const std::string& text);
// text: "momentum(0.1)", "my.sched:momentum(0.1)", "my.sched" if that file has one update, or the statements
// themselves: "w = w - 0.1 * g / workers".
Update find_update(Library& library, const std::string& text);

}  // namespace hocket::dsl
