// The order against a search through all of its positions.
#include "runtime/cache/memory/order.hpp"

#include <memory>
#include <random>
#include <vector>

#include "runtime/base/error.hpp"
#include "tests/support/test.hpp"

using namespace hocket::cache;

TEST_CASE("the order knows the uses of every key around every position") {
    const unsigned seed = GENERATE(1u, 2u, 3u, 4u, 5u);
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> keys(random() % 200);
    for (auto& key : keys) key = random() % 3 == 0 ? UINT64_MAX - random() % 3 : random() % 40;
    const Order order(keys, keys.size() / 2);
    REQUIRE(order.size() == keys.size());
    CHECK(order.first() == keys.size() / 2);
    std::vector<std::uint64_t> asked{0, 39, 40, UINT64_MAX, UINT64_MAX - 3};
    asked.insert(asked.end(), keys.begin(), keys.end());
    for (const std::uint64_t key : asked)
        for (std::uint64_t from = 0; from <= keys.size() + 1; ++from) {
            std::optional<std::uint64_t> before, next;
            for (std::uint64_t position = 0; position < keys.size(); ++position) {
                if (keys[position] != key) continue;
                if (position < from) before = position;
                if (position >= from && !next) next = position;
            }
            REQUIRE(order.uses_around(key, from).before == before);
            REQUIRE(order.uses_around(key, from).next == next);
            REQUIRE(order.next_use(key, from) == next);
        }
    for (std::uint64_t position = 0; position < keys.size(); ++position) {
        REQUIRE(order.key(position) == keys[position]);
        REQUIRE(order.next_after(position) == order.next_use(keys[position], position + 1));
    }
}

TEST_CASE("an order's cursor is one of its positions, or its end") {
    const std::vector<std::uint64_t> keys{7, 8};
    CHECK(Order(keys, 2).first() == 2);
    CHECK(Order({}, 0).size() == 0);
    CHECK_FALSE(Order({}, 0).next_use(7, 0));
    CHECK_THROWS_AS(Order(keys, 3), hocket::Error);
}
