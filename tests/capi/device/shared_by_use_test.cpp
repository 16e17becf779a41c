// Host memory that a driver knows is not shared by use: a device may write to its pages at any time.
#include <algorithm>

#include "tests/capi/device/jobs.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

TEST_CASE("host memory that the driver has pinned stays private, however often it is used") {
    CHECK(run_on_devices("aa",
                         [](const Cuda& cuda, hkt_comm* comm) {
                             constexpr std::size_t count = 100'000;
                             void* pinned = nullptr;
                             must(cuda.host_allocate(&pinned, count * sizeof(int), 0), "cuMemHostAlloc");
                             auto* const ints = static_cast<int*>(pinned);
                             for (int use = 1; use <= 8; ++use) {
                                 std::fill(ints, ints + count, use);
                                 must(comm,
                                      hkt_all_reduce(ints, ints, count, HKT_INT32, HKT_SUM, comm, nullptr));
                                 expect(ints[0] == 2 * use && ints[count - 1] == 2 * use, "the sum");
                             }
                             int is_shared = -1;
                             must(comm, hkt_mem_is_shared(comm, ints, count * sizeof(int), &is_shared));
                             expect(is_shared == 0, "pinned memory to stay private");
                             must(cuda.host_release(pinned), "cuMemFreeHost");
                         },
                         {{"HOCKET_SHARE_BUFFERS", "on"}}) == "");
}
