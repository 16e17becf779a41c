// What the proof knows of a value beside whose contributions are in it: what was calculated of them. Each
// trait is stored once, so two values were made alike exactly if the numbers of their traits are equal.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace hocket::dsl {

using TraitId = std::uint32_t;

struct Trait {
    std::uint32_t history = 0;  // the computations that it went through; 0: none
    std::uint64_t states = 0;  // a bit for each extra buffer: states whose content of earlier starts is in it
    std::uint32_t left_by = 0;  // if not 0, one more than the number of the selection that left it
    bool is_selected = false;   // selections are in it

    friend auto operator<=>(const Trait&, const Trait&) = default;
};

class Traits {
  public:
    static constexpr TraitId plain = 0;

    Traits() : traits_{{}} { numbers_.emplace(Trait{}, plain); }

    const Trait& operator[](TraitId id) const { return traits_[id]; }
    TraitId intern(const Trait& trait) {
        const auto [entry, is_new] = numbers_.emplace(trait, static_cast<TraitId>(traits_.size()));
        if (is_new) traits_.push_back(trait);
        return entry->second;
    }

    // What a computation does with values.
    enum class Use : std::uint8_t { result, selected_piece, sum };

    // What a computation makes of values with these histories, in the order in which it names them. `of` may
    // have other numbers, too, on which the result depends. A statement that runs twice, in a loop, is two
    // computations: its constants may differ. origin: of the statement, for messages.
    std::uint32_t history(std::uint32_t computation, Use use, std::vector<std::uint32_t> of,
                          std::uint32_t origin) {
        const auto [entry, is_new] = histories_.try_emplace({computation, use, std::move(of)},
                                                            static_cast<std::uint32_t>(origins_.size()));
        if (is_new) origins_.push_back(origin);
        return entry->second;
    }
    // The statement that came last in it. Not for history 0.
    std::uint32_t origin_of(std::uint32_t history) const { return origins_[history]; }

  private:
    std::vector<Trait> traits_;
    std::map<Trait, TraitId> numbers_;
    std::vector<std::uint32_t> origins_{0};
    std::map<std::tuple<std::uint32_t, Use, std::vector<std::uint32_t>>, std::uint32_t> histories_;
};

}  // namespace hocket::dsl
