// Random numbers that follow from their purpose: ranks that ask for the same purpose get the same numbers,
// and any step of a run can be repeated without those before it.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace hocket::soak {

class Chance {
  public:
    explicit Chance(std::initializer_list<std::uint64_t> purpose) {
        for (const std::uint64_t part : purpose) state_ = (state_ ^ part) * 0x9e3779b97f4a7c15u, number();
    }

    std::uint64_t number() {  // splitmix64
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    std::uint64_t below(std::uint64_t end) { return number() % end; }
    std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
    bool one_in(std::uint64_t n) { return below(n) == 0; }

    // 0 to most, each power of two as likely as the next.
    std::uint64_t log_uniform(std::uint64_t most) {
        const std::uint64_t ceiling = std::uint64_t{1} << below(std::bit_width(most) + 1u);
        const std::uint64_t value = ceiling / 2 + below(ceiling - ceiling / 2);
        return value > most ? most : value;
    }

    template <class Choices>
    const auto& one_of(const Choices& choices) {
        return choices[below(std::size(choices))];
    }

    template <class Sequence>
    void shuffle(Sequence& sequence) {
        for (std::size_t i = sequence.size(); i > 1; --i) std::swap(sequence[i - 1], sequence[below(i)]);
    }

  private:
    std::uint64_t state_ = 0;
};

}  // namespace hocket::soak
