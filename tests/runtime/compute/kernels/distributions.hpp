// Numbers as gradients have them, and the ones that selections stumble over.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace hocket::test {

struct Distribution {
    std::string name;
    std::function<float(std::mt19937_64&, std::size_t index)> draw;
};

inline float with_sign(std::mt19937_64& random, float size) {
    return random() & 1 ? size : -size;
}

// The ones that the paper's thresholds are tried on come first.
constexpr std::size_t smooth_distributions = 4;

inline std::vector<Distribution> distributions() {
    using Random = std::mt19937_64;
    const auto uniform = [](Random& random) {
        return std::uniform_real_distribution<float>(std::numeric_limits<float>::min(), 1)(random);
    };
    constexpr float infinity = std::numeric_limits<float>::infinity();
    return {
        {"normal", [](Random& random, std::size_t) { return std::normal_distribution<float>()(random); }},
        {"Laplace",
         [=](Random& random, std::size_t) { return with_sign(random, -std::log(uniform(random))); }},
        {"Student-t3",
         [](Random& random, std::size_t) { return std::student_t_distribution<float>(3)(random); }},
        {"lognormal",
         [](Random& random, std::size_t) {
             return with_sign(random, std::lognormal_distribution<float>()(random));
         }},
        {"Pareto(1.5)", [=](Random& random,
                            std::size_t) { return with_sign(random, std::pow(uniform(random), -1 / 1.5f)); }},
        {"all equal", [](Random&, std::size_t) { return -2.5f; }},
        {"all 0, of both signs", [](Random& random, std::size_t) { return with_sign(random, 0); }},
        {"few that are not 0",
         [](Random& random, std::size_t) {
             return random() % 1000 == 0 ? std::normal_distribution<float>()(random) : 0;
         }},
        {"few different",
         [](Random& random, std::size_t) { return with_sign(random, static_cast<float>(random() % 5)); }},
        {"ascending", [](Random&, std::size_t index) { return static_cast<float>(index); }},
        {"descending", [](Random&, std::size_t index) { return 1e7f - static_cast<float>(index); }},
        {"denormal",
         [](Random& random, std::size_t) {
             return std::bit_cast<float>(static_cast<std::uint32_t>(random() & 0x807fffff));
         }},
        {"with infinities and NaNs",
         [=](Random& random, std::size_t) {
             const auto what = random() % 2000;
             if (what == 0) return with_sign(random, infinity);
             if (what == 1)
                 return std::bit_cast<float>(static_cast<std::uint32_t>(0x7f800001 + random() % 0x7ffffe));
             return std::normal_distribution<float>()(random);
         }},
        {"any bits", [](Random& random,
                        std::size_t) { return std::bit_cast<float>(static_cast<std::uint32_t>(random())); }},
    };
}

inline std::vector<float> numbers_of(const Distribution& distribution, std::size_t count,
                                     std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<float> numbers(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = distribution.draw(random, i);
    return numbers;
}

// The same as words of a type.
template <typename Stored, typename Word>
std::vector<Word> words_of(const std::vector<float>& numbers) {
    std::vector<Word> words;
    words.reserve(numbers.size());
    for (const float number : numbers) words.push_back(std::bit_cast<Word>(static_cast<Stored>(number)));
    return words;
}

}  // namespace hocket::test
