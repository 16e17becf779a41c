#include "runtime/compute/kernels/cpu/collect.hpp"

#include <algorithm>
#include <bit>

#include "runtime/compute/kernels/selection.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hocket::kernels {
namespace {

// Few elements are large enough, so each block is first tested as a whole.
template <typename Word>
void collect_portable(const Word* words, std::size_t count, std::uint32_t first, Word floor,
                      Collection<Word>& to) {
    constexpr std::size_t block = 64;
    const auto append = [&](std::size_t i) {
        to.indices[to.count] = first + static_cast<std::uint32_t>(i);
        to.words[to.count] = words[i];
        to.count += magnitude(words[i]) >= floor;
    };
    std::size_t i = 0;
    for (; i + block <= count; i += block) {
        Word any = 0;
        for (std::size_t j = 0; j < block; ++j) any |= magnitude(words[i + j]) >= floor;
        if (any == 0) continue;
        for (std::size_t j = 0; j < block; ++j) append(i + j);
    }
    for (; i < count; ++i) append(i);
}

#if defined(__x86_64__)

template <typename Word>
void append_hits(std::uint32_t hits, const Word* words, std::uint32_t first, Collection<Word>& to) {
    for (; hits != 0; hits &= hits - 1) {
        const int i = std::countr_zero(hits);
        to.indices[to.count] = first + static_cast<std::uint32_t>(i);
        to.words[to.count++] = words[i];
    }
}

// Magnitudes have no sign bit, so the signed comparison is correct for them.
__attribute__((target("avx2"))) void collect_avx2(const std::uint32_t* words, std::size_t count,
                                                  std::uint32_t first, std::uint32_t floor,
                                                  Collection<std::uint32_t>& to) {
    if (floor == 0) return collect_portable(words, count, first, floor, to);  // floor - 1 would wrap around
    const __m256i sizes = _mm256_set1_epi32(0x7fffffff);
    const __m256i below = _mm256_set1_epi32(static_cast<int>(floor - 1));
    std::size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i over[4];
        for (int v = 0; v < 4; ++v) {
            const auto* from = reinterpret_cast<const __m256i*>(words + i + 8 * v);
            over[v] = _mm256_cmpgt_epi32(_mm256_and_si256(_mm256_loadu_si256(from), sizes), below);
        }
        const __m256i any =
            _mm256_or_si256(_mm256_or_si256(over[0], over[1]), _mm256_or_si256(over[2], over[3]));
        if (_mm256_testz_si256(any, any)) continue;
        std::uint32_t hits = 0;
        for (int v = 0; v < 4; ++v)
            hits |= static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(over[v]))) << 8 * v;
        append_hits(hits, words + i, first + static_cast<std::uint32_t>(i), to);
    }
    collect_portable(words + i, count - i, first + static_cast<std::uint32_t>(i), floor, to);
}

__attribute__((target("avx2"))) void collect_avx2(const std::uint16_t* words, std::size_t count,
                                                  std::uint32_t first, std::uint16_t floor,
                                                  Collection<std::uint16_t>& to) {
    if (floor == 0) return collect_portable(words, count, first, floor, to);
    const __m256i sizes = _mm256_set1_epi16(0x7fff);
    const __m256i below = _mm256_set1_epi16(static_cast<short>(floor - 1));
    std::size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const auto* from = reinterpret_cast<const __m256i*>(words + i);
        const __m256i low = _mm256_cmpgt_epi16(_mm256_and_si256(_mm256_loadu_si256(from), sizes), below);
        const __m256i high = _mm256_cmpgt_epi16(_mm256_and_si256(_mm256_loadu_si256(from + 1), sizes), below);
        // Packing keeps the order within each half of 8; the permutation then orders the halves.
        const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8);
        const auto hits = static_cast<std::uint32_t>(_mm256_movemask_epi8(both));
        append_hits(hits, words + i, first + static_cast<std::uint32_t>(i), to);
    }
    collect_portable(words + i, count - i, first + static_cast<std::uint32_t>(i), floor, to);
}

#define HOCKET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,popcnt")))

// GCC 12 warns that the conversions without a mask use an uninitialized value.
constexpr __mmask16 all = 0xffff;

// Compresses the numbers in a register, because compressing to memory takes some processors more than a
// hundred cycles.
HOCKET_AVX512 inline void append_pressed(__m512i numbers, __mmask16 hits, __m512i indices,
                                         Collection<std::uint32_t>& to) {
    _mm512_storeu_si512(to.words + to.count, _mm512_maskz_compress_epi32(hits, numbers));
    _mm512_storeu_si512(to.indices + to.count, _mm512_maskz_compress_epi32(hits, indices));
    to.count += static_cast<std::size_t>(_mm_popcnt_u32(hits));
}

HOCKET_AVX512 inline void append_pressed(__m512i numbers, __mmask16 hits, __m512i indices,
                                         Collection<std::uint16_t>& to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.words + to.count),
                        _mm512_maskz_cvtepi32_epi16(all, _mm512_maskz_compress_epi32(hits, numbers)));
    _mm512_storeu_si512(to.indices + to.count, _mm512_maskz_compress_epi32(hits, indices));
    to.count += static_cast<std::size_t>(_mm_popcnt_u32(hits));
}

HOCKET_AVX512 inline __m512i indices_from(std::size_t index) {
    const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(index)), steps);
}

// A vector that has hits, and the mask of them.
template <typename Hits>
struct Block {
    std::uint16_t first;
    Hits hits;
};
constexpr std::size_t stretch = 2048;

// Lists all vectors with a hit first, and then takes them apart. Neither loop has a branch that the processor
// would often mispredict, as it would if one element in a hundred is a hit.
HOCKET_AVX512 void collect_avx512(const std::uint32_t* words, std::size_t count, std::uint32_t first,
                                  std::uint32_t floor, Collection<std::uint32_t>& to) {
    const __m512i sizes = _mm512_set1_epi32(0x7fffffff), least = _mm512_set1_epi32(static_cast<int>(floor));
    Block<__mmask16> blocks[stretch / 16 + 1];
    for (; count >= 16;) {
        const std::size_t length = std::min(count, stretch) / 16 * 16;
        std::size_t found = 0;
        for (std::size_t i = 0; i < length; i += 16) {
            const __m512i numbers = _mm512_loadu_si512(words + i);
            const __mmask16 hits = _mm512_cmpge_epu32_mask(_mm512_and_si512(numbers, sizes), least);
            blocks[found] = {static_cast<std::uint16_t>(i), hits};
            found += hits != 0;
        }
        for (std::size_t b = 0; b < found; ++b)
            append_pressed(_mm512_loadu_si512(words + blocks[b].first), blocks[b].hits,
                           indices_from(first + blocks[b].first), to);
        words += length, first += static_cast<std::uint32_t>(length), count -= length;
    }
    collect_portable(words, count, first, floor, to);
}

HOCKET_AVX512 void collect_avx512(const std::uint16_t* words, std::size_t count, std::uint32_t first,
                                  std::uint16_t floor, Collection<std::uint16_t>& to) {
    const __m512i sizes = _mm512_set1_epi16(0x7fff), least = _mm512_set1_epi16(static_cast<short>(floor));
    Block<__mmask32> blocks[stretch / 32 + 1];
    for (; count >= 32;) {
        const std::size_t length = std::min(count, stretch) / 32 * 32;
        std::size_t found = 0;
        for (std::size_t i = 0; i < length; i += 32) {
            const __m512i numbers = _mm512_loadu_si512(words + i);
            const __mmask32 hits = _mm512_cmpge_epu16_mask(_mm512_and_si512(numbers, sizes), least);
            blocks[found] = {static_cast<std::uint16_t>(i), hits};
            found += hits != 0;
        }
        for (std::size_t b = 0; b < found; ++b)
            for (const unsigned half : {0u, 16u}) {
                const std::size_t at = blocks[b].first + half;
                const __m256i numbers = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + at));
                append_pressed(_mm512_maskz_cvtepu16_epi32(all, numbers),
                               static_cast<__mmask16>(blocks[b].hits >> half), indices_from(first + at), to);
            }
        words += length, first += static_cast<std::uint32_t>(length), count -= length;
    }
    collect_portable(words, count, first, floor, to);
}

#undef HOCKET_AVX512
#endif

}  // namespace

bool has(CollectWay way) {
#if defined(__x86_64__)
    if (way == CollectWay::avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl");
    if (way == CollectWay::avx2) return __builtin_cpu_supports("avx2");
#endif
    return way == CollectWay::portable;
}

CollectWay best_collect_way() {
    static const CollectWay best = has(CollectWay::avx512) ? CollectWay::avx512
                                   : has(CollectWay::avx2) ? CollectWay::avx2
                                                           : CollectWay::portable;
    return best;
}

template <typename Word>
void collect(CollectWay way, const Word* words, std::size_t count, std::uint32_t first, Word floor,
             Collection<Word>& to) {
#if defined(__x86_64__)
    if (way == CollectWay::avx512) return collect_avx512(words, count, first, floor, to);
    if (way == CollectWay::avx2) return collect_avx2(words, count, first, floor, to);
#endif
    collect_portable(words, count, first, floor, to);
}

template void collect(CollectWay, const std::uint16_t*, std::size_t, std::uint32_t, std::uint16_t,
                      Collection<std::uint16_t>&);
template void collect(CollectWay, const std::uint32_t*, std::size_t, std::uint32_t, std::uint32_t,
                      Collection<std::uint32_t>&);

}  // namespace hocket::kernels
