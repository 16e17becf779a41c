/* What Python needs beside hocket.h. build_native.py reads the two marked parts, for cffi. */

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
 * request is still there even if an exception (Ctrl-C) comes before it has looked at what this returns.
 * timeout_ms: as in hkt_wait_for; -1: hkt_wait. */
static hkt_status hkt_py_wait(hkt_request** flight, int64_t timeout_ms);
/* end */

static hkt_status hkt_py_wait(hkt_request** flight, int64_t timeout_ms) {
    if (flight[0] == NULL) return (hkt_status)(intptr_t)flight[1];
    const hkt_status status = timeout_ms < 0 ? hkt_wait(flight[0]) : hkt_wait_for(flight[0], timeout_ms);
    if (status != HKT_IN_PROGRESS && status != HKT_ERROR_INTERRUPTED) {
        flight[0] = NULL;
        flight[1] = (hkt_request*)(intptr_t)status;
    }
    return status;
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
