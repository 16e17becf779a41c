// Lays out a schedule's computations, and the buffers that they need.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dsl/elaboration/formulas.hpp"
#include "dsl/elaboration/transfers.hpp"

namespace hocket::dsl {

class Computations {
  public:
    // All references must outlive it. only: as in Transfers.
    Computations(StepGraph& graph, const Topology& topology, Views& views, Transfers& transfers,
                 const Wanted& only)
        : graph_(graph), topology_(topology), views_(views), transfers_(transfers), only_(only) {}

    // Each of these names a new buffer.
    void given(const ast::Name& name, Scope& scope);
    void state(const ast::State& state, Span span, Scope& scope);
    // Returns false, and does nothing, unless the value is mstopk(...), total(...) or largest(...).
    bool let(const ast::Let& let, Span span, Scope& scope);

    void assign(const ast::Assign& assign, Span span, const Scope& scope);
    // Makes each rank work on its own part from here on, of a buffer of which it has all.
    void partition(const ast::Partition& partition, Span span, const Scope& scope);

    // Throws DiagnosticError if `collective` cannot run on this buffer.
    void check_composition(ViewId view, Collective collective, Span span) const;

    // A collective whose data travel in another format, or of which only the largest elements do
    // (packing.cpp): pack() makes each rank's pieces of them, which the collective moves, and unpack() adds
    // up those that the rank has then.
    //
    // Packs the rank's part of the view, which is divided over the group but not scattered or gathered yet.
    // Returns the pieces: one for each member of the group in a reduce_scatter, otherwise one.
    ViewId pack(const ast::Compose& compose, ViewId view, const Group& group, Span span, const Scope& scope);
    // Only checks what pack() would refuse, for a group of one rank.
    void check_packing(const ast::Compose& compose, ViewId view, const Scope& scope) const;
    // Sends each member of a group its pieces of the others.
    void exchange(ViewId packed, const std::vector<Rank>& members, Span span);
    // Assigns the sums of the pieces to the view, which is still divided over the group.
    void unpack(Collective collective, ViewId view, ViewId packed, const Group& group, Span span);

  private:
    static void set_density(ExtraBuffer& buffer, const ast::Expression& expression,
                            const Evaluator& evaluate);
    void set_format(ExtraBuffer& buffer, const ast::Expression& named, const Scope& scope) const;
    ExtraBuffer packed_buffer(const ast::Compose& compose, ViewId view, const Scope& scope) const;
    std::optional<Operand> kept_by(const ast::Compose& compose, ViewId view, const Scope& scope) const;
    std::vector<Region> parts_to_pack(const ast::Compose& compose, ViewId view, const Group& group,
                                      Rank rank) const;
    Region piece_of(const ExtraBuffer& packed, Rank rank, Rank member) const;
    void add_stretch(const Computation& computation, std::uint32_t number, Rank rank, const Region& stretch,
                     std::vector<std::uint32_t> held, Span span);
    void select(const ast::Let& let, Span span, Scope& scope);
    void total(const ast::Let& let, Fold fold, Span span, Scope& scope);
    void refuse_own_collective(Span span) const;
    ViewId add_buffer(ExtraBuffer buffer, View view);
    Region place_of(ViewId view, Rank rank) const;
    std::vector<Rank> ranks() const;
    void check_everywhere(ViewId view, Span span) const;
    Region stretch_of(ViewId view, Rank rank, Span span) const;
    void check_cover(const Operand& operand, const Region& region, Rank rank) const;
    std::vector<std::uint32_t> held_by(Rank rank, const Terms& terms);
    std::uint32_t add(Computation computation);
    void add_step(std::uint32_t computation, Rank rank, Region region, Region target,
                  std::vector<std::uint32_t> held, Span span);

    StepGraph& graph_;
    const Topology& topology_;
    Views& views_;
    Transfers& transfers_;
    const Wanted& only_;
};

}  // namespace hocket::dsl
