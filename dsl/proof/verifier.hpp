// The proof behind verify.hpp: runs a step graph on symbols.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/deadline.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/graph/atoms.hpp"
#include "dsl/proof/contributions.hpp"
#include "dsl/proof/order.hpp"
#include "dsl/proof/traits.hpp"
#include "dsl/proof/verify.hpp"

namespace hocket::dsl {

inline constexpr std::uint32_t nothing = ~std::uint32_t{0};

class Verifier {
  public:
    // All references must outlive it.
    Verifier(const StepGraph& graph, const std::string& subject, const Deadline& deadline);
    Completion run();
    // Called instead of run(): returns what the graph needs of an operator (verifier_order.cpp).
    OrderNeeds order_needs();

  private:
    std::vector<AtomRange> atoms_of(Share share, Rank rank) const;
    void bound_size() const;
    void set_initial_state();
    void set_initial_extras();
    void run_start();
    bool has_states() const;
    bool learn_states();
    void find_holdings();
    std::vector<Holding> holdings_of(const ExtraBuffer& state, const std::vector<SetId>& sets);
    void run_phase(std::size_t begin, std::size_t end);
    void find_completed(std::size_t index);
    void read(const Step& step);
    void write(std::size_t index, std::size_t& value);
    void overwrite(std::size_t index, std::size_t place, std::size_t value);
    void combine(std::size_t index, std::size_t place, std::size_t value);
    void check_strands(const Step& step, std::size_t place, bool writes);

    // The order of operands (verifier_order.cpp).
    struct Operand {
        std::size_t place;  // into which it is combined
        Rank rank;          // from which it comes
        SetId set;
        std::size_t step;
        TraitId trait;
    };
    void fold(std::size_t begin, std::size_t end);
    template <typename Take>
    void in_order_of_fold(std::size_t first, std::size_t last, Take take);
    void number_fold(std::size_t first, std::size_t last);
    void note_fold(std::size_t first, std::size_t last);
    void note_join(SetId left, SetId right, std::size_t step);

    // Computations (verifier_computations.cpp).
    // The facts about a number while a formula is run.
    struct Known {
        SetId set = Contributions::of_none;
        std::uint64_t states = 0;
        std::uint64_t carried = 0;                  // see Trait
        bool is_uniform = true;                     // equal on all ranks
        bool is_linear = true;                      // in the values that it was made of
        SetId left_set = Contributions::undefined;  // see Trait
        std::uint32_t selected = 0;                 // see Trait
        bool has_sent = false;
    };
    // The values that a value was made of, for its trait: in the form that Traits::history() and
    // Traits::value() take.
    struct MadeOf {
        std::vector<std::uint32_t> histories, values;
        void add(SetId set, const Trait& trait) {
            histories.push_back(trait.history);
            values.insert(values.end(), {set, trait.value});
        }
    };
    void add_elements(const Step& step, std::uint32_t atom, MadeOf& of) const;
    void note_terms(const Step& step, std::uint32_t atom, const std::vector<std::uint32_t>& summands,
                    TraitId sum);

    // The values that a rank's selection or sums were made of.
    struct Selection {
        struct Entry {
            SetId set;
            TraitId trait;
        };
        std::uint32_t begin = 0;          // the first atom, of x
        std::vector<Entry> entries = {};  // one per atom from `begin` on; empty: not made yet
        std::uint32_t step = nothing;

        bool has(std::uint32_t atom) const { return begin <= atom && atom < begin + entries.size(); }
        const Entry& at(std::uint32_t atom) const { return entries[atom - begin]; }
    };
    void compute(std::size_t index);
    Known value_at(const Step& step, std::int64_t buffer, std::uint32_t atom);
    Known run_formula(const Step& step, std::uint32_t atom);
    Known joined(const Step& step, const Formula::Item& item, const Known* operands, std::uint32_t atom);
    bool is_partial(SetId set);
    void check_is_whole_or_linear(const Step& step, const Known& value, std::uint32_t atom);
    Known with_sparse(const Step& step, Known value, std::uint32_t atom,
                      const std::vector<std::vector<std::uint32_t>>& pieces, MadeOf& of);
    // A selected piece that a computation reads.
    struct Selected {
        const Selection& selection;
        Rank rank;  // the rank that selected it
        const Selection::Entry& entry;
    };
    Known with_selection(const Step& step, Known value, const Selected& selected, std::uint32_t atom);
    Known without_selection(const Step& step, Known value, const Selected& selected, std::uint32_t atom,
                            bool clears);
    void check_selected_alike(const Step& step, const Selected& selected, TraitId first, std::uint32_t atom);
    void check_adds_to_nothing(const Step& step, const Known& value, SetId set, std::uint32_t atom);
    std::uint32_t piece(std::size_t selection, Rank rank) const {
        return static_cast<std::uint32_t>(selection) * static_cast<std::uint32_t>(graph_.ranks) +
               static_cast<std::uint32_t>(rank);
    }
    bool may_be_same(SetId set, std::uint64_t states, SetId other, std::uint64_t others_states);
    void check_selected_once(const Step& step, const Known& value, std::uint32_t atom, std::size_t from);
    std::vector<std::uint32_t> selected_by_atom();
    void check_all_selected_arrive();
    [[noreturn]] void refuse_lost(std::size_t at, std::uint32_t piece);
    bool is_selected_from(const Step& step, std::uint32_t atom,
                          const std::vector<std::vector<std::uint32_t>>& pieces) const;
    std::vector<std::vector<std::uint32_t>> pieces_held(const Step& step);
    void check_sums(const Step& step, std::int64_t buffer, const std::vector<std::uint32_t>& pieces,
                    MadeOf& of);
    void check_selectable(const Step& step, const Known& value, std::size_t from);
    void keep_selection(const Step& step, const MadeOf& scalars);
    void combine_traits(const Step& step, std::size_t to, std::size_t value);

    // States (verifier_states.cpp).
    template <typename Call>
    void for_kept(std::size_t state, Call call);
    SetId left_in(std::size_t place) const;
    bool learn_sets();
    bool learn_aliases();
    bool learn_sent();
    std::uint64_t with_aliases(std::uint64_t states) const;
    bool is_sent(Rank rank, std::uint32_t atom, std::size_t at);
    void check_states();
    void check_states_go_on();
    void check_kept_alike();
    std::uint32_t mirrored(std::uint32_t atom, std::int64_t buffer) const;
    [[noreturn]] void refuse_combine_of_none(const Step& step, std::size_t to, std::size_t value);
    [[noreturn]] void refuse_combine(const Step& step, std::size_t to, std::size_t value);
    [[noreturn]] void refuse_differing(std::size_t at, std::size_t other);
    std::string history_text(std::uint32_t history) const;
    std::string difference_text(const std::string& one, std::uint32_t history, const std::string& other,
                                std::uint32_t of_other) const;
    bool concurrent(std::uint32_t a, std::uint32_t b) const;
    struct Expected {
        SetId contributions;
        std::uint32_t atom;
    };
    std::vector<Expected> expected_of(Rank rank);
    void check_result();
    [[noreturn]] void refuse_result(std::size_t place, const Expected& expected);

    std::size_t place(Rank rank, std::uint32_t atom) const { return std::size_t(rank) * atoms_ + atom; }
    // Returns the atom of the input whose contributions the place holds.
    std::uint32_t atom_at(std::size_t place) const {
        return graph_.moves ? atom_[place] : static_cast<std::uint32_t>(place % atoms_);
    }
    Rank rank_of(std::size_t place) const { return static_cast<Rank>(place / atoms_); }
    std::string chunk_text(std::size_t place) const;
    void add_calls(Diagnostic& diagnostic, const StepOrigin& origin) const;
    [[noreturn]] void fail(const Step& step, std::string message, std::vector<Note> notes = {},
                           std::string hint = {}) const;
    std::vector<Note> last_write(std::size_t place, const char* text) const;

    const StepGraph& graph_;
    const Contract contract_;
    const std::string& subject_;
    const std::string verifying_;
    DeadlineCounter deadline_;
    Contributions sets_;
    SetId everyone_ = Contributions::undefined;
    Atoms division_;
    std::uint32_t atoms_ = 1;
    AtomRange input_, output_;  // the ranks' data at the start, and at the end
    std::vector<std::vector<AtomRange>> regions_;

    // By place (rank and atom).
    std::vector<SetId> state_;
    // The atom of the input that it holds. Filled only if data change places.
    std::vector<std::uint32_t> atom_;
    std::vector<std::uint32_t> writer_;  // the last step that wrote
    // The last strand that wrote, and the last that read. Filled only if there are strands.
    std::vector<std::uint32_t> strand_write_, strand_read_;
    // Filled only if the graph computes, or has buffers for computations.
    std::vector<TraitId> trait_;
    Traits traits_;
    std::vector<Selection> selections_;  // by extra buffer and rank
    std::vector<bool> was_read_;         // by place, of states: true if the content was used
    // By place, of states: the contributions to the content when a start begins, or of_none if that is the
    // same on all ranks.
    std::vector<SetId> kept_;
    bool knows_states_ = false;    // true once kept_ is complete
    std::vector<bool> kept_sent_;  // by place, of states: Trait::has_sent when a start begins
    // By extra buffer: the states that may hold the same contributions when a start begins, a bit for each.
    std::vector<std::uint64_t> aliases_;
    Completion completion_;
    std::vector<SetId> values_;  // the values that the current phase reads, in order
    std::vector<std::uint32_t> value_atoms_;
    std::vector<TraitId> value_traits_;
    std::vector<std::pair<std::size_t, std::uint32_t>> folded_;  // in the current phase: places and numbers

    bool watches_order_ = false;
    OrderNeeds order_needs_;
    std::vector<Operand> operands_;  // of the current phase
    std::pair<SetId, SetId> last_join_{Contributions::overlap, Contributions::overlap};
};

}  // namespace hocket::dsl
