/* Declarations and functions that Python needs in addition to hocket.h. build_native.py reads the two
 * marked parts, for cffi. */
#include <string.h>

/* for Python */
typedef struct hkt_py_tensor { /* DLPack's DLTensor */
    void* data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} hkt_py_tensor;

typedef struct hkt_py_versioned_tensor { /* DLPack's DLManagedTensorVersioned */
    uint32_t major, minor;
    void *manager, *deleter;
    uint64_t flags; /* 1: read-only */
    hkt_py_tensor tensor;
} hkt_py_versioned_tensor;

/* flight[0]: a request, or null once it has ended; then flight[1] is its status. So Python knows whether a
 * request still exists even if an exception (Ctrl-C) comes before it has read this function's result.
 * flight[2]: not null while a thread waits; other threads are then told at once that it is in progress.
 * timeout_ms: as in hkt_wait_for; -1: hkt_wait. */
static hkt_status hkt_py_wait(hkt_request** flight, int64_t timeout_ms);

/* Copies samples one after another into memory and their offsets into offsets, as hkt_cache_copy_batch
 * does. */
static void hkt_py_copy_samples(const hkt_sample* samples, size_t count, void* memory, size_t room,
                                uint64_t* offsets);

/* Calls hkt_cache_release for those that were not given back yet, also if several threads do it, or one
 * does it again after an exception. */
static void hkt_py_give_back(hkt_cache* cache, hkt_sample* samples, size_t count);
/* end */

static hkt_status hkt_py_wait(hkt_request** flight, int64_t timeout_ms) {
    hkt_request* nobody = NULL;
    if (!__atomic_compare_exchange_n(&flight[2], &nobody, (hkt_request*)flight, 0, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return HKT_IN_PROGRESS;
    hkt_status status = (hkt_status)(intptr_t)flight[1];
    if (flight[0] != NULL) {
        status = timeout_ms < 0 ? hkt_wait(flight[0]) : hkt_wait_for(flight[0], timeout_ms);
        if (status != HKT_IN_PROGRESS && status != HKT_ERROR_INTERRUPTED) {
            flight[0] = NULL;
            flight[1] = (hkt_request*)(intptr_t)status;
        }
    }
    __atomic_store_n(&flight[2], (hkt_request*)NULL, __ATOMIC_RELEASE);
    return status;
}

static void hkt_py_copy_samples(const hkt_sample* samples, size_t count, void* memory, size_t room,
                                uint64_t* offsets) {
    offsets[0] = 0;
    for (size_t i = 0; i < count; ++i) offsets[i + 1] = offsets[i] + samples[i].bytes;
    if (offsets[count] > room) return;
    for (size_t i = 0; i < count; ++i)
        if (samples[i].bytes > 0) memcpy((char*)memory + offsets[i], samples[i].data, samples[i].bytes);
}

static void hkt_py_give_back(hkt_cache* cache, hkt_sample* samples, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        hkt_sample one = samples[i];
        one.lent = __atomic_exchange_n(&samples[i].lent, NULL, __ATOMIC_ACQ_REL);
        hkt_cache_release(cache, &one, 1);
    }
}

/* from Python
extern "Python" int hkt_py_is_interrupted(void* user);
extern "Python" void hkt_py_ended(void* user);
extern "Python" int hkt_py_store_set(void* user, const char* key, const void* value, size_t bytes);
extern "Python" int hkt_py_store_get(void* user, const char* key, void* value, size_t room, size_t* bytes,
                                     int64_t timeout_ms);
extern "Python" hkt_status hkt_py_cache_read(void* context, uint64_t key, hkt_cache_value* sample);
extern "Python" hkt_status hkt_py_cache_decode(void* context, uint64_t key, const void* encoded, size_t bytes,
                                               hkt_cache_value* sample);
extern "Python" int hkt_py_verify_progress(void* context, uint64_t done, uint64_t all);
*/
