// Plans of the C ABI, for tests.
#pragma once

#include <hocket.h>

#include <memory>

namespace hocket::test {

struct DestroyPlan {
    void operator()(hkt_plan* plan) const { hkt_plan_destroy(plan); }
};
using Plan = std::unique_ptr<hkt_plan, DestroyPlan>;

}  // namespace hocket::test
