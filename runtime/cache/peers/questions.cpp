#include "runtime/cache/peers/questions.hpp"

namespace hocket::cache {

int owner_of(std::uint64_t key, int peers) {
    // Applies SplitMix64's finalizer (Steele et al. 2014), so that adjacent keys go to different ranks, too.
    key += 0x9e3779b97f4a7c15;
    key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9;
    key = (key ^ key >> 27) * 0x94d049bb133111eb;
    key ^= key >> 31;
    // Takes the hash as a fraction of 2^64, times the number of ranks (Lemire 2019).
    __extension__ using Wide = unsigned __int128;
    return static_cast<int>(Wide{key} * static_cast<unsigned>(peers) >> 64);
}

}  // namespace hocket::cache
