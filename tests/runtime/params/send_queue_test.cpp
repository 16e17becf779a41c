#include "runtime/params/worker/send_queue.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "tests/runtime/params/sums.hpp"

namespace {

using namespace hocket::params;
using hocket::test::sum_of;

// "s0.3 w5": a sum of round 0 of chunk 3, a want of chunk 5.
std::string emptied(SendQueue& queue) {
    std::string text;
    for (; !queue.is_empty(); queue.drop_first()) {
        if (const auto* const sum = std::get_if<Sum>(&queue.first()))
            text += "s" + std::to_string(sum->clock) + "." + std::to_string(sum->chunk) + " ";
        else if (const auto* const want = std::get_if<Want>(&queue.first()))
            text += "w" + std::to_string(want->chunk) + " ";
        else
            text += "p ";
    }
    return text;
}

}  // namespace

TEST_CASE("sums of the first chunks go first, and those of earlier rounds before them") {
    SendQueue queue;
    for (const Chunk chunk : {7, 8, 4, 5, 0}) queue.add(sum_of(chunk, 1));
    queue.add(sum_of(9, 0));
    CHECK(emptied(queue) == "s0.9 s1.0 s1.4 s1.5 s1.7 s1.8 ");
    queue.add(sum_of(3));
    queue.add(sum_of(3));
    CHECK(emptied(queue) == "s0.3 s0.3 ");
}

TEST_CASE("a sum overtakes nothing but sums") {
    SendQueue queue;
    queue.add(sum_of(5));
    queue.add(sum_of(4));
    queue.add(Want{{}, 4, 0});
    queue.add(sum_of(3));
    queue.add(sum_of(2));
    queue.add(ParentLost{});
    queue.add(Want{{}, 9, 0});
    queue.add(sum_of(1));
    CHECK(emptied(queue) == "s0.4 s0.5 w4 s0.2 s0.3 p w9 s0.1 ");
    queue.add(sum_of(1));
    queue.clear();
    CHECK(queue.is_empty());
}
