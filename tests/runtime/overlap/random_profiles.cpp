#include "tests/runtime/overlap/random_profiles.hpp"

namespace hocket::test {

overlap::Profile random_profile(std::mt19937_64& random, std::size_t most_layers) {
    std::lognormal_distribution<double> scale(0.0, 1.0), tail(0.0, 2.0);
    const bool is_whole = random() % 4 == 0;
    const double transfers = scale(random), computations = scale(random);
    const auto time = [&](double unit, unsigned zeros_in_eight) {
        if (random() % 8 < zeros_in_eight) return 0.0;
        return is_whole ? static_cast<double>(random() % 5) : unit * tail(random);
    };
    overlap::Profile profile;
    profile.startup = time(0.5, 1);
    const std::size_t layers = 2 + random() % (most_layers - 1);
    for (std::size_t i = 0; i < layers; ++i)
        profile.layers.push_back(
            {"", time(transfers, 2), time(computations, 2), std::uint64_t{1024} * (random() % 100)});
    return profile;
}

}  // namespace hocket::test
