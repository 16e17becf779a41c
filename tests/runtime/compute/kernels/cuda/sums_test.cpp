// The device's sums over tensors and its additions of sparse ones against the processor's, bit for bit.
#include "tests/runtime/compute/kernels/cuda/check.hpp"

#include "runtime/compute/kernels/cpu/norms.hpp"
#include "runtime/compute/kernels/cpu/scatter_add.hpp"
#include "runtime/compute/kernels/cuda/kernels.hpp"
#include "tests/runtime/compute/kernels/cuda/inputs.hpp"
#include "tests/runtime/compute/kernels/cuda/memory.hpp"

namespace {

using namespace hocket;
using namespace hocket::test;
using namespace hocket::kernels;

// Tensors that lie one after another, on the processor and on the device.
struct Tensors {
    DataType type;
    std::vector<std::size_t> counts;
    std::vector<std::byte> elements, others;  // others: their factors
    OnDevice<std::byte> on_device, others_on_device;

    Tensors(DataType of, const std::vector<std::size_t>& sizes, const Distribution& kind, Random& random)
        : type(of),
          counts(sizes),
          elements(as_type(of, numbers_of(kind, total(), random()))),
          others(as_type(of, numbers_of(kind, total(), random()))),
          on_device(elements),
          others_on_device(others) {}

    std::size_t total() const {
        std::size_t sum = 0;
        for (const std::size_t count : counts) sum += count;
        return sum;
    }
    std::size_t chunks() const {
        std::size_t sum = 0;
        for (const std::size_t count : counts) sum += chunks_of(count);
        return sum;
    }
    // Every second pair is of a tensor and itself.
    std::vector<Factors> pairs(const std::byte* a, const std::byte* b) const {
        std::vector<Factors> result;
        for (const std::size_t count : counts) {
            result.push_back({a, result.size() % 2 == 0 ? a : b, count});
            a += count * element_size(type);
            b += count * element_size(type);
        }
        return result;
    }
    std::vector<Tensor> list(const std::byte* at) const {
        std::vector<Tensor> result;
        for (const std::size_t count : counts) {
            result.push_back({at, count});
            at += count * element_size(type);
        }
        return result;
    }
};

void compare_sums(Tensors& tensors, std::size_t first, std::size_t chunks) {
    std::vector<float> expected(chunks);
    sum_chunks(tensors.type, tensors.pairs(tensors.elements.data(), tensors.others.data()), first, expected,
               1);
    OnDevice<float> found(chunks);
    const auto pairs = tensors.pairs(tensors.on_device.get(), tensors.others_on_device.get());
    REQUIRE(cuda::hocket_cuda_sum_chunks(tensors.type, pairs.data(), pairs.size(), first, chunks, found.get(),
                                         nullptr) == 0);
    INFO("chunks " << first << " to " << first + chunks << " of " << tensors.chunks());
    REQUIRE(bits_of(found.read()) == bits_of(expected));
}

void compare_norms(Tensors& tensors) {
    const auto on_processor = tensors.list(tensors.elements.data());
    std::vector<float> expected(on_processor.size());
    norms(tensors.type, on_processor, 1, expected.data());
    OnDevice<float> sums(tensors.chunks()), found(expected.size());
    const auto list = tensors.list(tensors.on_device.get());
    REQUIRE(cuda::hocket_cuda_norms(tensors.type, list.data(), list.size(), sums.get(), found.get(),
                                    nullptr) == 0);
    REQUIRE(bits_of(found.read()) == bits_of(expected));
}

}  // namespace

TEST_CASE("sums over chunks on the device: the processor's bits, for any part of the chunks") {
    Random random(1);
    for (const DataType type : selectable) {
        Tensors tensors(type, {1, 0, 65'536, 65'537, 0, 0, 255, 140'000, 257, 0}, distribution("normal"),
                        random);
        const std::size_t all = tensors.chunks();
        seed_order(random());
        compare_sums(tensors, 0, all);
        for (int i = 0; i < 8; ++i) {
            const std::size_t first = random() % all;
            compare_sums(tensors, first, random() % (all - first + 1));
        }
    }
}

TEST_CASE("norms on the device: the processor's bits, for many tensors") {
    Random random(2);
    for (const DataType type : selectable) {
        std::vector<std::size_t> counts;
        for (int i = 0; i < 250; ++i) counts.push_back(random() % 7 == 0 ? 0 : random() % 700);
        counts[111] = 2'300'000;  // more chunks than a warp has lanes
        if (type != DataType::bfloat16) counts[111] = 66'000;
        Tensors tensors(type, counts, distribution("Laplace"), random);
        seed_order(random());
        compare_norms(tensors);
        compare_sums(tensors, 40, 130);
        compare_sums(tensors, 0, tensors.chunks());
    }
}

TEST_CASE("norms on the device: infinite, zero and no tensors") {
    Random random(3);
    Tensors zeros(DataType::float32, {5, 0, 70'000}, distribution("all 0, of both signs"), random);
    compare_norms(zeros);
    Tensors none(DataType::float16, {}, distribution("normal"), random);
    compare_norms(none);
    Tensors large(DataType::float32, {400, 3}, distribution("ascending"), random);
    std::fill(large.elements.begin(), large.elements.begin() + 400, std::byte{0x7e});  // 8e37
    copy_bytes(large.on_device.get(), large.elements.data(), large.elements.size());
    compare_norms(large);
    CHECK(cuda::hocket_cuda_norms(DataType::float64, nullptr, 0, nullptr, nullptr, nullptr) == 1);
}

TEST_CASE("sparse values are added on the device as on the processor") {
    Random random(4);
    for (const DataType type : selectable)
        for (const DataType value_type : selectable)
            for (const std::size_t count : {1, 100, 20'000}) {
                std::vector<std::uint32_t> indices;
                for (std::uint32_t i = 0; i < count; ++i)
                    if (random() % 3 == 0) indices.push_back(i);
                std::vector<std::byte> dense =
                    as_type(type, numbers_of(distribution("lognormal"), count, random()));
                const std::vector<std::byte> values =
                    as_type(value_type, numbers_of(distribution("Student-t3"), indices.size() + 2, random()));
                OnDevice<std::byte> on_device(dense), values_on_device(values);
                scatter_add(type, dense.data(), value_type, values.data(), indices.data(), indices.size(), 1);
                // These are left out.
                indices.push_back(static_cast<std::uint32_t>(count));
                indices.push_back(~0u);
                OnDevice<std::uint32_t> indices_on_device(indices);
                REQUIRE(cuda::hocket_cuda_scatter_add(type, on_device.get(), count, value_type,
                                                      values_on_device.get(), indices_on_device.get(),
                                                      indices.size(), nullptr) == 0);
                REQUIRE(on_device.read() == dense);
            }
    for (const auto& [type, value_type] :
         {std::pair(DataType::int32, DataType::float32), std::pair(DataType::float32, DataType::float64)})
        CHECK(cuda::hocket_cuda_scatter_add(type, nullptr, 0, value_type, nullptr, nullptr, 0, nullptr) == 1);
}
