// Proves the use of selections, and of sums over tensors: tracks what they were made of, and proves that each
// is used once.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/proof/rules/state_proof.hpp"
#include "dsl/proof/rules/strand_proof.hpp"
#include "dsl/proof/symbols/contents.hpp"
#include "dsl/proof/symbols/selections.hpp"
#include "dsl/proof/symbols/symbolic_value.hpp"

namespace hocket::dsl {

class SelectionProof {
  public:
    SelectionProof(const Subject& subject, Contents& contents, StrandProof& strands,
                   const Selections& selections, const StateProof& states)
        : subject_(subject),
          graph_(subject.graph),
          contents_(contents),
          sets_(contents.sets),
          traits_(contents.traits),
          strands_(strands),
          selections_(selections),
          states_(states) {}

    // A piece that a rank holds: the rank `of` made it of these atoms of x. number: Selections::piece().
    struct Piece {
        Rank of;
        std::uint32_t number;
        AtomRange atoms;
        bool has(std::uint32_t atom) const { return atoms.begin <= atom && atom < atoms.end; }
    };
    // For each sparse term and each sum of a computation: the pieces that the rank holds.
    using Pieces = std::vector<std::vector<Piece>>;
    Pieces pieces_held(const Step& step);
    // Proves that a sum over tensors, or their largest value, is the same number on all ranks.
    void check_sums(const Step& step, std::int64_t buffer, const std::vector<Piece>& pieces, MadeOf& of);
    // Returns the value of the formula with the computation's sparse terms applied.
    SymbolicValue with_sparse(const Step& step, SymbolicValue value, std::uint32_t atom, const Pieces& pieces,
                              MadeOf& of);
    // Returns true if the first sparse term's selections include this atom.
    static bool is_selected_from(std::uint32_t atom, const Pieces& pieces);
    // Prove that a value may be selected from; `from` is its place.
    void check_selectable(const Step& step, const SymbolicValue& value, std::size_t from) const;
    void check_selected_once(const Step& step, const SymbolicValue& value, std::uint32_t atom,
                             std::size_t from) const;

  private:
    // A selected piece that a computation reads.
    struct Read {
        const Selection& selection;
        Piece piece;
        const Selection::Entry& entry;
    };
    SymbolicValue with_selection(const Step& step, SymbolicValue value, const Read& selected,
                                 std::uint32_t atom);
    SymbolicValue without_selection(const Step& step, SymbolicValue value, const Read& selected,
                                    std::uint32_t atom, bool clears) const;
    std::size_t place_selected_from(const Step& step, const Read& selected, std::uint32_t atom,
                                    bool clears) const;
    void check_cleared_was_selected(const Step& step, const Read& selected, std::size_t from) const;
    void check_rest_keeps_target(const Step& step, const SymbolicValue& rest, const Read& selected,
                                 std::uint32_t atom) const;
    void note_made_of(const Read& selected, MadeOf& of);
    void check_summed_once(const Step& step, const ExtraBuffer& extra, const Selection& part,
                           std::uint32_t atom, SetId& covered);
    SetId covered_with(SetId covered, SetId set);
    void check_is_covered(const Step& step, const ExtraBuffer& extra, std::uint32_t atom,
                          SetId covered) const;
    bool is_packed(const Selection& selection) const;
    bool leaves_out(const Selection& selection) const;
    void check_leaves_out_no_selection(const Step& step, const Read& selected, const Trait& trait,
                                       std::uint32_t atom) const;
    void check_has_no_parts(const Step& step, const SymbolicValue& formula, std::uint32_t atom) const;
    void check_lies_in_target(const Step& step, const Selection& selection, const Piece& piece) const;
    void check_selected_alike(const Step& step, const Read& selected, TraitId first,
                              std::uint32_t atom) const;
    void check_adds_to_nothing(const Step& step, const SymbolicValue& formula, SetId set, std::uint32_t atom);

    const Subject& subject_;
    const StepGraph& graph_;
    Contents& contents_;
    Contributions& sets_;
    Traits& traits_;
    StrandProof& strands_;
    const Selections& selections_;
    const StateProof& states_;
};

}  // namespace hocket::dsl
