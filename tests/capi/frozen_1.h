/* hocket.h as it was at version 0.1.0, without its comments. NEVER CHANGE THIS FILE: it stands for the
 * programs that were compiled then and are not compiled again. frozen_1.c is such a program. Where it fails,
 * hocket.h or the library has changed in a way that breaks them; mend that instead. What a later version adds
 * is frozen in a file of its own.
 */
#ifndef FROZEN_1_H
#define FROZEN_1_H
#include <stddef.h>
#include <stdint.h>
#if defined(__GNUC__)
#define HKT_API __attribute__((visibility("default")))
#else
#define HKT_API
#endif
#ifdef __cplusplus
extern "C" {
#endif
#define HKT_VERSION_MAJOR 0
#define HKT_VERSION_MINOR 1
#define HKT_VERSION_PATCH 0
typedef enum hkt_status {
    HKT_SUCCESS = 0,
    HKT_IN_PROGRESS = 1,
    HKT_ERROR_INVALID_ARGUMENT = -1,
    HKT_ERROR_SCHEDULE = -2,
    HKT_ERROR_NOT_FOUND = -3,
    HKT_ERROR_BOOTSTRAP = -4,
    HKT_ERROR_TRANSPORT = -5,
    HKT_ERROR_PEER_LOST = -6,
    HKT_ERROR_TIMEOUT = -7,
    HKT_ERROR_MISMATCH = -8,
    HKT_ERROR_OUT_OF_MEMORY = -9,
    HKT_ERROR_INTERNAL = -10,
    HKT_ERROR_IO = -11,
    HKT_ERROR_LIMIT = -12
} hkt_status;
typedef enum hkt_type { HKT_FLOAT32 = 0, HKT_FLOAT64 = 1, HKT_INT32 = 2, HKT_INT64 = 3 } hkt_type;
typedef enum hkt_op { HKT_SUM = 0, HKT_MAX = 1, HKT_MIN = 2 } hkt_op;
typedef enum hkt_collective {
    HKT_ALL_REDUCE = 0,
    HKT_REDUCE_SCATTER = 1,
    HKT_ALL_GATHER = 2,
    HKT_BROADCAST = 3
} hkt_collective;
typedef enum hkt_executor {
    HKT_EXECUTOR_DEFAULT = 0,
    HKT_EXECUTOR_JIT = 1,
    HKT_EXECUTOR_INTERPRETER = 2
} hkt_executor;
typedef struct hkt_comm hkt_comm;
typedef struct hkt_plan hkt_plan;
typedef struct hkt_request hkt_request;
typedef struct hkt_cache hkt_cache;
typedef struct hkt_cache_value hkt_cache_value;
HKT_API const char* hkt_error_string(hkt_status status);
HKT_API const char* hkt_last_error(void);
HKT_API const char* hkt_comm_last_error(const hkt_comm* comm);
HKT_API const char* hkt_version(void);
HKT_API size_t hkt_type_size(hkt_type type);
typedef struct hkt_comm_options {
    size_t size;
    int32_t rank;
    int32_t world_size;
    const char* master_addr;
    int32_t master_port;
    const char* secret;
    const char* provider;
    const char* topology;
    const char* schedule;
    const char* schedule_path;
    int32_t executor;
    int64_t timeout_ms;
} hkt_comm_options;
#define HKT_COMM_OPTIONS_INIT \
    { sizeof(hkt_comm_options), -1, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL, 0, 0 }
HKT_API hkt_status hkt_comm_create(const hkt_comm_options* options, hkt_comm** comm);
HKT_API void hkt_comm_destroy(hkt_comm* comm);
HKT_API int32_t hkt_comm_rank(const hkt_comm* comm);
HKT_API int32_t hkt_comm_size(const hkt_comm* comm);
HKT_API hkt_status hkt_comm_status(hkt_comm* comm);
HKT_API const char* hkt_comm_info(const hkt_comm* comm, const char* key);
HKT_API hkt_status hkt_mem_alloc(hkt_comm* comm, size_t bytes, void** memory);
HKT_API hkt_status hkt_mem_free(hkt_comm* comm, void* memory);
HKT_API hkt_status hkt_mem_register(hkt_comm* comm, void* memory, size_t bytes);
HKT_API hkt_status hkt_mem_deregister(hkt_comm* comm, void* memory);
HKT_API hkt_status hkt_all_reduce(const void* send, void* recv, size_t count, hkt_type type, hkt_op op,
                                  hkt_comm* comm, hkt_request** request);
HKT_API hkt_status hkt_reduce_scatter(const void* send, void* recv, size_t recv_count, hkt_type type,
                                      hkt_op op, hkt_comm* comm, hkt_request** request);
HKT_API hkt_status hkt_all_gather(const void* send, void* recv, size_t send_count, hkt_type type,
                                  hkt_comm* comm, hkt_request** request);
HKT_API hkt_status hkt_broadcast(const void* send, void* recv, size_t count, hkt_type type, int32_t root,
                                 hkt_comm* comm, hkt_request** request);
HKT_API hkt_status hkt_barrier(hkt_comm* comm);
HKT_API hkt_status hkt_wait(hkt_request* request);
HKT_API hkt_status hkt_test(hkt_request* request);
typedef struct hkt_plan_options {
    size_t size;
    const char* schedule;
    int32_t root;
    int32_t executor;
} hkt_plan_options;
#define HKT_PLAN_OPTIONS_INIT \
    { sizeof(hkt_plan_options), NULL, 0, 0 }
HKT_API hkt_status hkt_plan_create(hkt_comm* comm, hkt_collective collective, hkt_type type, hkt_op op,
                                   const hkt_plan_options* options, hkt_plan** plan);
HKT_API hkt_status hkt_plan_start(hkt_plan* plan, const void* send, void* recv, size_t count,
                                  hkt_request** request);
HKT_API const char* hkt_plan_explain(hkt_plan* plan);
HKT_API const char* hkt_plan_schedule(hkt_plan* plan, size_t count);
HKT_API void hkt_plan_destroy(hkt_plan* plan);
HKT_API void* hkt_cache_value_reserve(hkt_cache_value* value, size_t bytes);
typedef hkt_status (*hkt_cache_read_fn)(void* context, uint64_t key, hkt_cache_value* sample);
typedef hkt_status (*hkt_cache_decode_fn)(void* context, uint64_t key, const void* encoded, size_t bytes,
                                          hkt_cache_value* sample);
typedef enum hkt_cache_io {
    HKT_CACHE_IO_DEFAULT = 0,
    HKT_CACHE_IO_URING = 1,
    HKT_CACHE_IO_THREADS = 2
} hkt_cache_io;
typedef enum hkt_cache_store {
    HKT_CACHE_STORE_DEFAULT = 0,
    HKT_CACHE_STORE_ALL = 1,
    HKT_CACHE_STORE_NONE = 2
} hkt_cache_store;
typedef struct hkt_cache_options {
    size_t size;
    const char* folder;
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    const char* source;
    const char* source_index;
    hkt_cache_read_fn read;
    void* read_context;
    const char* dataset;
    hkt_cache_decode_fn decode;
    void* decode_context;
    const char* decoder;
    hkt_comm* comm;
    const char* servers;
    const char* secret;
    int32_t io;
    int32_t store;
    int32_t depth;
    int32_t workers;
    int64_t timeout_ms;
} hkt_cache_options;
#define HKT_CACHE_OPTIONS_INIT                                                                             \
    {                                                                                                      \
        sizeof(hkt_cache_options), NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
            NULL, 0, 0, 0, 0, 0                                                                            \
    }
HKT_API hkt_status hkt_cache_open(const hkt_cache_options* options, hkt_cache** cache);
HKT_API void hkt_cache_close(hkt_cache* cache);
typedef struct hkt_sample {
    const void* data;
    size_t bytes;
    uint64_t key;
    void* lent;
} hkt_sample;
HKT_API hkt_status hkt_cache_get(hkt_cache* cache, uint64_t key, hkt_sample* sample);
HKT_API hkt_status hkt_cache_get_batch(hkt_cache* cache, const uint64_t* keys, size_t count,
                                       hkt_sample* samples, hkt_request** request);
HKT_API void hkt_cache_release(hkt_cache* cache, const hkt_sample* samples, size_t count);
HKT_API hkt_status hkt_cache_put(hkt_cache* cache, uint64_t key, const void* data, size_t bytes);
HKT_API hkt_status hkt_cache_prefetch(hkt_cache* cache, const uint64_t* keys, size_t count);
HKT_API hkt_status hkt_cache_set_order(hkt_cache* cache, const uint64_t* keys, size_t count, uint64_t cursor);
HKT_API uint64_t hkt_cache_cursor(const hkt_cache* cache);
HKT_API uint64_t hkt_cache_count(const hkt_cache* cache);
HKT_API hkt_status hkt_cache_find(const hkt_cache* cache, const char* name, uint64_t* key);
HKT_API hkt_status hkt_cache_flush(hkt_cache* cache);
typedef struct hkt_cache_stats {
    uint64_t gets, memory_hits;
    uint64_t disk_hits, peer_hits, source_reads, failures;
    uint64_t disk_read_bytes, peer_read_bytes, source_read_bytes, disk_written_bytes;
    uint64_t shared_loads;
    uint64_t prefetched;
    uint64_t evicted;
    uint64_t corrupt;
    uint64_t not_written;
    uint64_t peer_failures;
    uint64_t served;
    uint64_t wait_ns;
    uint64_t memory_bytes, memory_used, memory_lent, memory_samples, table_bytes;
    uint64_t disk_bytes, disk_used, disk_samples, disk_segments;
    const char* io;
    const char* peer_trouble;
    const char* trouble;
    const char* damage;
} hkt_cache_stats;
HKT_API hkt_status hkt_cache_get_stats(hkt_cache* cache, hkt_cache_stats* stats, size_t size);
typedef struct hkt_cache_verification {
    uint64_t segments, records, bytes, bad_segments, bad_records;
    const char* findings;
} hkt_cache_verification;
HKT_API hkt_status hkt_cache_verify(hkt_cache* cache,
                                    int (*progress)(void* context, uint64_t done, uint64_t all),
                                    void* context, hkt_cache_verification* verification, size_t size);
HKT_API hkt_status hkt_cache_serve(hkt_cache* cache, const char* host, int32_t port, const char* secret,
                                   int32_t* bound);
#ifdef __cplusplus
}
#endif
#endif
