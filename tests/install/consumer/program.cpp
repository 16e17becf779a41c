// The same in C++, with a plan.
#include <hocket.h>

#include <iostream>
#include <memory>
#include <vector>

int main() {
    hkt_comm* joined = nullptr;
    if (hkt_comm_create(nullptr, &joined) != HKT_SUCCESS) return std::cerr << hkt_last_error() << '\n', 1;
    const std::unique_ptr<hkt_comm, void (*)(hkt_comm*)> comm(joined, hkt_comm_destroy);
    const hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    hkt_plan* made = nullptr;
    if (hkt_plan_create(joined, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &made) != HKT_SUCCESS)
        return std::cerr << hkt_comm_last_error(joined) << '\n', 1;
    const std::unique_ptr<hkt_plan, void (*)(hkt_plan*)> plan(made, hkt_plan_destroy);
    std::vector<float> x(1000, 1.0f);
    if (hkt_plan_start(made, x.data(), x.data(), x.size(), nullptr) != HKT_SUCCESS)
        return std::cerr << hkt_comm_last_error(joined) << '\n', 1;
    std::cout << "sum " << x.back() << " of " << hkt_comm_size(joined) << " ranks, version " << hkt_version()
              << ", schedules in " << hkt_comm_info(joined, "schedule_path") << std::endl;
}
