// The content of states when a start begins, which is their content at the end of the previous start. It is
// learned by running the start repeatedly, beginning with states that hold nothing, until nothing new is
// found.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/proof/symbols/contents.hpp"
#include "dsl/proof/symbols/selections.hpp"

namespace hocket::dsl {

class StateProof {
  public:
    StateProof(const Subject& subject, Contents& contents, const Selections& selections);

    void begin();  // a start: puts what the states hold into their places
    void learn();  // called after a start
    // True once a start has shown nothing new: kept() is complete. True from the beginning if there are no
    // states.
    bool are_known() const { return are_known_; }

    // The contributions to the content of a state's place when a start begins, or of_none if that is the same
    // on all ranks.
    SetId kept(std::size_t place) const { return kept_[place]; }
    // Returns true if values with these contributions, of these states and of x, may have contributions in
    // common. Content of a state that is the same on all ranks counts as everyone's.
    bool may_be_same(SetId set, std::uint64_t states, SetId other, std::uint64_t others_states) const;

    // Called after a start.
    void check_taken_out() const;
    void check_go_on() const;
    void check_kept_alike() const;

  private:
    template <typename Call>
    void for_kept(std::size_t state, Call call) const;
    bool learn_sets();
    bool learn_aliases();
    bool learn_sent();
    std::uint64_t with_aliases(std::uint64_t states) const;
    const Step* left_out_by(std::size_t state, std::uint32_t atom) const;
    bool came_beside(Rank rank, std::uint32_t atom, const Trait& left,
                     const Selection::Entry& selected) const;
    bool is_sent(Rank rank, std::uint32_t atom, std::size_t at) const;

    const Subject& subject_;
    const StepGraph& graph_;
    Contents& contents_;
    const Traits& traits_;
    const Selections& selections_;
    bool are_known_ = false;
    // By place, of states.
    std::vector<SetId> kept_;
    std::vector<bool> kept_sent_;  // Trait::has_sent when a start begins
    // By extra buffer: the states that may hold the same contributions when a start begins, a bit for each.
    std::vector<std::uint64_t> aliases_;
};

}  // namespace hocket::dsl
