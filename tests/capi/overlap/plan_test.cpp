// hkt_overlap_plan as programs call it.
#include <hocket.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/test.hpp"

using Catch::Contains;
using Ends = std::vector<std::size_t>;

namespace {

// The case study of tests/runtime/overlap/methods_test.cpp.
struct Call {
    double startup = 10;
    std::vector<double> transfer{1, 4, 4, 8, 5, 14, 11, 6, 18, 35, 30, 2};
    std::vector<double> compute{8, 36, 14, 15, 20, 20, 6, 12, 10, 14, 5, 4};
    std::vector<std::uint64_t> bytes;
    hkt_overlap_options options = HKT_OVERLAP_OPTIONS_INIT;
    hkt_overlap_prediction prediction{};
    Ends ends = Ends(12, 77);
    std::size_t batches = 77;

    hkt_status run() {
        return hkt_overlap_plan(startup, transfer.data(), compute.data(),
                                bytes.empty() ? nullptr : bytes.data(), transfer.size(), &options,
                                ends.data(), &batches, &prediction, sizeof prediction);
    }
    Ends planned(std::int32_t method, std::int32_t backward = 0) {
        options.method = method;
        options.backward = backward;
        REQUIRE(run() == HKT_SUCCESS);
        return {ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(batches)};
    }
    std::string refusal() {
        ends.assign(12, 77);
        batches = 77;
        CHECK(run() == HKT_ERROR_INVALID_ARGUMENT);
        CHECK(ends == Ends(12, 77));
        CHECK(batches == 77);
        return hkt_last_error();
    }
};

}  // namespace

TEST_CASE("each method has its number") {
    Call call;
    CHECK(call.planned(HKT_OVERLAP_SEQUENTIAL) == Ends{12});
    CHECK(call.prediction.seconds == 312);
    CHECK(call.prediction.communication == 148);
    CHECK(call.prediction.computation == 164);
    CHECK(call.prediction.overlap == 0);
    CHECK(call.planned(HKT_OVERLAP_LAYERS).size() == 12);
    CHECK(call.prediction.seconds == 262);
    CHECK(call.planned(HKT_OVERLAP_ALGORITHM1) == Ends{5, 10, 12});
    CHECK(call.planned(HKT_OVERLAP_ALGORITHM2) == Ends{1, 6, 12});
    CHECK(call.planned(HKT_OVERLAP_IBATCH) == Ends{5, 10, 12});
    CHECK(call.prediction.seconds == 197);
    CHECK(call.planned(HKT_OVERLAP_OPTIMUM) == Ends{2, 6, 10, 12});
    CHECK(call.prediction.seconds == 187);
    CHECK(call.prediction.overlap == 178 + 164 - 187);
    CHECK(call.planned(HKT_OVERLAP_MG_WFBP, 1) == Ends{2, 6, 10, 12});
    call.bytes.assign(12, 10 << 20);
    CHECK(call.planned(HKT_OVERLAP_BUCKETS, 0) == Ends{3, 6, 9, 12});  // of 25 MiB
    call.options.bucket_bytes = 50 << 20;
    CHECK(call.planned(HKT_OVERLAP_BUCKETS, 1) == Ends{2, 7, 12});
    call.options.limit_bytes = 20 << 20;
    CHECK(call.planned(HKT_OVERLAP_SEQUENTIAL) == Ends{2, 4, 6, 8, 10, 12});
}

TEST_CASE("without options it is the optimum, and nobody needs the prediction") {
    Call call;
    std::size_t ends[12], batches = 0;
    REQUIRE(hkt_overlap_plan(call.startup, call.transfer.data(), call.compute.data(), nullptr, 12, nullptr,
                             ends, &batches, nullptr, 0) == HKT_SUCCESS);
    CHECK(Ends(ends, ends + batches) == Ends{2, 6, 10, 12});
}

TEST_CASE("what is wrong is named, and nothing is written") {
    const auto changed = [](auto change) {
        Call call;
        change(call);
        return call.refusal();
    };
    CHECK(changed([](Call& call) { call.startup = -1; }) ==
          "hkt_overlap_plan: startup is -1; it must be seconds, from 0 to 1e+09");
    CHECK(changed([](Call& call) { call.transfer[3] = std::nan(""); }) ==
          "hkt_overlap_plan: transfer[3] is nan; it must be seconds, from 0 to 1e+09");
    CHECK(changed([](Call& call) { call.compute[11] = std::numeric_limits<double>::infinity(); }) ==
          "hkt_overlap_plan: compute[11] is inf; it must be seconds, from 0 to 1e+09");
    CHECK(changed([](Call& call) { call.bytes.assign(12, std::uint64_t{1} << 60); }) ==
          "hkt_overlap_plan: bytes[0] is 1152921504606846976; it must be up to 281474976710656");
    CHECK(changed([](Call& call) { call.options.method = 8; }) ==
          "hkt_overlap_options.method is 8; it must be an hkt_overlap_method");
    CHECK(changed([](Call& call) { call.options.backward = 2; }) ==
          "hkt_overlap_options.backward is 2; it must be 0 or 1");
    CHECK(changed([](Call& call) { call.options.method = HKT_OVERLAP_MG_WFBP; }) ==
          "mg_wfbp is a rule for the backward direction");
    CHECK_THAT(changed([](Call& call) { call.options.limit_bytes = 1; }), Contains("layer 1 has none"));
    CHECK_THAT(changed([](Call& call) { call.options.size = 3; }), Contains("HKT_OVERLAP_OPTIONS_INIT"));
    CHECK_THAT(changed([](Call& call) {
                   call.transfer.clear();
                   call.compute.clear();
               }),
               Contains("layers is 0; it must be from 1 to 20000"));

    Call call;
    std::size_t batches = 77;
    CHECK(hkt_overlap_plan(0, nullptr, call.compute.data(), nullptr, 12, nullptr, call.ends.data(), &batches,
                           nullptr, 0) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(hkt_last_error()) == "hkt_overlap_plan: transfer is null");
    CHECK(hkt_overlap_plan(0, call.transfer.data(), call.compute.data(), nullptr, 12, nullptr, nullptr,
                           &batches, nullptr, 0) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(hkt_last_error()) == "hkt_overlap_plan: ends is null");
    CHECK(hkt_overlap_plan(0, call.transfer.data(), call.compute.data(), nullptr, 12, nullptr,
                           call.ends.data(), &batches, &call.prediction, 3) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Contains("sizeof(hkt_overlap_prediction)"));
    CHECK(batches == 77);
}
