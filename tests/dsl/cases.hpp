// The project's schedules, for tests.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "dsl/planning/compile.hpp"
#include "tests/support/long_form.hpp"

namespace hocket::test {

inline dsl::PlanRequest request(dsl::Collective collective, const std::string& schedule,
                                const std::string& topology, dsl::Rank ranks = 0, dsl::Rank root = 0) {
    return {collective, schedule, topology, {HOCKET_SCHEDULES_DIR}, ranks, root};
}

// The text of a file of schedules.
inline std::string library_file(const std::string& name) {
    std::ifstream stream(std::string(HOCKET_SCHEDULES_DIR) + "/" + name);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// The name of a schedule and of topologies that it can run on.
struct Case {
    dsl::Collective collective;
    const char* schedule;
    std::vector<const char*> topologies;
};

inline const std::vector<Case>& cases() {
    using enum dsl::Collective;
    // Usually, fewer sizes of each form; under a sanitizer, which makes all several times as slow, always.
#ifdef __SANITIZE_ADDRESS__
    constexpr bool has_all = false;
#else
    const bool has_all = is_long_form();
#endif
    using Topologies = std::vector<const char*>;
    static const Topologies any =
        has_all ? Topologies{"1", "2", "3", "4", "5", "7", "2x3", "3x2", "2x2x2", "2x1x3"}
                : Topologies{"1", "2", "3", "4", "5", "2x3", "2x2x2"};
    static const Topologies pow2 =
        has_all ? Topologies{"1", "2", "4", "8", "2x4", "16"} : Topologies{"1", "2", "4", "2x4"};
    static const std::vector<Case> all = {
        {all_reduce, "ring", any},
        {all_reduce, "direct", any},
        {all_reduce, "halving", pow2},
        {all_reduce, "flat(ring, direct)", any},
        {all_reduce, "flat(direct, ring)", any},
        {all_reduce, "flat(halving, ring)", pow2},
        {all_reduce, "flat(direct, doubling)", pow2},
        {all_reduce, "exchange", any},
        {all_reduce, "butterfly", pow2},
        {all_reduce, "blueconnect", any},
        {all_reduce, "sharded", {"2x3", "3x2", "2x2x2", "4x4"}},
        {all_reduce, "nested", {"2x3", "3x2", "2x2x2", "4x4"}},
        {all_reduce, "bml", {"1", "3", "bcube(2, 2)", "bcube(3, 2)", "bcube(2, 3)", "2x3", "3x2", "2x2x3"}},
        {all_reduce, "two_level", {"2x3", "3x2"}},
        {all_reduce, "two_level(halving, doubling)", {"3x2", "3x4"}},
        {all_reduce, "rings", {"1", "5", "2x3", "2x2x2", "2x1x3"}},
        {all_reduce, "pipelined_tree(3)", {"1", "2", "5", "7", "2x3", "3x2", "2x2x2", "2x1x3"}},
        {all_reduce, "parameter_server(2)", {"2", "3", "5", "2x3"}},
        {all_reduce, "folded", any},
        {all_reduce, "rabenseifner", any},
        {all_reduce, "swing", any},
        {all_reduce, "flat(bruck, bruck)", any},
        {all_reduce, "buckets", {"1", "3", "2x3", "3x2", "2x2x2"}},
        {all_reduce, "", any},
        {reduce_scatter, "ring", any},
        {reduce_scatter, "direct", any},
        {reduce_scatter, "halving", pow2},
        {reduce_scatter, "bruck", any},
        {reduce_scatter, "pat(2)", any},
        {reduce_scatter, "blueconnect", any},
        {reduce_scatter, "", any},
        {all_gather, "ring", any},
        {all_gather, "direct", any},
        {all_gather, "doubling", pow2},
        {all_gather, "bruck", any},
        {all_gather, "pat(2)", any},
        {all_gather, "blueconnect", any},
        {all_gather, "", any},
        {broadcast, "binomial", any},
        {broadcast, "tree", any},
        {broadcast, "direct", any},
        {broadcast, "chain(4)", any},
        {broadcast, "scatter", any},
        {broadcast, "knomial(3)", any},
        {broadcast, "binary(1)", any},
        {broadcast, "double_tree(2)", any},
        {broadcast, "bine", any},
        {broadcast, "", any},
        {gather, "binomial", any},
        {gather, "direct", any},
        {gather, "knomial(radix = 3)", any},
        {gather, "default", any},
        {gather, "", any},
        {reduce, "binomial", any},
        {reduce, "tree", any},
        {reduce, "direct", any},
        {reduce, "rabenseifner", any},
        {reduce, "knomial(3)", any},
        {reduce, "chain(4)", any},
        {reduce, "double_tree(2)", any},
        {reduce, "bine", any},
        {reduce, "", any},
        {scatter, "binomial", any},
        {scatter, "direct", any},
        {scatter, "knomial(4)", any},
        {scatter, "default", any},
        {scatter, "", any},
        {all_to_all, "direct", any},
        {all_to_all, "pairwise", any},
        {all_to_all, "bruck", any},
        {all_to_all, "default", any},
        {all_to_all, "", any},
    };
    return all;
}

}  // namespace hocket::test
