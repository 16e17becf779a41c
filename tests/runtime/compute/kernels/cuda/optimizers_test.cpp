// The device's steps of LARS and LAMB against the processor's, bit for bit.
#include "tests/runtime/compute/kernels/cuda/check.hpp"

#include <algorithm>

#include "runtime/compute/kernels/cpu/optimizers/step.hpp"
#include "runtime/compute/kernels/cuda/kernels.hpp"
#include "tests/runtime/compute/kernels/cuda/inputs.hpp"
#include "tests/runtime/compute/kernels/cuda/memory.hpp"
#include "tests/runtime/compute/kernels/model.hpp"
#include "tests/support/long_form.hpp"

namespace {

using namespace hocket;
using namespace hocket::test;
using namespace hocket::kernels;

// The functions of the library, by the step's type.
template <typename Step>
struct Library;
template <>
struct Library<LarsStep> {
    static constexpr auto norms = cuda::hocket_cuda_lars_norms;
    static constexpr auto ratios = cuda::hocket_cuda_lars_ratios;
    static constexpr auto apply = cuda::hocket_cuda_lars_apply;
};
template <>
struct Library<LambStep> {
    static constexpr auto norms = cuda::hocket_cuda_lamb_norms;
    static constexpr auto ratios = cuda::hocket_cuda_lamb_ratios;
    static constexpr auto apply = cuda::hocket_cuda_lamb_apply;
};

// A model's arrays, copied to the device.
template <typename Step>
struct OnDeviceModel {
    static constexpr unsigned n = Step::states;

    OnDevice<float> weights, first, second;  // without a second state: the first again
    OnDevice<std::byte> gradients;
    std::vector<OptimizedTensor<n>> tensors;

    explicit OnDeviceModel(const Model<Step>& model)
        : weights(model.weights),
          first(model.states[0]),
          second(model.states[n - 1]),
          gradients(model.gradients) {
        ModelMemory<n> memory{weights.get(), gradients.get(), {first.get()}};
        if constexpr (n > 1) memory.states[1] = second.get();
        tensors = model.tensors(memory);
    }

    std::vector<std::vector<std::uint32_t>> content() const {
        std::vector<std::vector<std::uint32_t>> all = {bits_but_for_nans(weights.read()),
                                                       bits_but_for_nans(first.read())};
        if constexpr (n > 1) all.push_back(bits_but_for_nans(second.read()));
        return all;
    }
};

std::vector<float> flat(const std::vector<NormSums>& sums) {
    std::vector<float> numbers;
    for (const NormSums& each : sums) numbers.insert(numbers.end(), {each.weights, each.direction});
    return numbers;
}

// The ends of up to `parts` stretches of the chunks.
std::vector<std::uint64_t> random_ends(std::uint64_t chunks, int parts, Random& random) {
    std::vector<std::uint64_t> ends = {chunks};
    for (int i = 1; i < parts; ++i) ends.push_back(random() % (chunks + 1));
    std::sort(ends.begin(), ends.end());
    return ends;
}

// Takes a step on the host and on the device, there in stretches, and compares each part. Returns whether the
// step was taken.
template <typename Step>
bool compare_step(const Step& step, Model<Step>& model, int parts, Random& random) {
    const std::uint64_t chunks = model.chunks(), n = model.counts.size();
    OnDeviceModel<Step> device(model);
    OnDevice<NormSums> sums(chunks);
    OnDevice<float> ratios(n);
    OnDevice<std::uint32_t> non_finite(1);
    seed_order(random());

    const auto tensors = model.tensors();
    std::vector<NormSums> right_sums(chunks);
    std::vector<float> right_ratios(n);
    sum_norms<Step>(step, model.type, tensors, 0, right_sums, 1);
    const bool takes = trust_ratios<Step>(step, tensors, right_sums, right_ratios.data());
    const auto ends = random_ends(chunks, parts, random);
    std::uint64_t first = 0;
    for (const std::uint64_t end : ends) {
        REQUIRE(Library<Step>::norms(&step, model.type, device.tensors.data(), n, first, end - first,
                                     sums.get() + first, nullptr) == 0);
        first = end;
    }
    REQUIRE(bits_but_for_nans(flat(sums.read())) == bits_but_for_nans(flat(right_sums)));
    REQUIRE(Library<Step>::ratios(&step, device.tensors.data(), n, sums.get(), ratios.get(), non_finite.get(),
                                  nullptr) == 0);
    REQUIRE(bits_but_for_nans(ratios.read()) == bits_but_for_nans(right_ratios));
    REQUIRE(non_finite.read()[0] == (takes ? 0 : 1));

    first = 0;
    for (const std::uint64_t end : ends) {
        REQUIRE(Library<Step>::apply(&step, model.type, device.tensors.data(), n, ratios.get(),
                                     non_finite.get(), first, end - first, nullptr) == 0);
        first = end;
    }
    REQUIRE(take_step<Step>(step, model.type, tensors, 1) == takes);
    REQUIRE(same(device.content(), content(model)));
    return takes;
}

template <typename Step>
void compare_edges(std::uint64_t seed) {
    Random random(seed);
    for (const DataType type : gradient_types) {
        INFO(name_of(type) << ", " << Step::states << " states");
        Model<Step> model(type, {1, 0, 65'535, 65'536, 65'537, 0, 0, 255, 140'000, 257, 0}, random());
        const Model<Step> before = model;
        CHECK(compare_step(usual_step<Step>(), model, 1, random));
        CHECK(!same(content(model), content(before)));
        CHECK(compare_step(usual_step<Step>(), model, 4, random));
    }
}

template <typename Step>
void compare_many(std::uint64_t seed) {
    Random random(seed);
    for (const DataType type : gradient_types) {
        std::vector<std::size_t> counts;
        for (int i = 0; i < 400; ++i) counts.push_back(random() % 7 == 0 ? 0 : random() % 300);
        // That is seconds of work for the processor.
        const bool is_large = type == DataType::float32 && (test::is_long_form() || Step::states == 1);
        if (is_large) counts[111] = 2'300'000;  // more chunks than a warp has lanes
        Model<Step> model(type, counts, random());
        // A large one takes seconds for each number of parts.
        if (!is_large && test::is_long_form()) CHECK(compare_step(usual_step<Step>(), model, 1, random));
        CHECK(compare_step(usual_step<Step>(), model, 5, random));
    }
}

// Any numbers in the weights, the gradients and the states. How many steps were taken.
template <typename Step>
int compare_any(std::uint64_t seed) {
    Random random(seed);
    int taken = 0;
    for (const Distribution& kind : all_distributions()) {
        INFO(kind.name << ", " << Step::states << " states");
        std::vector<std::size_t> counts;
        for (int i = 0; i < 20; ++i) counts.push_back(random() % 4 == 0 ? 0 : random() % 1000);
        Model<Step> model(one_of(selectable, random), counts, random());
        model.numbers = numbers_of(kind, model.numbers.size(), random());
        model.store_gradients();
        if (random() % 2 == 0) model.weights = numbers_of(kind, model.weights.size(), random());
        for (auto& states : model.states)
            if (random() % 2 == 0) states = numbers_of(kind, states.size(), random());
        for (int i = 0; i < 2; ++i) taken += compare_step(usual_step<Step>(), model, 2, random);
    }
    return taken;
}

}  // namespace

TEST_CASE("steps of LARS and LAMB on the device: the processor's bits, for any part of the chunks") {
    compare_edges<LarsStep>(1);
    compare_edges<LambStep>(2);
}

TEST_CASE("steps of LARS and LAMB on the device: the processor's bits, for many tensors") {
    compare_many<LarsStep>(3);
    compare_many<LambStep>(4);
}

TEST_CASE("steps of LARS and LAMB on the device: any numbers, and those that are none") {
    const int kinds = 2 * static_cast<int>(all_distributions().size());
    for (const int taken : {compare_any<LarsStep>(5), compare_any<LambStep>(6)}) {
        CHECK(taken > kinds / 3);
        CHECK(taken < kinds);
    }
}

TEST_CASE("steps of LARS and LAMB on the device: no ratios, no tensors, no such gradients") {
    Random random(7);
    LarsOptions lars = usual_lars;
    lars.adaptive = false;
    Model<LarsStep> model(DataType::bfloat16, {3, 70'000}, 1), none(DataType::float32, {}, 1);
    CHECK(compare_step(LarsStep(lars), model, 1, random));
    CHECK(compare_step(LarsStep(lars), none, 1, random));
    Model<LambStep> zeros(DataType::float32, {3, 0, 70'000}, 1);
    std::fill(zeros.weights.begin(), zeros.weights.end(), 0.f);
    CHECK(compare_step(usual_step<LambStep>(), zeros, 1, random));
    const LarsStep step(lars);
    CHECK(cuda::hocket_cuda_lars_norms(&step, DataType::float64, nullptr, 0, 0, 0, nullptr, nullptr) == 1);
    CHECK(cuda::hocket_cuda_lars_apply(&step, DataType::int8, nullptr, 0, nullptr, nullptr, 0, 0, nullptr) ==
          1);
}
