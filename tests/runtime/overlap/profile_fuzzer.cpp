// The reader of profiles on arbitrary text. Entry of libFuzzer (clang++ -fsanitize=fuzzer,address with
// runtime/overlap/*.cpp); the unit tests call it with seeded text.
#include <cstdint>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/overlap/planner.hpp"
#include "tests/support/fuzz_input.hpp"

using namespace hocket::overlap;
using hocket::test::require;

// An accepted profile keeps to the bounds, and every method whose inputs it has can plan it. A refusal gives
// a reason.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const Profile profile = parse_profile({reinterpret_cast<const char*>(data), size});
        require(is_time(profile.before) && is_time(profile.latency));
        require(profile.contention >= 0 && profile.contention <= largest_contention);
        require(parse_profile(json_of(profile)) == profile);
        require(is_time(profile.startup) && !profile.layers.empty() && profile.layers.size() <= most_layers);
        for (const Layer& layer : profile.layers)
            require(is_time(layer.transfer) && is_time(layer.compute) && !layer.name.empty());
        for (const Direction direction : {Direction::forward, Direction::backward})
            for (const Method method : all_methods) {
                const PlanOptions options{.direction = direction, .bucket_bytes = 100};
                if (why_not(profile, method, options)) continue;
                const Plan made = plan(profile, method, options);
                require(made.batches.back() == profile.layers.size() && made.seconds >= 0);
            }
    } catch (const hocket::Error& error) {
        require(error.status() == hocket::Status::invalid_argument && *error.what() != '\0');
    }
    return 0;
}
