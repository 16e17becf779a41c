// How the structs of hocket.h grow. All of them are read and written by one rule, which hocket.h states
// ("Structs"): the caller's size says how much of the struct the caller knows.
//
// A new field comes at the end, and 0 is its default: then an older program leaves it alone, and a newer one
// that does not use it still works with an older library.
#pragma once

#include <cstddef>

#include "capi/hocket.h"

namespace hocket::capi {

// Facts about a published struct: its name, the size of its first version and, if callers fill it in, the
// defaults of its fields. No program can pass a size below that of the first version.
template <typename Struct>
struct Published;

// Sizes above this are taken for uninitialized memory. No struct of hocket.h comes near it.
constexpr std::size_t largest_struct = 4096;

namespace growth {

// Throws Error(invalid_argument) unless `size` is possible for a published struct. `cure` ends the message.
void check_size(std::size_t size, std::size_t first, const char* name, const char* cure);

// Throws Error(invalid_argument) if the place for an answer is null.
void check_place(const void* to, const char* name);

// Overwrites the part of `options` that the caller knows; on entry, `options` holds the defaults. Throws
// Error(invalid_argument) if the caller sets anything beyond `known`, the size that this library knows.
void take(void* options, std::size_t known, const void* given, std::size_t size, const char* name);

// Writes `size` bytes: the part of the answer that the caller knows, and zeros for what this library does not
// know.
void give(void* to, std::size_t size, const void* answer, std::size_t known);

}  // namespace growth

// Returns the caller's options as the struct that this library knows. A null pointer gives the defaults.
template <typename Options>
Options read_options(const Options* given) {
    using Known = Published<Options>;
    Options options = Known::defaults;
    if (given == nullptr) return options;
    growth::check_size(given->size, Known::first_size, Known::name, Known::cure);
    growth::take(&options, sizeof options, given, given->size, Known::name);
    options.size = sizeof options;
    return options;
}

// The caller's pointer to an answer. It is checked before the work for the answer begins.
template <typename Answer>
class Place {
  public:
    Place(Answer* to, std::size_t size) : to_(to), size_(size) {
        using Known = Published<Answer>;
        growth::check_place(to, Known::name);
        growth::check_size(size, Known::first_size, Known::name, Known::cure);
    }

    void write(const Answer& answer) const { growth::give(to_, size_, &answer, sizeof answer); }

  private:
    Answer* to_;
    std::size_t size_;
};

// ---- The structs ---------------------------------------------------------------------------------------
// `last_field` is the last field in this version. A struct must not end in padding: older programs leave
// arbitrary bytes in their padding, where a later field would lie.
#define HKT_SIZE_UP_TO(Struct, field) (offsetof(Struct, field) + sizeof(Struct::field))
#define HKT_ENDS_WITH(Struct, last_field)                                \
    static_assert(HKT_SIZE_UP_TO(Struct, last_field) == sizeof(Struct)); \
    static_assert(sizeof(Struct) <= largest_struct)

HKT_ENDS_WITH(hkt_comm_options, share_buffers);
HKT_ENDS_WITH(hkt_store, user);
HKT_ENDS_WITH(hkt_plan_options, collective);
HKT_ENDS_WITH(hkt_start_options, tensors);
HKT_ENDS_WITH(hkt_topk_options, workspace_bytes);
HKT_ENDS_WITH(hkt_lars_options, workspace_bytes);
HKT_ENDS_WITH(hkt_lamb_options, workspace_bytes);
HKT_ENDS_WITH(hkt_cache_options, timeout_ms);
HKT_ENDS_WITH(hkt_cache_stats, damage);
HKT_ENDS_WITH(hkt_cache_verification, findings);
HKT_ENDS_WITH(hkt_params_options, interrupt_user);
HKT_ENDS_WITH(hkt_params_stats, children);
HKT_ENDS_WITH(hkt_params_server_options, accept_torn);
HKT_ENDS_WITH(hkt_overlap_options, bucket_bytes);
HKT_ENDS_WITH(hkt_overlap_prediction, overlap);
HKT_ENDS_WITH(hkt_overlap_run_options, pulls);
HKT_ENDS_WITH(hkt_overlap_run_stats, pull_batches);

template <>
struct Published<hkt_comm_options> {
    static constexpr const char* name = "hkt_comm_options.size";
    static constexpr const char* cure = "start from HKT_COMM_OPTIONS_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_comm_options, timeout_ms);
    static constexpr hkt_comm_options defaults = HKT_COMM_OPTIONS_INIT;
};

template <>
struct Published<hkt_store> {
    static constexpr const char* name = "hkt_store.size";
    static constexpr const char* cure = "start from HKT_STORE_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_store, user);
    static constexpr hkt_store defaults = HKT_STORE_INIT;
};

template <>
struct Published<hkt_plan_options> {
    static constexpr const char* name = "hkt_plan_options.size";
    static constexpr const char* cure = "start from HKT_PLAN_OPTIONS_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_plan_options, executor);
    static constexpr hkt_plan_options defaults = HKT_PLAN_OPTIONS_INIT;
};

template <>
struct Published<hkt_start_options> {
    static constexpr const char* name = "hkt_start_options.size";
    static constexpr const char* cure = "start from HKT_START_OPTIONS_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_start_options, buffer_count);
    static constexpr hkt_start_options defaults = HKT_START_OPTIONS_INIT;
};

template <>
struct Published<hkt_topk_options> {
    static constexpr const char* name = "hkt_topk_options.size";
    static constexpr const char* cure = "start from HKT_TOPK_OPTIONS_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_topk_options, threads);
    static constexpr hkt_topk_options defaults = HKT_TOPK_OPTIONS_INIT;
};

template <>
struct Published<hkt_lars_options> {
    static constexpr const char* name = "hkt_lars_options.size";
    static constexpr const char* cure = "start from HKT_LARS_OPTIONS_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_lars_options, threads);
    static constexpr hkt_lars_options defaults = HKT_LARS_OPTIONS_INIT;
};

template <>
struct Published<hkt_lamb_options> {
    static constexpr const char* name = "hkt_lamb_options.size";
    static constexpr const char* cure = "start from HKT_LAMB_OPTIONS_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_lamb_options, threads);
    static constexpr hkt_lamb_options defaults = HKT_LAMB_OPTIONS_INIT;
};

template <>
struct Published<hkt_cache_options> {
    static constexpr const char* name = "hkt_cache_options.size";
    static constexpr const char* cure = "start from HKT_CACHE_OPTIONS_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_cache_options, timeout_ms);
    static constexpr hkt_cache_options defaults = HKT_CACHE_OPTIONS_INIT;
};

template <>
struct Published<hkt_cache_stats> {
    static constexpr const char* name = "the size of the hkt_cache_stats";
    static constexpr const char* cure = "pass sizeof(hkt_cache_stats)";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_cache_stats, trouble);
};

template <>
struct Published<hkt_cache_verification> {
    static constexpr const char* name = "the size of the hkt_cache_verification";
    static constexpr const char* cure = "pass sizeof(hkt_cache_verification)";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_cache_verification, findings);
};

template <>
struct Published<hkt_params_options> {
    static constexpr const char* name = "hkt_params_options.size";
    static constexpr const char* cure = "start from HKT_PARAMS_OPTIONS_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_params_options, interrupt_user);
    static constexpr hkt_params_options defaults = HKT_PARAMS_OPTIONS_INIT;
};

template <>
struct Published<hkt_params_stats> {
    static constexpr const char* name = "the size of the hkt_params_stats";
    static constexpr const char* cure = "pass sizeof(hkt_params_stats)";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_params_stats, children);
};

template <>
struct Published<hkt_params_server_options> {
    static constexpr const char* name = "hkt_params_server_options.size";
    static constexpr const char* cure = "start from HKT_PARAMS_SERVER_OPTIONS_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_params_server_options, index);
    static constexpr hkt_params_server_options defaults = HKT_PARAMS_SERVER_OPTIONS_INIT;
};

template <>
struct Published<hkt_overlap_options> {
    static constexpr const char* name = "hkt_overlap_options.size";
    static constexpr const char* cure = "start from HKT_OVERLAP_OPTIONS_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_overlap_options, bucket_bytes);
    static constexpr hkt_overlap_options defaults = HKT_OVERLAP_OPTIONS_INIT;
};

template <>
struct Published<hkt_overlap_prediction> {
    static constexpr const char* name = "the size of the hkt_overlap_prediction";
    static constexpr const char* cure = "pass sizeof(hkt_overlap_prediction)";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_overlap_prediction, overlap);
};

template <>
struct Published<hkt_overlap_run_options> {
    static constexpr const char* name = "hkt_overlap_run_options.size";
    static constexpr const char* cure = "start from HKT_OVERLAP_RUN_OPTIONS_INIT";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_overlap_run_options, staleness);
    static constexpr hkt_overlap_run_options defaults = HKT_OVERLAP_RUN_OPTIONS_INIT;
};

template <>
struct Published<hkt_overlap_run_stats> {
    static constexpr const char* name = "the size of the hkt_overlap_run_stats";
    static constexpr const char* cure = "pass sizeof(hkt_overlap_run_stats)";
    static constexpr std::size_t first_size = HKT_SIZE_UP_TO(hkt_overlap_run_stats, overlap);
};

#undef HKT_ENDS_WITH
#undef HKT_SIZE_UP_TO

}  // namespace hocket::capi
