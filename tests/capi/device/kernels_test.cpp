// Kernels on memory of a device give the bits of the same call on the host.
#include <numeric>

#include "tests/capi/device/kernels.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;

namespace {

void compare(const Cuda& cuda, const Select& what, const std::string& name) {
    Selected on_host(nullptr, what), on_device(&cuda, what);
    must_call(on_host.call());
    must_call(on_device.call());
    const auto expected = on_host.results(), found = on_device.results();
    const char* const parts[] = {"selected", "non_finite", "values", "indices", "the residual", "x"};
    for (std::size_t i = 0; i < expected.size(); ++i)
        expect(found[i] == expected[i], name + ": " + parts[i] + " differs");
}

std::string name_of(const Select& what) {
    return std::string(hocket::name_of(what.type)) + ", " + std::to_string(what.k) + " of " +
           std::to_string(what.numbers.size());
}

}  // namespace

TEST_CASE("selections on a device have the host's bits") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              Random random(1);
              for (const DataType type : selectable)
                  for (const auto& [count, k] : std::vector<std::pair<std::size_t, std::size_t>>{
                           {0, 5}, {1, 1}, {1000, 0}, {1000, 10}, {1000, 3000}, {20'000, 100}})
                      for (const int thresholds : {0, 8}) {
                          Select what{type, numbers_of(distribution("normal"), count, random()), k};
                          what.options.thresholds = thresholds;
                          what.options.seed = random();
                          compare(cuda, what, name_of(what));
                      }
              Select odd{DataType::float32, numbers_of(odd_ones(60), 3000, 7), 70};
              compare(cuda, odd, "infinities and NaNs");
              odd.asks_for_non_finite = false;
              compare(cuda, odd, "nobody asks for non_finite");
          }) == "");
}

TEST_CASE("selections with a residual on a device have the host's bits") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              Random random(2);
              for (const DataType type : selectable)
                  for (const DataType sent_as : selectable)
                      for (const auto& [count, k] : std::vector<std::pair<std::size_t, std::size_t>>{
                               {0, 5}, {1000, 0}, {1000, 10}, {7000, 100}}) {
                          // A null residual on the host counts as no residual, which needs values of the
                          // elements' type.
                          if (count == 0 && sent_as != type) continue;
                          Select what{type, numbers_of(distribution("Laplace"), count, random()), k,
                                      numbers_of(distribution("normal"), count, random()), sent_as};
                          what.options.decay = 0.75f;
                          what.options.scale = 1.5f;
                          compare(cuda, what, name_of(what));
                      }
              for (const bool asks : {true, false})
                  for (const int selects : {0, 1}) {
                      Select odd{DataType::float32, numbers_of(distribution("normal"), 3000, 3), 70,
                                 std::vector<float>(3000, 0.5f)};
                      odd.numbers[17] = odd.numbers[2900] = std::numeric_limits<float>::infinity();
                      odd.options.select_non_finite = selects;
                      odd.asks_for_non_finite = asks;
                      compare(cuda, odd, "infinities, selected " + std::to_string(selects));
                      odd.k = 0;
                      compare(cuda, odd, "infinities, of which none is selected");
                  }
          }) == "");
}

TEST_CASE("sparse additions on a device have the host's bits") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              Random random(3);
              for (const DataType type : selectable)
                  for (const DataType value_type : selectable) {
                      constexpr std::size_t count = 5000;
                      std::vector<std::uint32_t> at;
                      for (std::uint32_t i = 0; i < count; ++i)
                          if (random() % 3 == 0) at.push_back(i);
                      const std::size_t k = at.size();
                      const auto values =
                          as_type(value_type, numbers_of(distribution("Student-t3"), k + 2, random()));
                      std::vector<std::byte> dense =
                          as_type(type, numbers_of(distribution("lognormal"), count, random()));
                      Somewhere on_device(&cuda, dense), values_on_device(&cuda, values);
                      must_call(hkt_scatter_add(dense.data(), count, constant_of(type), values.data(),
                                                constant_of(value_type), at.data(), k, 0));
                      // Indices that are out of range are left out.
                      at.push_back(count);
                      at.push_back(~0u);
                      Somewhere indices(&cuda, bytes_of(at));
                      must_call(hkt_scatter_add(on_device.data(), count, constant_of(type),
                                                values_on_device.data(), constant_of(value_type),
                                                indices.as<std::uint32_t>(), k + 2, 0));
                      expect(on_device.read() == dense, "dense differs");
                      must_call(hkt_scatter_add(on_device.data(), count, constant_of(type), nullptr,
                                                constant_of(value_type), nullptr, 0, 0));
                      expect(on_device.read() == dense, "nothing was to be added");
                  }
          }) == "");
}

TEST_CASE("norms, LARS and LAMB on a device have the host's bits") {
    HOCKET_NEEDS_KERNELS;
    CHECK(run_kernels([](const Cuda& cuda) {
              for (const DataType type : selectable) {
                  std::vector<std::size_t> counts = {300, 0, 1, 70'000};
                  if (type == DataType::float32) counts.insert(counts.begin(), 120, 5);  // several launches
                  Model on_host(nullptr, type, counts, 4), on_device(&cuda, type, counts, 4);
                  const auto both = [&](const char* what, auto call) {
                      must_call(call(on_host));
                      must_call(call(on_device));
                      expect(on_device.results() == on_host.results(), std::string(what) + " differs");
                  };
                  both("norms", [](Model& model) { return model.norms(); });
                  for (const std::uint64_t step : {1, 2})
                      both("LAMB", [&](Model& model) { return model.lamb(0.01, step); });
                  both("LARS", [](Model& model) { return model.lars(0.5); });
                  // A step that is skipped.
                  const std::vector<float> infinite(300, std::numeric_limits<float>::infinity());
                  const std::size_t tensor = counts.size() - 4;
                  for (Model* model : {&on_host, &on_device})
                      model->gradient(tensor).write(as_type(type, infinite));
                  both("a skipped step", [](Model& model) { return model.lars(0.5); });
                  both("a skipped step", [](Model& model) { return model.lamb(0.5, 3); });
              }
              Model none(&cuda, DataType::float32, {}, 5), empty(&cuda, DataType::float32, {0, 0}, 5);
              for (Model* model : {&none, &empty}) {
                  must_call(model->norms());
                  must_call(model->lars(1));
                  expect(model->results()[1] == bytes_of(std::vector<std::int32_t>{0}), "it was skipped");
              }
              expect(empty.results()[0] == bytes_of(std::vector<float>{0, 0}), "norms of nothing");
          }) == "");
}
