// Kernels by themselves, as an embedder calls them: their guarantees at the edges, and their refusals.
#include <hocket.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/capi/refused.hpp"
#include "tests/support/test.hpp"

using hocket::test::refused;

namespace {

struct Selection {
    hkt_status status;
    std::vector<float> values;
    std::vector<std::uint32_t> indices;
    std::size_t count = 99;
    std::int32_t non_finite = 99;
};

Selection select(const std::vector<float>& x, std::size_t k, const hkt_topk_options* options = nullptr) {
    Selection found{{}, std::vector<float>(k, -77), std::vector<std::uint32_t>(k, 77)};
    found.status = hkt_topk(x.data(), x.size(), HKT_FLOAT32, k, options, found.values.data(),
                            found.indices.data(), &found.count, &found.non_finite);
    return found;
}

}  // namespace

TEST_CASE("hkt_topk selects the largest magnitudes, in ascending order of their indices") {
    const std::vector<float> x = {1, -5, 2, 4, -3, 0};
    const auto found = select(x, 3);
    REQUIRE(found.status == HKT_SUCCESS);
    CHECK(found.count == 3);
    CHECK(found.non_finite == 0);
    CHECK(found.values == std::vector<float>{-5, 4, -3});
    CHECK(found.indices == std::vector<std::uint32_t>{1, 3, 4});
    // More than there are: all of them. The rest of the room is left alone.
    const auto all = select(x, 8);
    CHECK(all.count == 6);
    CHECK(std::equal(x.begin(), x.end(), all.values.begin()));
    CHECK(all.values[6] == -77);
    CHECK(all.indices[7] == 77);
    const auto none = select(x, 0);
    CHECK(none.status == HKT_SUCCESS);
    CHECK(none.count == 0);
    CHECK(select({}, 3).count == 0);
    std::size_t selected = 99;
    CHECK(hkt_topk(nullptr, 0, HKT_BFLOAT16, 5, nullptr, nullptr, nullptr, &selected, nullptr) ==
          HKT_SUCCESS);
    CHECK(selected == 0);
}

TEST_CASE("hkt_topk takes NaNs first, then infinities, and says so") {
    const float nan = std::numeric_limits<float>::quiet_NaN(),
                infinity = std::numeric_limits<float>::infinity();
    const auto found = select({1e30f, -infinity, 3, nan, 2e30f}, 3);
    CHECK(found.indices == std::vector<std::uint32_t>{1, 3, 4});
    CHECK(found.non_finite == 1);
    CHECK(std::isnan(found.values[1]));
}

TEST_CASE("hkt_topk keeps what it does not send") {
    std::vector<float> residual = {0.5f, 0, -2, 0};
    hkt_topk_options options = HKT_TOPK_OPTIONS_INIT;
    options.residual = residual.data();
    options.decay = 0.5f;
    options.scale = 2;
    const auto found = select({1, 2, 3, -4}, 2, &options);  // 2.25, 4, 5, -8
    CHECK(found.values == std::vector<float>{5, -8});
    CHECK(found.indices == std::vector<std::uint32_t>{2, 3});
    CHECK(residual == std::vector<float>{2.25f, 4, 0, 0});
    const auto skipped = select({1, std::numeric_limits<float>::infinity(), 0, 0}, 2, &options);
    CHECK(skipped.status == HKT_SUCCESS);
    CHECK(skipped.count == 0);
    CHECK(skipped.non_finite == 1);
    CHECK(residual == std::vector<float>{2.25f, 4, 0, 0});
    // Non-finite elements that do not fit into k are dropped, so that they do not stop all later steps.
    options.select_non_finite = 1;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto one = select({nan, nan, -std::numeric_limits<float>::infinity(), 0}, 1, &options);
    CHECK(one.count == 1);
    CHECK(one.non_finite == 1);
    CHECK(residual == std::vector<float>{0, 0, 0, 0});
    const auto none = select({nan, 0, 0, 0}, 0, &options);
    CHECK(none.count == 0);
    CHECK(none.non_finite == 1);
    CHECK(residual == std::vector<float>{0, 0, 0, 0});
    const auto sent = select({1, std::numeric_limits<float>::infinity(), 0, 0}, 2, &options);
    CHECK(sent.count == 2);
    CHECK(sent.non_finite == 1);
    CHECK(residual == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("threads of the kernels are the caller's, else the environment's, and change nothing") {
    std::vector<float> x(300'000);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 100'003) - 50'000;
    const auto alone = select(x, 1000);
    hkt_topk_options options = HKT_TOPK_OPTIONS_INIT;
    options.threads = 3;
    CHECK(select(x, 1000, &options).indices == alone.indices);
    setenv("HOCKET_KERNEL_THREADS", "2", 1);
    CHECK(select(x, 1000).indices == alone.indices);
    setenv("HOCKET_KERNEL_THREADS", "many", 1);
    refused(select(x, 1000).status, "HOCKET_KERNEL_THREADS is \"many\"");
    unsetenv("HOCKET_KERNEL_THREADS");
    options.threads = 1000;
    refused(select(x, 1000, &options).status, "hkt_topk: threads is 1000");
}

TEST_CASE("a density is a number of elements") {
    const auto count = [](std::size_t elements, double density) {
        std::size_t k = 99;
        REQUIRE(hkt_topk_count(elements, density, &k) == HKT_SUCCESS);
        return k;
    };
    CHECK(count(25'600'000, 0.01) == 256'000);
    CHECK(count(1000, 0.0019) == 1);
    CHECK(count(1000, 1e-9) == 1);
    CHECK(count(1000, 0) == 0);
    CHECK(count(0, 1) == 0);
    CHECK(count(1000, 1) == 1000);
    std::size_t k = 0;
    refused(hkt_topk_count(10, 1.5, &k), "the density is 1.5; it must be from 0 to 1");
    refused(hkt_topk_count(10, std::nan(""), &k), "the density is nan");
    refused(hkt_topk_count(10, 1, nullptr), "k is null");
}

TEST_CASE("hkt_topk refuses what it cannot do, before it writes anything") {
    alignas(16) float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, values[8] = {}, residual[8] = {};
    std::uint32_t indices[8] = {};
    std::size_t selected = 99;
    const auto topk = [&](const void* from, std::size_t count, hkt_type type, void* to, std::uint32_t* at,
                          const hkt_topk_options* options = nullptr) {
        return hkt_topk(from, count, type, 4, options, to, at, &selected, nullptr);
    };
    refused(topk(nullptr, 8, HKT_FLOAT32, values, indices),
            "hkt_topk: x is null, but has to have 8 elements");
    refused(topk(x, 8, HKT_FLOAT32, nullptr, indices), "values is null, but has to have 4 elements");
    refused(topk(x, 8, HKT_FLOAT32, values, nullptr), "indices is null");
    refused(topk(reinterpret_cast<char*>(x) + 2, 7, HKT_FLOAT32, values, indices), "is not a multiple of 4");
    refused(topk(x, 8, HKT_INT32, values, indices),
            "hkt_topk: type is int32; it must be one of float32, float16, bfloat16");
    refused(topk(x, 8, HKT_FLOAT64, values, indices), "type is float64");
    refused(topk(x, 8, static_cast<hkt_type>(77), values, indices), "type is 77");
    refused(topk(x, 8, HKT_FLOAT32, x + 4, indices), "hkt_topk: values (16 B from");
    refused(topk(x, 8, HKT_FLOAT32, values, reinterpret_cast<std::uint32_t*>(values + 3)), "overlap");
    refused(topk(x, (std::size_t{1} << 32) + 1, HKT_FLOAT32, values, indices), "2^32");
    refused(topk(x, SIZE_MAX / 2, HKT_FLOAT32, values, indices), "2^32");
    refused(hkt_topk(x, 8, HKT_FLOAT32, 4, nullptr, values, indices, nullptr, nullptr), "selected is null");
    hkt_topk_options options = HKT_TOPK_OPTIONS_INIT;
    options.residual = residual;
    options.value_type = HKT_INT8;
    refused(topk(x, 8, HKT_FLOAT32, values, indices, &options), "value_type is int8");
    options.residual = nullptr;
    options.value_type = HKT_BFLOAT16;
    refused(topk(x, 8, HKT_FLOAT32, values, indices, &options),
            "value_type is bfloat16, but without a residual the values must have the type of x, float32");
    options.residual = residual;
    options.value_type = HKT_FLOAT32;
    options.scale = 0;
    refused(topk(x, 8, HKT_FLOAT32, values, indices, &options), "scale is 0; it must be finite, and not 0");
    options.scale = 1;
    options.decay = std::numeric_limits<float>::infinity();
    refused(topk(x, 8, HKT_FLOAT32, values, indices, &options), "decay is inf");
    options.decay = 1;
    options.residual = x;
    refused(topk(x, 8, HKT_FLOAT32, values, indices, &options), "the residual (32 B from");
    options = HKT_TOPK_OPTIONS_INIT;
    options.thresholds = -1;
    refused(topk(x, 8, HKT_FLOAT32, values, indices, &options), "hkt_topk: thresholds is -1");
    options.size = 8;
    refused(topk(x, 8, HKT_FLOAT32, values, indices, &options), "start from HKT_TOPK_OPTIONS_INIT");
    CHECK(selected == 99);
    CHECK(std::all_of(values, values + 8, [](float value) { return value == 0; }));
    CHECK(std::all_of(indices, indices + 8, [](std::uint32_t index) { return index == 0; }));
}

TEST_CASE("hkt_scatter_add adds values in order, and nothing if an index is out of range") {
    float dense[4] = {1, 2, 3, 4};
    const float values[3] = {10, 20, 30};
    const std::uint32_t indices[3] = {2, 0, 2}, wrong[3] = {0, 4, 1};
    REQUIRE(hkt_scatter_add(dense, 4, HKT_FLOAT32, values, HKT_FLOAT32, indices, 3, 2) == HKT_SUCCESS);
    CHECK(std::vector<float>(dense, dense + 4) == std::vector<float>{21, 2, 43, 4});
    refused(hkt_scatter_add(dense, 4, HKT_FLOAT32, values, HKT_FLOAT32, wrong, 3, 0),
            "hkt_scatter_add: indices[1] is 4; dense has 4 elements");
    CHECK(dense[0] == 21);
    refused(hkt_scatter_add(dense, 4, HKT_BOOL, values, HKT_FLOAT32, indices, 3, 0), "type is bool");
    refused(hkt_scatter_add(dense, 4, HKT_FLOAT32, values, HKT_INT32, indices, 3, 0),
            "value_type is int32; it must be one of float32, float64, float16, bfloat16");
    refused(hkt_scatter_add(dense, 4, HKT_FLOAT32, dense + 1, HKT_FLOAT32, indices, 3, 0), "overlap");
    refused(hkt_scatter_add(nullptr, 4, HKT_FLOAT32, values, HKT_FLOAT32, indices, 3, 0), "dense is null");
    refused(hkt_scatter_add(dense, 4, HKT_FLOAT32, values, HKT_FLOAT32, nullptr, 3, 0), "indices is null");
    CHECK(hkt_scatter_add(nullptr, 0, HKT_FLOAT32, nullptr, HKT_FLOAT32, nullptr, 0, 0) == HKT_SUCCESS);
}

TEST_CASE("hkt_norms gives each tensor's norm") {
    const float a[2] = {3, 4}, c[1] = {-2};
    const void* const tensors[3] = {a, nullptr, c};
    const std::size_t counts[3] = {2, 0, 1};
    float norms[3] = {9, 9, 9};
    REQUIRE(hkt_norms(tensors, counts, 3, HKT_FLOAT32, norms, 2) == HKT_SUCCESS);
    CHECK(std::vector<float>(norms, norms + 3) == std::vector<float>{5, 0, 2});
    CHECK(hkt_norms(nullptr, nullptr, 0, HKT_FLOAT32, nullptr, 0) == HKT_SUCCESS);
    const void* const bad[2] = {a, reinterpret_cast<const char*>(c) + 1};
    const std::size_t one[2] = {2, 1};
    refused(hkt_norms(bad, one, 2, HKT_FLOAT32, norms, 0), "hkt_norms: tensors[1] is");
    const void* const null[2] = {a, nullptr};
    refused(hkt_norms(null, one, 2, HKT_FLOAT32, norms, 0),
            "hkt_norms: tensors[1] is null, but has to have 1 element");
    const void* const own[1] = {norms};
    refused(hkt_norms(own, one, 1, HKT_FLOAT32, norms, 0), "norms (4 B from");
    refused(hkt_norms(tensors, counts, 3, HKT_INT8, norms, 0), "type is int8");
    refused(hkt_norms(nullptr, counts, 3, HKT_FLOAT32, norms, 0), "tensors is null");
}
