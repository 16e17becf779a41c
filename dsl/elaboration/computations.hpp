// Lays out a schedule's computations, and the buffers that they need.
#pragma once

#include <optional>

#include "dsl/elaboration/formulas.hpp"
#include "dsl/elaboration/transfers.hpp"

namespace hocket::dsl {

class Computations {
  public:
    // All references must outlive it. only: as in Transfers.
    Computations(StepGraph& graph, const Topology& topology, Views& views, Transfers& transfers,
                 std::optional<Rank> only)
        : graph_(graph), topology_(topology), views_(views), transfers_(transfers), only_(only) {}

    // Each of these names a new buffer.
    void given(const ast::Name& name, Scope& scope);
    void state(const ast::State& state, Span span, Scope& scope);
    // Returns false, and does nothing, unless the value is mstopk(...) or total(...).
    bool let(const ast::Let& let, Span span, Scope& scope);

    void assign(const ast::Assign& assign, Span span, const Scope& scope);
    // Makes each rank work on its own part from here on, of a buffer of which it has all.
    void partition(const ast::Partition& partition, Span span, const Scope& scope);

    // Throws DiagnosticError if `collective` cannot run on this buffer.
    void check_composition(ViewId view, Collective collective, Span span) const;

  private:
    void select(const ast::Let& let, Span span, Scope& scope);
    void total(const ast::Let& let, Span span, Scope& scope);
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
    std::optional<Rank> only_;
};

}  // namespace hocket::dsl
