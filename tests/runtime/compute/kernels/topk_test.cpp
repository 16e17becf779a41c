// Selections against sorting everything.
#include "runtime/compute/kernels/cpu/topk.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "runtime/base/half.hpp"
#include "runtime/compute/kernels/cpu/select.hpp"
#include "tests/runtime/compute/kernels/distributions.hpp"
#include "tests/runtime/compute/kernels/selected.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// Runs the check for each type that can be selected from.
template <typename Check>
void with_each_type(Check check) {
    check(DataType::float32,
          [](const std::vector<float>& from) { return words_of<float, std::uint32_t>(from); });
    check(DataType::float16,
          [](const std::vector<float>& from) { return words_of<Float16, std::uint16_t>(from); });
    check(DataType::bfloat16,
          [](const std::vector<float>& from) { return words_of<BFloat16, std::uint16_t>(from); });
}

void compare(DataType type, const auto& words, std::size_t k, const kernels::TopkOptions& options) {
    using Word = typename std::decay_t<decltype(words)>::value_type;
    INFO(name_of(type) << ", k " << k << " of " << words.size() << ", threads " << options.threads);
    REQUIRE((kernel_topk(type, words, k, options) ==
             plain_topk(words, k, options.draw, infinity_of<Word>(type))));
}

std::vector<std::size_t> interesting(std::size_t count) {
    const std::set<std::size_t> sorted = {0,
                                          1,
                                          2,
                                          count / 1000,
                                          count / 100,
                                          count / 2,
                                          count - count / 50,
                                          count == 0 ? 0 : count - 1,
                                          count,
                                          count + 1,
                                          2 * count};
    return {sorted.begin(), sorted.end()};
}

}  // namespace

TEST_CASE("a selection has the largest elements, whatever the numbers, their number and k") {
    for (const Distribution& distribution : distributions())
        for (const std::size_t count : {0, 1, 7, 31, 64, 1000, 30000}) {
            INFO(distribution.name);
            const auto numbers = numbers_of(distribution, count, 7 * count + 1);
            with_each_type([&](DataType type, auto convert) {
                for (const std::size_t k : interesting(count))
                    compare(type, convert(numbers), k, {.draw = {1, k, 2}});
            });
        }
}

TEST_CASE("a selection from many elements is the same with any number of threads") {
    int number = 0;
    for (const Distribution& distribution : distributions()) {
        INFO(distribution.name);
        const auto numbers = numbers_of(distribution, test::in_long_form(700'001, 350'001), 3);
        with_each_type([&](DataType type, auto convert) {
            const auto words = convert(numbers);
            using Word = typename decltype(words)::value_type;
            for (const std::size_t k : {1, 700, 7'000, 100'000}) {
                if (number++ % test::in_long_form(1, 5) != 0) continue;
                const auto right = plain_topk(words, k, {3, k, 0}, infinity_of<Word>(type));
                for (const unsigned threads : {1, 2, 5}) {
                    INFO(name_of(type) << ", k " << k << ", threads " << threads);
                    REQUIRE((kernel_topk(type, words, k, {.draw = {3, k, 0}, .threads = threads}) == right));
                }
            }
        });
    }
}

TEST_CASE("a sample that misleads changes nothing but the time") {
    constexpr std::size_t line = 16;
    const auto count = GENERATE(std::size_t{600'000}, 20'000), k = count / 100;
    INFO(count << " elements");
    std::vector<bool> sampled(count);
    for (std::size_t s = 0; s < std::min(512 * (count / k), count / 8) / line; ++s) {
        const std::size_t first = kernels::sampled_line(s, count / line) * line;
        std::fill_n(sampled.begin() + static_cast<std::ptrdiff_t>(first), line, true);
    }
    for (const bool larger : {true, false}) {
        INFO("what is sampled is " << (larger ? "larger" : "smaller") << " than the rest");
        std::mt19937_64 random(5);
        std::vector<float> numbers(count);
        for (std::size_t i = 0; i < count; ++i)
            numbers[i] = std::normal_distribution<float>()(random) * (sampled[i] == larger ? 1000.f : 1.f);
        for (const unsigned threads : {1, 3})
            compare(DataType::float32, words_of<float, std::uint32_t>(numbers), k, {.threads = threads});
    }
}

TEST_CASE("which of the elements that tie are selected is drawn, and nothing else is") {
    const std::vector<std::uint32_t> words(1000, 0x40000000);
    std::set<std::uint32_t> firsts;
    for (std::uint64_t step = 0; step < 200; ++step) {
        const auto sparse = kernel_topk(DataType::float32, words, 10, {.draw = {9, step, 1}});
        REQUIRE(sparse.indices.size() == 10);
        REQUIRE(sparse.indices.back() - sparse.indices.front() == 9);
        firsts.insert(sparse.indices.front());
    }
    CHECK(firsts.size() > 150);  // of 991 places
    CHECK(*firsts.begin() < 50);
    CHECK(*firsts.rbegin() > 940);
    // One number of the draw is as good as another.
    const auto first = [&](kernels::Draw draw) {
        return kernel_topk(DataType::float32, words, 10, {.draw = draw}).indices.front();
    };
    CHECK(first({1, 2, 3}) == first({1, 2, 3}));
    CHECK(first({1, 2, 3}) != first({2, 2, 3}));
    CHECK(first({1, 2, 3}) != first({1, 3, 3}));
    CHECK(first({1, 2, 3}) != first({1, 2, 4}));
    // These numbers are published: other implementations must draw the same.
    CHECK(kernels::first_of_ties({0, 0, 0}, 1'000'000, 1) == 138'709);
    CHECK(kernels::first_of_ties({1, 2, 3}, 1'000'000, 1) == 417'558);
}

TEST_CASE("every way to collect gives what the plain one does") {
    using kernels::CollectWay;
    for (const CollectWay way : {CollectWay::avx2, CollectWay::avx512}) {
        if (!kernels::has(way)) {
            WARN("this processor has not all ways to collect");
            continue;
        }
        std::mt19937_64 random(11);
        const auto compare_words = [&]<typename Word>(Word) {
            for (std::size_t count = 0; count < 300; ++count) {
                std::vector<Word> words(count);
                for (Word& word : words) word = static_cast<Word>(random());
                const auto below = [](Word a, Word b) {
                    return kernels::magnitude(a) < kernels::magnitude(b);
                };
                auto floor = static_cast<Word>(kernels::magnitude(static_cast<Word>(random())) >>
                                               random() % (8 * sizeof(Word)));
                // Nothing but the largest reaches the floor, and that just so.
                if (count > 0 && random() % 2 == 0)
                    floor = kernels::magnitude(*std::max_element(words.begin(), words.end(), below));
                const auto collected = [&](CollectWay by) {
                    Sparse<Word> sparse{std::vector<Word>(count + kernels::collect_slack),
                                        std::vector<std::uint32_t>(count + kernels::collect_slack)};
                    kernels::Collection<Word> to{sparse.indices.data(), sparse.words.data(), 0};
                    kernels::collect(by, words.data(), count, 1000, floor, to);
                    sparse.words.resize(to.count);
                    sparse.indices.resize(to.count);
                    return sparse;
                };
                REQUIRE((collected(way) == collected(CollectWay::portable)));
            }
        };
        compare_words(std::uint32_t{});
        compare_words(std::uint16_t{});
    }
}

TEST_CASE("30 thresholds of the paper find nearly all of the largest elements") {
    const auto all = distributions();
    for (std::size_t d = 0; d < smooth_distributions; ++d)
        for (const std::size_t k : {200, 2'000}) {
            const auto words = words_of<float, std::uint32_t>(numbers_of(all[d], 200'000, d));
            const auto found = kernel_topk(DataType::float32, words, k, {.thresholds = 30, .threads = 2});
            const auto right = plain_topk(words, k, {}, infinity_of<std::uint32_t>(DataType::float32));
            std::vector<std::uint32_t> both;
            std::set_intersection(found.indices.begin(), found.indices.end(), right.indices.begin(),
                                  right.indices.end(), std::back_inserter(both));
            INFO(all[d].name << ", k " << k);
            REQUIRE(found.indices.size() == k);
            CHECK(static_cast<double>(both.size()) >= 0.9999 * static_cast<double>(k));
        }
}

// The edges that the paper leaves open: exactly k, ascending, no index twice.
TEST_CASE("the paper's thresholds select k elements, whatever the numbers") {
    for (const Distribution& distribution : distributions())
        for (const std::size_t count : {1, 7, 1000, 5000}) {
            const auto numbers = numbers_of(distribution, count, count);
            with_each_type([&](DataType type, auto convert) {
                const auto words = convert(numbers);
                for (const std::size_t k : interesting(count))
                    for (const std::uint32_t rounds : {1u, 3u, 30u}) {
                        INFO(distribution.name << ", " << name_of(type) << ", " << rounds << " rounds, k "
                                               << k);
                        const auto sparse =
                            kernel_topk(type, words, k, {.thresholds = rounds, .draw = {k, count, rounds}});
                        REQUIRE(sparse.indices.size() == std::min(k, count));
                        bool right = true;
                        for (std::size_t i = 0; i < sparse.indices.size(); ++i)
                            right = right && (i == 0 || sparse.indices[i - 1] < sparse.indices[i]) &&
                                    sparse.words[i] == words[sparse.indices[i]];
                        REQUIRE(right);
                        // Nothing that is not finite is left out for something that is.
                        using Word = typename decltype(words)::value_type;
                        const auto is_finite = [&](Word word) {
                            return kernels::magnitude(word) < infinity_of<Word>(type);
                        };
                        const auto others = count - static_cast<std::size_t>(
                                                        std::count_if(words.begin(), words.end(), is_finite));
                        const auto selected =
                            sparse.words.size() - static_cast<std::size_t>(std::count_if(
                                                      sparse.words.begin(), sparse.words.end(), is_finite));
                        REQUIRE(selected == std::min(others, sparse.words.size()));
                    }
            });
        }
}

TEST_CASE("random arrays are selected from as by sorting") {
    const char* const more = std::getenv("HOCKET_TOPK_ARRAYS");  // as many, for a longer run
    const int rounds = more ? std::stoi(more) : 20'000;
    std::mt19937_64 random(1);
    std::vector<std::uint8_t> input;
    for (int round = 0; round < rounds; ++round) {
        input.resize(random() % 300);
        for (auto& byte : input) byte = static_cast<std::uint8_t>(random());
        LLVMFuzzerTestOneInput(input.data(), input.size());
    }
}
