// The values that chunks hold while an algorithm runs.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tools/schedc/imports/clocks.hpp"
#include "tools/schedc/imports/flow.hpp"

namespace hocket::tools::imports {

// A step that is about to read and write: where it stands, as a use of chunks, and what is over before it.
struct Actor {
    Place place;
    Uses::Use use;
    const Clock* clock = nullptr;
    int writes_later = 0;    // what it writes is seen when so many more steps are over
    bool acts_once = false;  // no other step has the use's block
};

// A value that a step gets, from another GPU or from its own.
struct Incoming {
    int version = 0;
    int from = 0;
    Place sender;
};

// A chunk as steps name it. In place, input and output are the same chunks.
struct Name {
    int slot = 0;
    bool by_output = false;
    int gpu = 0;
    bool is_flagged = false;  // readers wait until it is written, whatever their clocks are
};

class Values {
  public:
    // copied: the steps of type rrs whose own operand is needed later, by the numbers that to_copy() has.
    Values(const Algorithm& algorithm, const std::set<Place>& copied);

    Name name_of(int gpu, Chunks chunks, int index) const;

    // Returns the version that the name holds. Throws DiagnosticError if it holds nothing, or for a race.
    int read(const Actor& actor, const Name& name);
    // The name gets what comes in.
    int copy(const Actor& actor, const Name& to, const Incoming& in);
    // The name `to` gets what comes in, combined with what `operand` holds.
    int combine(const Actor& actor, const Name& to, const Name& operand, const Incoming& in);
    // Combines what comes in with what `operand` holds, for a message alone.
    int combine_for_message(const Actor& actor, const Name& operand, const Incoming& in);

    // What a step has made is sent, too.
    void pass_on(int version) { is_read_[version] = true; }

    // Marks the results. Throws DiagnosticError if there is none in a place where the collective has one.
    void check_results();
    // Who has written a result of the GPU that this clock does not know of.
    std::optional<Place> unseen_result(int gpu, const Clock& clock) const;

    // Steps of type rrs that must not combine in place of their operand.
    const std::set<Place>& to_copy() const { return to_copy_; }
    Flow take() { return std::move(flow_); }

  private:
    void fill_inputs();
    std::pair<int, int> results_of(int gpu) const;
    std::size_t index_of(const Name& name) const;
    int held(const Actor& actor, const Name& name);
    void start_write(const Actor& actor, const Name& name);
    int add_version(Version version);
    void add_move(const Actor& actor, const Incoming& in, int to, int target, bool combines);
    int combine_into(const Actor& actor, const Name& to, int base, const Incoming& in, bool may_join);
    void look(int version);
    [[noreturn]] void refuse_race(const Actor& actor, const Name& name, const Uses::Use& other) const;

    const Algorithm& algorithm_;
    const std::set<Place>& copied_;
    Flow flow_;
    std::vector<int> current_;         // version by name; -1: nothing
    std::vector<Uses> uses_;           // by name
    std::vector<bool> is_read_;        // by version
    std::vector<Place> only_sent_by_;  // by version: the step that combined it for a message alone
    std::set<Place> to_copy_;
};

}  // namespace hocket::tools::imports
