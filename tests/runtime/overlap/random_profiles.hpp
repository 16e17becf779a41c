// Profiles at random: of few layers or many, with heavy tails, and with zeros.
#pragma once

#include <random>

#include "runtime/overlap/profile.hpp"

namespace hocket::test {

// 2 to most_layers layers. Times are real numbers, or (one profile of four) small whole ones, so that many
// plans take the same time; bytes are whole numbers of KiB.
overlap::Profile random_profile(std::mt19937_64& random, std::size_t most_layers);

}  // namespace hocket::test
