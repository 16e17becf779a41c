/* hocket.h comes first, and twice, and every struct that a program begins from has its initial values. This
 * is C99 and C++11. */
#include <hocket.h>

int main(void) {
    const hkt_comm_options comm = HKT_COMM_OPTIONS_INIT;
    const hkt_plan_options plan = HKT_PLAN_OPTIONS_INIT;
    const hkt_start_options start = HKT_START_OPTIONS_INIT;
    const hkt_topk_options topk = HKT_TOPK_OPTIONS_INIT;
    const hkt_lars_options lars = HKT_LARS_OPTIONS_INIT;
    const hkt_lamb_options lamb = HKT_LAMB_OPTIONS_INIT;
    const hkt_cache_options cache = HKT_CACHE_OPTIONS_INIT;
    return (comm.size & plan.size & start.size & topk.size & lars.size & lamb.size & cache.size) == 1;
}
