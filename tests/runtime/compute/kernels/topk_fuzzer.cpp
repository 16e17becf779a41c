// Selections from arbitrary bits. Entry of libFuzzer (clang++ -fsanitize=fuzzer,address with
// runtime/compute/kernels/cpu/{topk,select,collect,paper_topk,feedback,parallel}.cpp,
// runtime/base/thread.cpp); the unit tests call it with seeded bytes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/compute/kernels/cpu/topk.hpp"
#include "tests/runtime/compute/kernels/feedback.hpp"
#include "tests/runtime/compute/kernels/selected.hpp"
#include "tests/support/fuzz_input.hpp"

using namespace hocket;
using namespace hocket::test;

namespace {

// Elements out of few different ones, so that many tie; or of any bits.
template <typename Word>
std::vector<Word> take_words(FuzzInput& input, std::size_t count) {
    Word known[4];
    for (Word& word : known)
        word = static_cast<Word>(static_cast<std::uint64_t>(input.below(1 << 24)) << input.below(2) * 8);
    const bool few = input.below(2) == 0;
    std::vector<Word> words(count);
    for (Word& word : words) {
        const std::uint8_t byte = input.byte();
        word = few ? known[byte % 4] : static_cast<Word>(known[byte % 4] ^ byte * Word{0x0201});
    }
    return words;
}

template <typename Word>
void check_exact(DataType type, FuzzInput& input, std::size_t count, std::size_t k) {
    const auto words = take_words<Word>(input, count);
    const kernels::Draw draw{k, count, 5};
    require(kernel_topk(type, words, k, {.draw = draw}) ==
            plain_topk(words, k, draw, infinity_of<Word>(type)));
    const auto by_thresholds = kernel_topk(type, words, k, {.thresholds = 4, .draw = draw});
    require(by_thresholds.indices.size() == std::min(k, count));
}

// Checks that value + residual is the sum, bit for bit, at selected indices, and the residual is the sum
// elsewhere. The selection must equal that of sorting.
void check_feedback(DataType type, DataType sent_as, FuzzInput& input, std::size_t count, std::size_t k) {
    const auto residual = take_words<std::uint32_t>(input, count);
    const std::size_t size = element_size(type);
    std::vector<std::byte> elements(count * size), values(std::min(k, count) * element_size(sent_as));
    for (std::byte& byte : elements) byte = std::byte{input.byte()};
    std::vector<std::uint32_t> sums(count), after = residual, indices(std::min(k, count));
    accumulate_plainly(type, elements.data(), residual, 0.5f, 2, sums);
    const bool skips = input.below(2) == 0;
    const auto selected = kernels::topk_with_feedback(
        type, elements.data(), count, k, {},
        {reinterpret_cast<float*>(after.data()), 0.5f, 2, sent_as, skips}, values.data(), indices.data());
    const auto right = plain_topk(sums, k, {}, infinity_of<std::uint32_t>(DataType::float32));
    if (skips && any_non_finite(sums)) {
        require(selected.count == 0 && selected.non_finite && after == residual);
        return;
    }
    require(selected.count == right.indices.size());
    require(selected.non_finite == any_non_finite(sums));
    const auto is_nan = [&](std::uint32_t i) { return std::isnan(std::bit_cast<float>(sums[i])); };
    if (right.indices.size() < static_cast<std::size_t>(std::count_if(sums.begin(), sums.end(), [](auto sum) {
            return std::isnan(std::bit_cast<float>(sum));
        }))) {
        // The order of NaNs' bits depends on how they were calculated.
        require(std::all_of(indices.begin(), indices.end(), is_nan));
        return;
    }
    require(indices == right.indices);
    require(keeps_all(sent_as, values.data(), right, sums, after));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr DataType types[] = {DataType::float32, DataType::float16, DataType::bfloat16};
    FuzzInput input(data, size);
    const DataType type = types[input.below(3)], sent_as = types[input.below(3)];
    const std::size_t count = input.below(256), k = input.below(256);
    if (input.below(2) == 0)
        check_feedback(type, sent_as, input, count, k);
    else if (type == DataType::float32)
        check_exact<std::uint32_t>(type, input, count, k);
    else
        check_exact<std::uint16_t>(type, input, count, k);
    return 0;
}
