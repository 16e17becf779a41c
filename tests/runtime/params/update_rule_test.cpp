// Updates on weights of every type: compares each round with plain double precision, and checks the
// conditions under which no bit of the result changes.
#include "runtime/params/service/update_rule.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::params;
using Catch::Matchers::Contains;
using Round = UpdateRule::Round;
using Bytes = std::vector<std::byte>;

namespace {

constexpr DataType floating[] = {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16};

UpdateRule rule_of(const std::string& text, DataType type, bool compiled) {
    return UpdateRule::find(text, {HOCKET_SCHEDULES_DIR}, type, compiled);
}

double number_at(const Bytes& bytes, DataType type, std::size_t i) {
    return with_type(type, [&]<DataType t>(TypeConstant<t>) {
        typename ElementOf<t>::Stored value;
        std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
        return static_cast<double>(static_cast<typename ElementOf<t>::Worked>(value));
    });
}

template <typename Number>
Bytes bytes_of(std::size_t count, DataType type, Number number) {
    Bytes bytes(count * element_size(type));
    with_type(type, [&]<DataType t>(TypeConstant<t>) {
        for (std::size_t i = 0; i < count; ++i) {
            const auto value = static_cast<typename ElementOf<t>::Stored>(
                static_cast<typename ElementOf<t>::Worked>(number(i)));
            std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
        }
    });
    return bytes;
}

Bytes normal(std::size_t count, DataType type, std::mt19937& random) {
    std::normal_distribution<double> distribution;
    return bytes_of(count, type, [&](std::size_t) { return distribution(random); });
}

// Weights and states, as a server keeps them.
struct Kept {
    Bytes weights;
    std::vector<Bytes> states;

    Kept(const UpdateRule& rule, Bytes of_weights, std::size_t count)
        : weights(std::move(of_weights)),
          states(rule.states(), Bytes(count * element_size(rule.state_type()))) {}
    friend bool operator==(const Kept&, const Kept&) = default;
};

// Elements first .. first + count - 1.
void apply(const UpdateRule& rule, DataType type, const Kept& before, const Bytes& g, std::size_t first,
           std::size_t count, const std::vector<std::uint64_t>& tensors, Round round, Kept& after) {
    const std::size_t at = first * element_size(type), at_state = first * element_size(rule.state_type());
    std::vector<const std::byte*> read;
    std::vector<std::byte*> written;
    for (const Bytes& state : before.states) read.push_back(state.data() + at_state);
    for (Bytes& state : after.states) written.push_back(state.data() + at_state);
    rule.apply({before.weights.data() + at, read}, g.data() + at, count, tensors, round,
               {after.weights.data() + at, written});
}

// One element after the same update in double precision.
struct Element {
    double w, g;
    std::vector<double> states;
};
struct Norms {  // of the tensor: of g / workers, and of w; the largest magnitude of g
    double g = 0, w = 0, largest_g = 0;
};
struct Reference {
    std::string text;
    std::function<void(Element&, Round, Norms)> update;
};

const std::vector<Reference> references = {
    {"sum", [](Element& e, Round, Norms) { e.w += e.g; }},
    {"average", [](Element& e, Round r, Norms) { e.w += e.g / r.workers; }},
    {"sgd(0.1)", [](Element& e, Round r, Norms) { e.w -= 0.1 * e.g / r.workers; }},
    {"w = w - 0.3 * max(g, 0) / workers",
     [](Element& e, Round r, Norms) { e.w -= 0.3 * std::max(e.g, 0.0) / r.workers; }},
    {"momentum(0.2, 0.8)",
     [](Element& e, Round r, Norms) {
         e.states[0] = 0.8 * e.states[0] + e.g / r.workers;
         e.w -= 0.2 * e.states[0];
     }},
    {"adam(0.05)",
     [](Element& e, Round r, Norms) {
         const double g = e.g / r.workers, round = static_cast<double>(r.round);
         e.states[0] = 0.9 * e.states[0] + 0.1 * g;
         e.states[1] = 0.999 * e.states[1] + 0.001 * g * g;
         const double m = e.states[0] / (1 - std::pow(0.9, round)),
                      v = e.states[1] / (1 - std::pow(0.999, round));
         e.w -= 0.05 * m / (std::sqrt(v) + 1e-8);
     }},
    {"lars(0.5, 0.9, 0.01, 0.2)",
     [](Element& e, Round r, Norms n) {
         const double trust = n.g > 0 && n.w > 0 ? 0.2 * n.w / (n.g + 0.01 * n.w) : 1;
         e.states[0] = 0.9 * e.states[0] + 0.5 * trust * (e.g / r.workers + 0.01 * e.w);
         e.w -= e.states[0];
     }},
    // Sums in another order than they were made in, and with a state between them.
    {"let gg = total(g / workers * (g / workers)) state m like w let ww = total(w * w) "
     "m = 0.001 * (sqrt(sum(ww)) + 2 * sqrt(sum(gg))) w = w - m * sqrt(sum(gg)) / (1 + sqrt(sum(ww)))",
     [](Element& e, Round, Norms n) {
         e.states[0] = 0.001 * (n.w + 2 * n.g);
         e.w -= e.states[0] * n.g / (1 + n.w);
     }},
    {"let m = largest(abs(g)) w = w - 0.1 * g / (1 + max(m))",
     [](Element& e, Round, Norms n) { e.w -= 0.1 * e.g / (1 + n.largest_g); }},
    // A statement sees the results of the statements before it.
    {"state m like w w = w + 2 * g m = w w = w - 0.5 * m",
     [](Element& e, Round, Norms) {
         e.states[0] = e.w + 2 * e.g;
         e.w = 0.5 * e.states[0];
     }},
};

// The tolerance of one rounding to the type, and a few to the type of the calculation.
double tolerance_of(DataType type) {
    switch (type) {
        case DataType::float64:
            return 1e-14;
        case DataType::float16:
            return 0x1p-11;
        case DataType::bfloat16:
            return 0x1p-8;
        default:
            return 4e-6;
    }
}

Norms norms_of(const Bytes& weights, const Bytes& g, DataType type, std::size_t first, std::size_t count,
               Round round) {
    Norms norms;
    for (std::size_t i = first; i < first + count; ++i) {
        norms.g += std::pow(number_at(g, type, i) / round.workers, 2);
        norms.w += std::pow(number_at(weights, type, i), 2);
        norms.largest_g = std::max(norms.largest_g, std::fabs(number_at(g, type, i)));
    }
    return {std::sqrt(norms.g), std::sqrt(norms.w), norms.largest_g};
}

void compare(const Reference& reference, const UpdateRule& rule, DataType type, const Kept& before,
             const Bytes& g, const std::vector<std::uint64_t>& tensors, Round round, const Kept& after) {
    const double of_weights = tolerance_of(type), of_states = tolerance_of(rule.state_type());
    std::size_t first = 0;
    for (const std::uint64_t count : tensors) {
        const Norms norms = norms_of(before.weights, g, type, first, count, round);
        for (std::size_t i = first; i < first + count; ++i) {
            Element e{number_at(before.weights, type, i), number_at(g, type, i), {}};
            for (const Bytes& state : before.states)
                e.states.push_back(number_at(state, rule.state_type(), i));
            reference.update(e, round, norms);
            INFO("round " << round.round << ", element " << i);
            // The weights may be rounded twice, and results from them are then as far off.
            const double seen_first = rule.text().starts_with("state m like w  w =") ? 4 * of_weights : 0;
            REQUIRE(number_at(after.weights, type, i) ==
                    Approx(e.w).epsilon(0).margin((of_weights + seen_first) * (1 + std::fabs(e.w))));
            for (std::size_t s = 0; s < e.states.size(); ++s)
                REQUIRE(number_at(after.states[s], rule.state_type(), i) ==
                        Approx(e.states[s])
                            .epsilon(0)
                            .margin((of_states + seen_first) * (1 + std::fabs(e.states[s]))));
        }
        first += count;
    }
}

// Odd sizes, one of them empty; together they take several blocks.
const std::vector<std::uint64_t> tensors = {1, 7, 0, 4099, 513, 5001};
const std::size_t whole = std::accumulate(tensors.begin(), tensors.end(), std::size_t{0});

}  // namespace

TEST_CASE("updates of the library do what they say, on weights of every floating-point type") {
    std::mt19937 random(17);
    for (const Reference& reference : references)
        for (const DataType type : floating) {
            INFO(reference.text << " of " << name_of(type));
            const UpdateRule rule = rule_of(reference.text, type, true);
            const std::size_t size = element_size(type);
            Kept before(rule, normal(whole, type, random), whole);
            for (std::uint64_t round = 1; round <= 4; ++round) {
                Bytes g = normal(whole, type, random);
                std::fill_n(g.begin(), 8 * size, std::byte{});  // the first two tensors have no gradient
                const Round now{static_cast<std::uint32_t>(1 + round % 3), round};
                Kept after = before;
                apply(rule, type, before, g, 0, whole, tensors, now, after);
                compare(reference, rule, type, before, g, tensors, now, after);
                before = std::move(after);
            }
        }
}

TEST_CASE("an update gives the same bits by generated code and by the loop, in place, and piece by piece") {
    std::mt19937 random(18);
    for (const Reference& reference : references)
        for (const DataType type : floating) {
            INFO(reference.text << " of " << name_of(type));
            const UpdateRule code = rule_of(reference.text, type, true),
                             loop = rule_of(reference.text, type, false);
            Kept kept(code, normal(whole, type, random), whole), in_place = kept, in_pieces = kept;
            for (std::uint64_t round = 1; round <= 3; ++round) {
                const Bytes g = normal(whole, type, random);
                const Round now{3, round};
                Kept after(code, Bytes(kept.weights.size(), std::byte{0xff}), whole);
                apply(code, type, kept, g, 0, whole, tensors, now, after);
                apply(loop, type, in_place, g, 0, whole, tensors, now, in_place);
                // A tensor at a time.
                std::size_t first = 0;
                for (const std::uint64_t count : tensors) {
                    apply(code, type, in_pieces, g, first, count, {count}, now, in_pieces);
                    first += count;
                }
                CHECK(after == in_place);
                CHECK(after == in_pieces);
                kept = std::move(after);
            }
        }
}

TEST_CASE("what rounds have in common is in double precision") {
    // In float32, 1 - 0.999 would have a relative error of 1e-5.
    const UpdateRule rule = rule_of("let left = 1 - 0.999 ** round w = left * g", DataType::float32, true);
    const float w = 1, g = 1;
    float after = 0;
    rule.apply({reinterpret_cast<const std::byte*>(&w), {}}, reinterpret_cast<const std::byte*>(&g), 1, {},
               {1, 1}, {reinterpret_cast<std::byte*>(&after), {}});
    CHECK(after == static_cast<float>(1 - std::pow(0.999, 1)));
    CHECK(after != 1 - 0.999f);
}

TEST_CASE("numbers of every type can be added, whatever the update that does it is called") {
    for (const DataType type : all_types) {
        if (!supports(ReduceOp::sum, type)) continue;
        for (const char* const text : {"sum", "w = g + w"}) {
            INFO(text << " of " << name_of(type));
            const UpdateRule rule = rule_of(text, type, true);
            CHECK(rule.states() == 0);
            CHECK_FALSE(rule.needs_whole_tensors());
            const Bytes w = bytes_of(1001, type, [](std::size_t i) { return i % 60; }),
                        g = bytes_of(1001, type, [](std::size_t i) { return i % 64; });
            Bytes after(w.size());
            rule.apply({w.data(), {}}, g.data(), 1001, {}, {1, 1}, {after.data(), {}});
            CHECK(after == bytes_of(1001, type, [](std::size_t i) { return i % 60 + i % 64; }));
        }
    }
    // Numbers that a double cannot hold, and overflow.
    const std::int64_t w = (std::int64_t{1} << 60) + 1, g = 1;
    std::int64_t after = 0;
    rule_of("sum", DataType::int64, false)
        .apply({reinterpret_cast<const std::byte*>(&w), {}}, reinterpret_cast<const std::byte*>(&g), 1, {},
               {1, 1}, {reinterpret_cast<std::byte*>(&after), {}});
    CHECK(after == (std::int64_t{1} << 60) + 2);
}

TEST_CASE("a rule says what it keeps, and what it is") {
    CHECK(rule_of("adam(0.1)", DataType::float16, false).states() == 2);
    CHECK(rule_of("adam(0.1)", DataType::float16, false).state_type() == DataType::float32);
    CHECK(rule_of("adam(0.1)", DataType::float64, false).state_type() == DataType::float64);
    CHECK(rule_of("lars(0.1)", DataType::float32, false).needs_whole_tensors());
    CHECK_FALSE(rule_of("adam(0.1)", DataType::float32, false).needs_whole_tensors());
    const UpdateRule sgd = rule_of("sgd(0.1)", DataType::float32, false);
    CHECK(sgd.name() == "sgd(0.1)");
    CHECK(sgd.text() == rule_of("w = w - 0.1 * g / workers", DataType::float64, true).text());
    CHECK(sgd.text() != rule_of("sgd(0.2)", DataType::float32, false).text());
}

TEST_CASE("a rule is refused with what is wrong with it") {
    const auto error = [](const std::string& text, DataType type, Status status) {
        try {
            rule_of(text, type, true);
        } catch (const Error& error) {
            CHECK(error.status() == status);
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK_THAT(error("sgd(0.1)", DataType::int32, Status::invalid_argument),
               Contains("the update sgd(0.1) is calculated in floating-point numbers, but the weights are "
                        "int32") &&
                   Contains("integers can be added, with the update sum"));
    CHECK_THAT(error("average", DataType::uint8, Status::invalid_argument), Contains("average"));
    CHECK_THAT(error("w = g + g", DataType::int64, Status::invalid_argument),
               Contains("the update w = g + g is calculated") && Contains("int64"));
    CHECK_THAT(error("sum", DataType::boolean, Status::invalid_argument), Contains("bool"));
    CHECK_THAT(error("w = w - rate * g", DataType::float32, Status::schedule),
               Contains("'rate' is not known here"));
    CHECK_THAT(error("sgd", DataType::float32, Status::schedule), Contains("sgd needs a value for rate"));
    CHECK_THAT(error("nosuch", DataType::float32, Status::not_found),
               Contains("there is no update 'nosuch'; there are: adam, average, lars, momentum, sgd, sum"));
}
