/* Hocket: collectives written as schedules, verified, compiled and run.
 *
 * This is the one public header. It is plain C99 (and C++11), holds no global state, and every handle is
 * opaque.
 *
 * Conventions
 *   Status      Functions return hkt_status: 0 is success, a positive value means "in progress", a
 *               negative value is an error. hkt_error_string() names the kind; the text with rank,
 *               peer, step and source line is hkt_comm_last_error() (or hkt_last_error() where no
 *               communicator exists yet).
 *   Counts      Element counts, never bytes. A count of 0 is valid everywhere.
 *   In place    A collective is in place on a rank when the rank sends and receives the same data at the same
 *               address. If send and recv both hold all of the data, or both one piece, that is recv == send.
 *               If one of them holds a piece and the other all pieces, the piece lies at the rank's own place
 *               among them: send == recv + rank * send_count in all_gather, and gather's root; recv == send +
 *               rank * recv_count in reduce_scatter, and scatter's root. A rank whose send or recv is ignored
 *               cannot overlap. Other overlaps are an error.
 *   Order       All ranks of a communicator start the same collectives in the same order, with the same
 *               count, type, operator, schedule and root, and make the calls that make groups at the same
 *               place among them. Every message carries a checksum of all operations that its sender has
 *               started, so a difference is detected with the first message between ranks that differ. A rank
 *               that has waited for 200 ms also asks all others which operation they have started in its
 *               place, whatever they do meanwhile. If they differ, all ranks fail with HKT_ERROR_MISMATCH,
 *               and the text names the operations and the ranks that started them. A late rank does not
 *               differ. A rank that started with count 0 (the others with n), or that only sends (like the
 *               root of a broadcast), waits for no rank and returns HKT_SUCCESS; its results are undefined.
 *               If no other rank waits either, the next operation that exchanges messages ends with
 *               HKT_ERROR_MISMATCH on all ranks (hkt_barrier always does; hkt_comm_destroy says so on
 *               stderr).
 *   Failures    A failure that one rank detects (a lost rank, a mismatch, a deadline that passed, a failure
 *               of the fabric), or that concerns it alone (OUT_OF_MEMORY, IO, DEVICE, no descriptors), ends
 *               the operations of all ranks with the same status. The text on the other ranks begins with
 *               "rank R reported:" and then says where they were themselves. INVALID_ARGUMENT, SCHEDULE and
 *               NOT_FOUND are assumed to be the same on all ranks: a rank does not tell them to the others,
 *               and the communicator stays usable. A rank that was lost because it was stopped may find, when
 *               it continues, all data that its operation needed, and return HKT_SUCCESS where the others
 *               failed. It learns of its loss at the latest in the next operation that needs the others. If
 *               several ranks are lost at once, one is named as lost, and the reason given for it names the
 *               others that are silent.
 *   Results     Reductions combine in rank order wherever a schedule leaves a choice, so a result does not
 *               depend on the arrival of messages: same inputs, same schedule, same bits. An element with a
 *               NaN among its inputs becomes a NaN, whose bits are unspecified.
 *   Threads     Handles of different communicators are independent. Calls on one communicator may
 *               come from several threads and are serialised inside it.
 *   Deadlines   No call waits for ever. See hkt_comm_options.timeout_ms.
 *   Fork        A forked child cannot use handles that its parent made: every call with one of them is
 *               HKT_ERROR_INVALID_ARGUMENT (functions that return something else: -1, 0 or null), except
 *               those that destroy or close, which free the child's copy. The parent and its job are not
 *               affected; the text is in hkt_last_error(). The child may make handles of its own. Memory from
 *               hkt_mem_alloc, and registered memory, becomes the child's own in the child: no other process
 *               sees its writes. Pages that it has not written show later writes by the parent and its peers.
 *               This holds for fork(2). After vfork, or a clone system call of its own, a child must call
 *               exec before any function of Hocket.
 *   Structs     A struct that may grow comes with its size: options begin with it, and a function that
 *               fills a struct in takes it as an argument. The size is the struct's sizeof in the calling
 *               program, and says how much of the struct that program knows. One rule holds for all
 *               structs:
 *               A smaller size than this library's comes from an older program. Options that the program
 *               does not know have their defaults, and no more than that size of an answer is written.
 *               A larger size comes from a newer program. In options, the bytes that this library does not
 *               know must be 0; otherwise the program uses an option that the library does not have, which
 *               is HKT_ERROR_INVALID_ARGUMENT. In an answer, these bytes become 0.
 *               A size below that of the struct's first version, or above 4096, is
 *               HKT_ERROR_INVALID_ARGUMENT. hkt_sample has no size, and never grows.
 *   Strings     Returned strings belong to Hocket. Their lifetime is given where they are returned.
 */
#ifndef HOCKET_H
#define HOCKET_H

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
    HKT_IN_PROGRESS = 1,             /* hkt_test: not finished yet */
    HKT_ERROR_INVALID_ARGUMENT = -1, /* a null handle, an unknown type, a rank out of range ... */
    HKT_ERROR_SCHEDULE = -2,         /* a .sched file was refused: syntax, meaning or verification */
    HKT_ERROR_NOT_FOUND = -3,        /* no such schedule, topology or file */
    HKT_ERROR_BOOTSTRAP = -4,        /* the job could not be joined: address, secret, duplicate rank */
    HKT_ERROR_TRANSPORT = -5,        /* the fabric provider reported a failure */
    HKT_ERROR_PEER_LOST = -6,        /* a rank of the communicator died or fell silent; perhaps this one */
    HKT_ERROR_TIMEOUT = -7,          /* a deadline passed */
    HKT_ERROR_MISMATCH = -8,         /* ranks started different operations */
    HKT_ERROR_OUT_OF_MEMORY = -9,
    HKT_ERROR_INTERNAL = -10, /* a defect in Hocket: please report it */
    HKT_ERROR_IO = -11, /* a folder of schedules or the source of a cache cannot be read, for a reason of this
                           process or its disk; or the source has changed; or the JIT was asked for by name,
                           and its library cannot be loaded. The text names the file */
    HKT_ERROR_LIMIT = -12,   /* a sample, or a batch, is larger than the memory that a cache may use */
    HKT_ERROR_DEVICE = -13,  /* the CUDA driver reported a failure, or it or the kernels for devices cannot be
                                loaded. The text names the function, its error and the buffer, or the file */
    HKT_ERROR_ABORTED = -14, /* hkt_comm_abort was called on a rank, or hkt_comm_destroy beside other calls */
    HKT_ERROR_INTERRUPTED = -15 /* hkt_comm_options.is_interrupted ended the wait: the operation goes on */
} hkt_status;

/* float16 is IEEE 754's binary16, bfloat16 the upper half of a float32. Numbers of 16 bits are combined as
 * float32: a step rounds the result of all its operands once, to nearest, ties to even. The steps depend on
 * the schedule. */
typedef enum hkt_type {
    HKT_FLOAT32 = 0,
    HKT_FLOAT64 = 1,
    HKT_INT32 = 2,
    HKT_INT64 = 3,
    HKT_INT8 = 4,
    HKT_INT16 = 5,
    HKT_UINT8 = 6,
    HKT_UINT16 = 7,
    HKT_UINT32 = 8,
    HKT_UINT64 = 9,
    HKT_BFLOAT16 = 10,
    HKT_FLOAT16 = 11,
    HKT_BOOL = 12 /* a byte, 0 or 1, like C's bool; no sum of any kind, no product; max is or, min is and */
} hkt_type;

/* Integer sums and products wrap around. An average's sum wraps around before it is divided: the average of
 * 200, 200 and 200 as uint8 is 29, a third of 88. Floating-point max and min are NaN if any operand is NaN. A
 * function that takes an hkt_op takes one of these constants, or an operator that hkt_premul_sum_create or
 * hkt_op_create made for its communicator. */
typedef enum hkt_op {
    HKT_SUM = 0,
    HKT_MAX = 1,
    HKT_MIN = 2,
    HKT_PRODUCT = 3,
    HKT_BAND = 4, /* and, or, exclusive or of all bits: for integers and bool, not floating-point types */
    HKT_BOR = 5,
    HKT_BXOR = 6,
    HKT_AVERAGE = 7,    /* the complete sum, divided once by the number of ranks; integers: rounded towards 0,
                           and the sum wraps around before. By a schedule that selects, or sends values in a
                           narrower format: the sum of inputs that were multiplied by 1 / ranks */
    HKT_PREMUL_SUM = 8, /* each rank's input is multiplied by its factor, then the products are added. Used
                           with names and hkt_op_supports only: collectives take operators that
                           hkt_premul_sum_create makes */
    HKT_OP_LAST = 0x7fffffff /* not an operator: made operators have lower numbers */
} hkt_op;

typedef enum hkt_collective {
    HKT_ALL_REDUCE = 0,
    HKT_REDUCE_SCATTER = 1,
    HKT_ALL_GATHER = 2,
    HKT_BROADCAST = 3,
    HKT_GATHER = 4,
    HKT_REDUCE = 5,
    HKT_SCATTER = 6,
    HKT_ALL_TO_ALL = 7
} hkt_collective;

/* The executor of a plan's local work. */
typedef enum hkt_executor {
    /* HOCKET_EXECUTOR (jit|interpreter); else the kernels that came with Hocket, where a plan needs no
     * others; else the interpreter for the first starts, then the JIT. */
    HKT_EXECUTOR_DEFAULT = 0,
    HKT_EXECUTOR_JIT = 1,        /* kernels for this machine; an error (IO) without libhocket_jit.so */
    HKT_EXECUTOR_INTERPRETER = 2 /* the oracle: the same plan, walked step by step */
} hkt_executor;

/* When the operations of a communicator make progress. */
typedef enum hkt_progress {
    HKT_PROGRESS_DEFAULT = 0, /* HOCKET_PROGRESS (calls|thread); else HKT_PROGRESS_CALLS */
    HKT_PROGRESS_CALLS = 1,   /* while a thread of the program is in a call of the communicator */
    HKT_PROGRESS_THREAD = 2   /* also in between, on a thread of Hocket's own: operations make progress while
                                 the program computes. The thread sleeps while nothing is in flight, and leaves
                                 the work to a thread that waits. Blocking calls are not affected by it */
} hkt_progress;

/* Private buffers of the program that collectives use again and again. */
typedef enum hkt_share_buffers {
    HKT_SHARE_BUFFERS_DEFAULT = 0, /* HOCKET_SHARE_BUFFERS (on|off); else HKT_SHARE_BUFFERS_OFF */
    HKT_SHARE_BUFFERS_OFF = 1,     /* stay private */
    HKT_SHARE_BUFFERS_ON = 2 /* at the third use, buffers of 64 KiB and more become memory that the ranks
                                of the host share, as hkt_mem_register makes it, where that is possible
                                (docs/c-abi.md). The program may free them as it likes */
} hkt_share_buffers;

typedef struct hkt_comm hkt_comm;
typedef struct hkt_plan hkt_plan;
typedef struct hkt_request hkt_request;
typedef struct hkt_cache hkt_cache;
typedef struct hkt_cache_value hkt_cache_value;
typedef struct hkt_params hkt_params;
typedef struct hkt_params_server hkt_params_server;

/* ---- Errors ----------------------------------------------------------------------------------- */

/* The name of a status, e.g. "peer lost". Static storage. Thread-safe. */
HKT_API const char* hkt_error_string(hkt_status status);

/* The text of the calling thread's last failed call that had no communicator to keep it (such as
 * hkt_comm_create). Never null; "" if there was none. Valid until the thread's next hkt_ call. */
HKT_API const char* hkt_last_error(void);

/* The whole text of the last error of this communicator: what happened, on which rank, with which peer, in
 * which step and source line, and what can be done. Never null; "" if there was none. The copy belongs to the
 * calling thread, and is valid until that thread's next hkt_ call. A null comm gives hkt_last_error(). */
HKT_API const char* hkt_comm_last_error(const hkt_comm* comm);

/* The version of the library, e.g. "0.1.0". Static storage. */
HKT_API const char* hkt_version(void);

/* ---- Names ------------------------------------------------------------------------------------ */
/* Types, operators and collectives by their names: "float32", "sum", "all_reduce". Thread-safe. */

/* Bytes of one element, or 0 for an unknown type. */
HKT_API size_t hkt_type_size(hkt_type type);

/* The name, or null if there is no such constant. Static storage. */
HKT_API const char* hkt_type_name(hkt_type type);
HKT_API const char* hkt_op_name(hkt_op op);
HKT_API const char* hkt_collective_name(hkt_collective collective);

/* The constant with that name. Errors: INVALID_ARGUMENT; the text (hkt_last_error) lists the names. */
HKT_API hkt_status hkt_type_from_name(const char* name, hkt_type* type);
HKT_API hkt_status hkt_op_from_name(const char* name, hkt_op* op);
HKT_API hkt_status hkt_collective_from_name(const char* name, hkt_collective* collective);

/* 1 if the operator exists for the type, else 0. Collectives refuse a pair that does not exist
 * (INVALID_ARGUMENT) before anything is sent. */
HKT_API int32_t hkt_op_supports(hkt_op op, hkt_type type);

/* ---- Communicator ----------------------------------------------------------------------------- */

/* Where the ranks of a communicator meet, as a text that ends with a zero. Never grows. */
typedef struct hkt_unique_id {
    char text[128];
} hkt_unique_id;

/* A store of the program's own, in which each rank finds values that another has put: torch's Store, etcd, a
 * launcher's PMIx, files that only the ranks can read. Both functions are called by hkt_comm_create alone, in
 * the thread that calls it, and return 0, or another number if they failed; they must not throw. Start from
 * HKT_STORE_INIT. */
typedef struct hkt_store {
    size_t size;        /* sizeof(hkt_store) */
    const char* prefix; /* The key is "PREFIX/hocket". The same prefix on all ranks of a communicator, and
                           another one for each communicator for which the store is used: a key is set once */
    /* Puts `bytes` bytes (at most 1024) under the key. Rank 0 calls it, once. */
    int (*set)(void* user, const char* key, const void* value, size_t bytes);
    /* Waits until a rank has set the key, at most timeout_ms (then it has failed); writes the value, at most
       `room` bytes of it, and sets *bytes to the value's size. The other ranks call it, once. */
    int (*get)(void* user, const char* key, void* value, size_t room, size_t* bytes, int64_t timeout_ms);
    void* user; /* passed to both functions */
} hkt_store;

#define HKT_STORE_INIT \
    { sizeof(hkt_store), NULL, NULL, NULL, NULL }

/* As rank in hkt_comm_options: the ranks of a running job, which call hkt_comm_grow, take this process in. */
#define HKT_NEWCOMER (-2)

/* Everything has a default: start from HKT_COMM_OPTIONS_INIT and change what you need. A field left at
 * 0 or null is taken from the environment variable named beside it, then from the default. */
typedef struct hkt_comm_options {
    size_t size;               /* sizeof(hkt_comm_options) */
    int32_t rank;              /* RANK; -1: environment; HKT_NEWCOMER: rank 0 gives it, and world_size */
    int32_t world_size;        /* WORLD_SIZE; 0: environment. Neither set: a world of one */
    const char* master_addr;   /* MASTER_ADDR; 127.0.0.1 */
    int32_t master_port;       /* MASTER_PORT; 0: environment */
    const char* secret;        /* HOCKET_SECRET: the secret that a process must know to join. Required if
                                  world_size > 1 */
    const char* provider;      /* HOCKET_PROVIDER: "tcp" (Hocket's own), "ofi+tcp", "verbs" or another of
                                  libfabric's with reliable-datagram endpoints, or "card" (a network card
                                  with RDMA that all hosts have, else tcp), for messages between hosts;
                                  ranks of one host use each other's memory. Unset: tcp. The environment's
                                  HOCKET_PROVIDER_FOR_ALL names one for messages inside hosts, too */
    const char* topology;      /* HOCKET_TOPOLOGY: "2x3" (innermost first), "bcube(3,2)", a .sched file or
                                  "FILE:NAME(ARGS)"; found: "4m", "2mx3h" (docs/language.md) */
    const char* schedule;      /* HOCKET_SCHEDULE: the schedule of those collectives that it exists for (as
                                  schedule or as algorithm); the others take Hocket's choice: "ring" has no
                                  broadcast. A name that exists for no collective is an error (NOT_FOUND) of
                                  hkt_comm_create. Spelling: see hkt_plan_create. Default: Hocket's choice */
    const char* schedule_path; /* HOCKET_SCHEDULE_PATH: folders of .sched files, separated by ':', searched
                                  before the library that Hocket was built with */
    int32_t executor;          /* hkt_executor; HOCKET_EXECUTOR */
    int64_t timeout_ms;        /* HOCKET_TIMEOUT_MS; 60000: the longest that joining, making a plan, or one
                                  operation may take before it fails with HKT_ERROR_TIMEOUT; at most a day.
                                  Between calls, without a progress thread, a pause of more than a quarter of it
                                  does not count: the process may have been stopped. So hkt_test alone, if
                                  called less often than that, never times out */
    int32_t progress;          /* hkt_progress; HOCKET_PROGRESS */
    int32_t listen_fd;         /* HOCKET_LISTEN_FD; 0: none. Rank 0's socket that is bound and listens; then
                                  only the other ranks need master_port. The caller keeps it */
    const hkt_unique_id* unique_id; /* from rank 0's hkt_unique_id_create: replaces master_addr, master_port,
                                       listen_fd and secret, which must not be set, and whose variables are
                                       not read. Null: none */
    const hkt_store* store;         /* replaces the same: rank 0 puts its address and a fresh secret into this
                                       store, and the others read them. Null: none. Only while joining */
    /* Returns non-zero if a wait should end early: for example, a handler of Ctrl-C has set a flag, or
     * Python's PyErr_CheckSignals() has found an exception. Null: waits are not interrupted. hkt_wait,
     * hkt_wait_for and hkt_wait_any on requests of comm call it every 50 ms and when their time is over, in
     * the thread that waits. If it returns non-zero, they return HKT_ERROR_INTERRUPTED, and the requests go
     * on; so do waits of an hkt_overlap. Waits of 0 ms do not call it, nor do operations without a request:
     * start operations that should be interruptible with one. The function must not end the operation that is
     * waited for, wait itself, throw or jump; operations driven by this thread make no progress meanwhile.
     * Groups of comm inherit it. */
    int (*is_interrupted)(void* user);
    void* interrupt_user;  /* passed to is_interrupted */
    int64_t share_buffers; /* hkt_share_buffers; HOCKET_SHARE_BUFFERS. Groups of comm inherit it */
} hkt_comm_options;

#define HKT_COMM_OPTIONS_INIT                                                                           \
    {                                                                                                   \
        sizeof(hkt_comm_options), -1, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL, \
            NULL, NULL, 0                                                                               \
    }

/* Makes an id, which the program passes to all ranks in its own way (a store, MPI, a file that only they
 * can read: the id holds the job's secret). The calling process becomes rank 0 of one communicator that is
 * created with the id, or takes in new processes through it; it listens from now on, on a port that the
 * system chooses, until the id is used or destroyed. Local. Thread-safe. Errors: INVALID_ARGUMENT,
 * BOOTSTRAP. */
HKT_API hkt_status hkt_unique_id_create(hkt_unique_id* id);

/* Sets *count to how many processes have come to the id, have proved that they know its secret, and wait in
 * hkt_comm_create: how many hkt_comm_grow would take in without waiting. Those that have ended meanwhile do
 * not count, nor those whose host has not answered for 10 s; a stopped process does. Only in the process that
 * has made the id, until the id is used or destroyed. Never waits: one that has just come may be counted only
 * by a later call. Thread-safe. Errors: INVALID_ARGUMENT, TRANSPORT, OUT_OF_MEMORY. */
HKT_API hkt_status hkt_unique_id_waiting(const hkt_unique_id* id, int32_t* count);

/* Closes an id that is not going to be used. Processes that wait there get HKT_ERROR_BOOTSTRAP, and so do
 * those that come later. Only in the process that has made the id. Never waits. Thread-safe. Errors:
 * INVALID_ARGUMENT (it was not made in this process, or has been used or destroyed), TRANSPORT. */
HKT_API hkt_status hkt_unique_id_destroy(const hkt_unique_id* id);

/* Joins the job: all world_size processes call this; it returns when all have joined or the deadline has
 * passed. options may be null (all from the environment). On success *comm is the caller's, to be given to
 * hkt_comm_destroy. Errors: INVALID_ARGUMENT, BOOTSTRAP, TRANSPORT, TIMEOUT, PEER_LOST, MISMATCH (the ranks'
 * topologies, schedules, providers or versions differ), SCHEDULE and NOT_FOUND (the topology or the
 * schedule), OUT_OF_MEMORY, IO; the text is in hkt_last_error(). Communicators that meet at the same address
 * and port are created one after another, in the same order on all ranks. A rank that fails after it has
 * reached rank 0 tells the others, and all fail with the same status and its text. If a rank dies, the others
 * get PEER_LOST (BOOTSTRAP while others still join); if one never comes, they get TIMEOUT. A rank that finds
 * no process at rank 0's address fails alone, with BOOTSTRAP. libfabric is loaded here, and only for one of
 * its own providers; the process's signal handlers stay as they are. */
HKT_API hkt_status hkt_comm_create(const hkt_comm_options* options, hkt_comm** comm);

/* Leaves the job and frees the communicator; its plans must have been destroyed before, and its unfinished
 * requests become invalid. Never waits for other ranks longer than a second; where the link to one is
 * down, until it is up again or the rank is lost, for 30 s at most. Calls of other threads end first, as
 * after hkt_comm_abort; no call may begin any more. In a forked child it only frees the child's copy, and the
 * parent's job does not notice. Null is a no-op. It tells no failure: where a stream of a device has had
 * starts (HOCKET_CUDA_PLANS), synchronise with the stream and ask hkt_comm_status before, and only then rely
 * on recv. */
HKT_API void hkt_comm_destroy(hkt_comm* comm);

/* The ranks of comm divide themselves into groups: ranks that give the same color (0 or more) make a
 * communicator, numbered by their keys, and for equal keys by their ranks in comm. A rank that gives
 * HKT_NO_COLOR gets *group = null. All ranks of comm call this, in the same order as everything else on comm.
 * The group has the settings of comm, except a declared topology: its own is detected. It is a communicator
 * like any other, to be destroyed before or after comm. It has sockets and plans of its own; schedules that
 * comm has read are not read again; shared memory belongs to the process, so the group uses memory of comm
 * (hkt_mem_alloc, hkt_mem_register) as it uses its own. Errors: those of hkt_comm_create; the text is that of
 * comm. */
#define HKT_NO_COLOR (-1)
HKT_API hkt_status hkt_comm_split(hkt_comm* comm, int32_t color, int32_t key, hkt_comm** group);

/* As hkt_comm_split, for one group: ranks[i] of comm becomes rank i of the group, and all other ranks get
 * *group = null. All ranks of comm pass the same list. With all ranks in their order it duplicates comm. */
HKT_API hkt_status hkt_comm_create_group(hkt_comm* comm, const int32_t* ranks, size_t count,
                                         hkt_comm** group);

/* After ranks were lost: makes *shrunken, a communicator of the ranks of comm that are left, in their order.
 * All of them call this, within the deadline of comm; calls on comm that are still under way on other ranks
 * end with HKT_ERROR_ABORTED. All get the same ranks, even if more ranks are lost meanwhile, rank 0 included.
 * comm fails permanently, and must still be destroyed, later or at once. Late ranks of comm can still write
 * only to memory of comm. The settings are those of comm, except a declared topology. Errors: those of
 * hkt_comm_create; TIMEOUT if a rank that has not ended does not come (another call then goes on without it);
 * BOOTSTRAP if such ranks are more than those that have come, or as many and the first rank is among them,
 * because they may have gone on by themselves. Ranks that have ended count as such, too, if this rank calls
 * after the time for which they waited for it: the deadline of comm, counted from its failure. The text is
 * that of comm. */
HKT_API hkt_status hkt_comm_shrink(hkt_comm* comm, hkt_comm** shrunken);

/* As newcomers of hkt_comm_grow: all processes that wait at rank 0's id when rank 0 calls it. */
#define HKT_ALL_WAITING 0

/* Takes new processes in, while the job runs: makes *grown, a communicator of the ranks of comm, with their
 * numbers, and of `newcomers` processes, which get the numbers after these in the order in which they come.
 * All ranks of comm call this, in the same order as everything else on comm. The new processes call
 * hkt_comm_create with rank = HKT_NEWCOMER and unique_id = id, before or after; it returns when they are in.
 * id: made by the process of rank 0 with hkt_unique_id_create; ignored on the other ranks, where it may be
 * null.
 *   newcomers   1 or more: exactly this many; the call waits for those that have not come yet, up to the
 *               deadline of comm. HKT_ALL_WAITING: the processes that wait now. If there are none, the call
 *               returns HKT_SUCCESS: *grown is null on all ranks, and the id is as before. That costs as much
 *               as an all_reduce of a few bytes, so it may be called between any two steps. Like
 *               hkt_unique_id_waiting, it counts a stopped process: the ranks then wait for it up to the
 *               deadline.
 *   id          is used up otherwise, even if the call fails: rank 0 makes another one for processes that
 *               come later. Only if newcomers or grown itself is refused, the id is as before.
 *   comm        stays usable, even if the call fails, unless one of its ranks is lost or does not make the
 *               call within the deadline; destroy it when the new one works.
 *   grown       has the settings of comm, except a declared topology, which the new processes leave out,
 *               too. They give the provider and the schedule that the ranks of comm have, and
 *               HOCKET_HOST_ID and HOCKET_PROVIDER_FOR_ALL if these have them; else all get MISMATCH. Their
 *               first collective is the ranks' next one.
 *   Errors      If a new process ends while it is taken in, all ranks of comm get BOOTSTRAP or PEER_LOST, at
 *               once; comm still works then, as hkt_comm_status(comm) shows, and the other new processes come
 *               to the next id. If a rank of comm is lost, the call returns PEER_LOST, and so does
 *               hkt_comm_status; as in any collective, a rank that is lost at the very end may leave some
 *               ranks with the new communicator, which then fails, and others with the error. TIMEOUT if not
 *               all come in time; MISMATCH if ranks ask for different numbers; INVALID_ARGUMENT (also: the id
 *               was not made in rank 0's process, or has been used or destroyed); ABORTED; and those of
 *               hkt_comm_create. The text is that of comm.
 * A new process waits to be taken in for its own timeout_ms (then TIMEOUT), and afterwards as long as the
 * ranks of comm. */
HKT_API hkt_status hkt_comm_grow(hkt_comm* comm, int32_t newcomers, const hkt_unique_id* id,
                                 hkt_comm** grown);

/* Sets *count to how many ranks of comm are known to be lost, and writes the first `room` of them to ranks,
 * ascending. After a loss, these include at least the rank that is named as lost; after hkt_comm_shrink, all
 * ranks that did not take part. ranks may be null if room is 0. Thread-safe. Errors: INVALID_ARGUMENT. */
HKT_API hkt_status hkt_comm_lost(hkt_comm* comm, int32_t* ranks, size_t room, size_t* count);

/* Aborts comm: all calls on comm that are under way in other threads end soon with HKT_ERROR_ABORTED, later
 * ones at once, and the other ranks' operations fail with it as well; their text names this rank. An earlier
 * failure remains the failure of comm. comm must still be destroyed. From any thread, also beside threads
 * that wait; does not wait for other ranks. Errors: INVALID_ARGUMENT. */
HKT_API hkt_status hkt_comm_abort(hkt_comm* comm);

/* Writes this rank's last operations on comm to the file `path`, as JSON: for each operation its number,
 * collective, schedule, type, count, start and end; for operations in flight also the current step of the
 * schedule, its source line, and the rank that they wait for. See "Flight recorder" in docs/running.md.
 * Local; does not wait for other ranks. From any thread, also beside threads that wait. The file is replaced
 * atomically. Errors: INVALID_ARGUMENT, IO. */
HKT_API hkt_status hkt_comm_dump(hkt_comm* comm, const char* path);

/* This process's rank in 0 .. size - 1, and the number of ranks. -1 if comm is null, or a parent's (see
 * "Fork" above). */
HKT_API int32_t hkt_comm_rank(const hkt_comm* comm);
HKT_API int32_t hkt_comm_size(const hkt_comm* comm);

/* HKT_SUCCESS while the communicator is usable; else the error that broke it (PEER_LOST, TRANSPORT, ...),
 * which every later start and wait on it returns too. It looks at starts that a stream of a device has
 * (HOCKET_CUDA_PLANS), and waits for no other rank, unless it is what finds their failure: then it takes up
 * to three seconds, in which it asks the other ranks, and waits for this rank's kernels to end. A program
 * that makes such starts without a request asks this after it has synchronised with the stream, and before it
 * relies on recv. */
HKT_API hkt_status hkt_comm_status(hkt_comm* comm);

/* Facts of the communicator, for logs: "provider", "provider_why" (the reason for it), "lost_rails" (the
 * connections that others have taken over from, with HOCKET_RAILS; "" if none), "topology", "links" (what was
 * measured of the links between hosts when the ranks met, or why nothing was), "planning_topology" (the
 * topology with that, by which schedules are chosen), "schedule_path", "executor", "progress" (calls or
 * thread), "by_host" (why starts on memory of devices went by way of the host, a line for each reason; "" if
 * none did). Null for an unknown key. Valid until comm is destroyed. "executor": jit, also while plans are
 * still interpreted or need no kernels but those that came compiled with Hocket; interpreter where it was
 * chosen, and once the library of the JIT could not be loaded, which is also logged once: then plans that
 * need other kernels are interpreted. */
HKT_API const char* hkt_comm_info(const hkt_comm* comm, const char* key);

/* ---- Memory ----------------------------------------------------------------------------------- */
/* The ranks of a host read and write each other's buffers directly if all of these lie in memory from the
 * functions below; buffers in other memory are copied through shared memory, a tile at a time. Nothing
 * else differs, and each rank may have its buffers in either kind of memory. All these functions are
 * local: they don't wait for other ranks. All communicators of the process can use such memory, not only
 * the one with which it was allocated or registered. Exception: communicators that are made after another
 * one has failed copy buffers in older memory, unless no other working communicator is left: then they
 * take over the registered memory. Destroying a communicator frees or deregisters the memory that was not
 * given back to it. */

/* Allocates bytes of page-aligned memory, its contents undefined; null for 0 bytes. Errors: INVALID_ARGUMENT,
 * OUT_OF_MEMORY (a block can be as large as the machine's memory, if limits on address space and on the size
 * of files allow; the text names the limit, or the free memory; nothing has changed). The other ranks of the
 * host need addresses for the block, too, once they use it: if the limit of one does not allow that, the
 * operation fails on all ranks with OUT_OF_MEMORY. Thread-safe. */
HKT_API hkt_status hkt_mem_alloc(hkt_comm* comm, size_t bytes, void** memory);

/* Gives back what hkt_mem_alloc returned; no operation may be using it. Null is a no-op. Errors:
 * INVALID_ARGUMENT. Thread-safe. */
HKT_API hkt_status hkt_mem_free(hkt_comm* comm, void* memory);

/* Makes memory that was allocated elsewhere (malloc, mmap; not the stack, not a file) shared in place:
 * address and contents stay, and the pages that lie wholly in it are replaced. Other data in its first and
 * last page are not touched: these two pages stay private if the memory does not begin and end at a page
 * boundary, and its contents in them are copied by each operation. The process needs addresses for the memory
 * once more, and the other ranks of the host once they use it, as for hkt_mem_alloc. While this runs no other
 * thread may write to the memory, and until hkt_mem_deregister it must not be freed; page pinning that was
 * done before (CUDA, RDMA, io_uring) is lost. The same memory may be registered again, with the same
 * communicator or another one, and is private again after as many calls of hkt_mem_deregister. Errors:
 * INVALID_ARGUMENT (memory of another kind, or that overlaps other memory that is registered), OUT_OF_MEMORY.
 * Thread-safe. */
HKT_API hkt_status hkt_mem_register(hkt_comm* comm, void* memory, size_t bytes);

/* Takes back one hkt_mem_register with comm; after the last one, of any communicator, the memory is private
 * again, and its contents stay. memory: as passed to hkt_mem_register. Errors: INVALID_ARGUMENT,
 * OUT_OF_MEMORY (the memory stays shared: call it again). Thread-safe. */
HKT_API hkt_status hkt_mem_deregister(hkt_comm* comm, void* memory);

/* Sets *is_shared to 1 if operations of comm use these bytes directly, as far as this rank is concerned: they
 * lie in one block of hkt_mem_alloc, or in one registered range, of any communicator of the process;
 * otherwise to 0. Errors: INVALID_ARGUMENT. Thread-safe. */
HKT_API hkt_status hkt_mem_is_shared(hkt_comm* comm, const void* memory, size_t bytes, int* is_shared);

/* ---- Memory of devices -------------------------------------------------------------------------- */
/* send and recv of every collective and of hkt_plan_start, and the buffer of hkt_send and hkt_recv, may be
 * memory of a CUDA device (of cudaMalloc and cudaMallocAsync, and managed memory): Hocket asks the driver
 * what a pointer is. One of them may be on a device and the other on the host, and ranks may differ in this.
 * Data are copied through pinned host memory, in pieces; Hocket keeps this memory for the next start, and
 * frees it with comm. Between processes of one host, messages of hkt_send and collectives that only move data
 * are copied from device to device by CUDA IPC where all buffers allow it (HOCKET_CUDA_IPC=off: never);
 * with HOCKET_CUDA_PLANS=on all collectives run there as kernels: then ranks must be alike in the place of
 * their buffers, and a call returns when the start is on its stream, with or without a request; a failure
 * comes with a later call.
 * Alignment, count and the in-place forms are as for memory of the host. The kernels (hkt_topk and those
 * below it) calculate on the device: see "Kernels on devices". Schedules that compute do so on the host:
 * send, recv and the further buffers of hkt_plan_start_with may each be on a device, whose data are copied.
 *
 * Order: a start reads its buffers after all work that was on its stream when the function was called. When a
 * blocking call, hkt_wait or hkt_test has returned HKT_SUCCESS, the copies to recv may still be under way,
 * but work that is enqueued on the stream from then on follows them; so the host must synchronise with the
 * stream before it reads recv by other means. (From device to device, the starts end only after the copies,
 * and so after the work that was on all these ranks' streams.) From start to end, the buffers must not be
 * used by any stream. Host memory, pinned memory included, has no such order: it is read and written during
 * the calls.
 *
 * Hocket never loads libcuda.so.1, but finds it once the process has loaded it. A process that creates comm
 * before it uses CUDA calls hkt_comm_set_stream before it passes memory of a device for the first time.
 * docs/device-buffers.md says more. */

/* Sets the stream for operations that the calling thread starts on comm from now on; other threads have their
 * own. stream: a CUstream or cudaStream_t, of any context; NULL, which holds before the first call: the
 * default stream of the device that the memory is on. The stream remains the caller's. It must live until the
 * operations started with it have ended (hkt_wait, hkt_test); afterwards, call hkt_comm_set_stream with
 * another one. A start keeps the stream that it began with, whichever thread waits for it. A stream that is
 * being captured into a graph is refused when something is started on it, but for what runs as kernels
 * (HOCKET_CUDA_PLANS). Local, never waits, thread-safe.
 * Errors: INVALID_ARGUMENT (a stream, but no CUDA driver in this process), DEVICE. */
HKT_API hkt_status hkt_comm_set_stream(hkt_comm* comm, void* stream);

/* ---- Operators with a factor, and of schedule files ------------------------------------------- */

/* Sets *op to a premul_sum with this rank's factor, which can be passed wherever a function takes an hkt_op:
 * recv[i] = the sum over all ranks of the rank's factor times its send[i]. The factors may differ by rank and
 * are not compared; the ranks must only agree that the operator is a premul_sum. send is not changed: each
 * rank works on a copy of it.
 *
 * The factor is converted to the type in which products are calculated: double for float64; float for
 * float32, float16 and bfloat16 (each product is rounded to 16 bits before products are added). For integers
 * it is a whole number from the type's least to its largest, and products wrap around. It is given as a
 * double for all of them, which is exact for whole numbers to 2^53: a larger factor of int64 or uint64 is the
 * nearest double. If the operator is used with a type that cannot hold the factor (2.5 for int32, 1e300 for
 * float32), the call fails with INVALID_ARGUMENT. If that happens on this rank only, the others wait for it
 * until their deadline, as after any argument that is wrong on one rank alone.
 *
 * Local: doesn't wait for other ranks. The operator is valid for comm only. A function that takes the
 * operator reads it before it returns: it may be destroyed while operations started with it are in flight,
 * and a plan keeps the factor that it was created with. hkt_op_name and hkt_op_supports treat it like
 * HKT_PREMUL_SUM. Thread-safe, also while other threads start operations. Errors: INVALID_ARGUMENT,
 * OUT_OF_MEMORY. */
HKT_API hkt_status hkt_premul_sum_create(double factor, hkt_comm* comm, hkt_op* op);

/* Sets *op to the operator that a schedule file defines (docs/language.md, "Operators"), which can be passed
 * wherever a function takes an hkt_op. name: "absmax", looked up in the folders of the communicator's
 * schedule_path, or "my.sched:absmax", or "my.sched" if that file has one operator. For float32, float64,
 * float16 and bfloat16, in all collectives that combine, and in plans; other types give INVALID_ARGUMENT. It
 * is calculated in double for float64, else in float; each step of a schedule combines all its operands and
 * rounds once to the type.
 *
 * A schedule may reorder operands only if the definition says `commutative`, and regroup them only if it says
 * `associative`. A schedule that was named and needs more than that gives SCHEDULE; where none was named,
 * such schedules are skipped. An operator that is neither is folded in the order of ranks: ((0, 1), 2), 3.
 * Hocket does not check these words. All ranks must use operators that calculate the same, or get MISMATCH.
 *
 * Local: doesn't wait for other ranks; a file that is named is read now. The operator is valid for comm only,
 * and may be destroyed while operations started with it are in flight; a plan keeps the operator that it was
 * created with. hkt_op_name gives "user-defined" for it, and hkt_op_supports 1 for the four types: both
 * recognise it by its number alone, even after it was destroyed. Thread-safe, also while other threads start
 * operations. Errors: NOT_FOUND (no such file or operator; the text lists the existing ones), SCHEDULE (the
 * definition is wrong; the text has the line), INVALID_ARGUMENT (a null or empty name), IO, OUT_OF_MEMORY. */
HKT_API hkt_status hkt_op_create(hkt_comm* comm, const char* name, hkt_op* op);

/* Destroys the operator. Destroying comm destroys all its operators. Thread-safe. Errors: INVALID_ARGUMENT (a
 * constant, an operator that was destroyed before, or another communicator's). */
HKT_API hkt_status hkt_op_destroy(hkt_op op, hkt_comm* comm);

/* ---- Collectives ------------------------------------------------------------------------------ */
/* Each looks its plan up in the communicator's cache and makes it at first use (see hkt_plan_create), then
 * starts it. With a non-null request it returns at once; the buffers belong to Hocket until the request is
 * complete (hkt_wait or hkt_test). With request == NULL it waits. send and recv may be null when the count is
 * 0, and where they are ignored; otherwise they are aligned to their elements. They may be memory of a
 * device (see above). Errors: INVALID_ARGUMENT, SCHEDULE, NOT_FOUND, OUT_OF_MEMORY, IO, DEVICE, and those of
 * hkt_wait. */

/* recv[i] = op over all ranks of send[i], i in 0 .. count - 1, on every rank. */
HKT_API hkt_status hkt_all_reduce(const void* send, void* recv, size_t count, hkt_type type, hkt_op op,
                                  hkt_comm* comm, hkt_request** request);

/* recv[i] = op over all ranks of send[rank * recv_count + i], i in 0 .. recv_count - 1.
 * send: recv_count * size elements; recv: recv_count elements. */
HKT_API hkt_status hkt_reduce_scatter(const void* send, void* recv, size_t recv_count, hkt_type type,
                                      hkt_op op, hkt_comm* comm, hkt_request** request);

/* recv[r * send_count + i] = rank r's send[i], on every rank.
 * send: send_count elements; recv: send_count * size elements. */
HKT_API hkt_status hkt_all_gather(const void* send, void* recv, size_t send_count, hkt_type type,
                                  hkt_comm* comm, hkt_request** request);

/* recv[i] = root's send[i] on every rank, the root included. send is read on the root only and may be
 * null elsewhere. */
HKT_API hkt_status hkt_broadcast(const void* send, void* recv, size_t count, hkt_type type, int32_t root,
                                 hkt_comm* comm, hkt_request** request);

/* recv[r * send_count + i] = rank r's send[i], on rank `root`; the others' recv is ignored, and may be NULL.
 * send: send_count elements; the root's recv: send_count * size. In place: send == recv + root * send_count
 * on the root. */
HKT_API hkt_status hkt_gather(const void* send, void* recv, size_t send_count, hkt_type type, int32_t root,
                              hkt_comm* comm, hkt_request** request);

/* recv[i] = op over all ranks of send[i], i in 0 .. count - 1, on rank `root`; the others' recv is ignored,
 * and may be NULL. In place: recv == send on the root. */
HKT_API hkt_status hkt_reduce(const void* send, void* recv, size_t count, hkt_type type, hkt_op op,
                              int32_t root, hkt_comm* comm, hkt_request** request);

/* recv[i] = the root's send[rank * recv_count + i], on every rank; the others' send is ignored, and may be
 * NULL. The root's send: recv_count * size elements; recv: recv_count. In place: recv == send + root *
 * recv_count on the root. */
HKT_API hkt_status hkt_scatter(const void* send, void* recv, size_t recv_count, hkt_type type, int32_t root,
                               hkt_comm* comm, hkt_request** request);

/* recv[r * count + i] = rank r's send[rank * count + i], on every rank: `count` elements from each rank to
 * each. send, recv: count * size elements. In place: recv == send; the library then copies send first. */
HKT_API hkt_status hkt_all_to_all(const void* send, void* recv, size_t count, hkt_type type, hkt_comm* comm,
                                  hkt_request** request);

/* As without _v, for pieces of different sizes: rank r's piece has counts[r] elements, 0 included. counts has
 * one number for each rank, is the same on all ranks, and is read before the function returns. A buffer of
 * all pieces (recv of all_gather_v and of gather_v's root, send of reduce_scatter_v and of scatter_v's root)
 * holds them one after the other, in the order of the ranks. A rank whose buffer has no elements may pass
 * NULL for it. In place: as without _v, where a rank's own piece lies among all pieces. A schedule that moves
 * a piece through another one's place is skipped or, if it was named, refused with SCHEDULE and its line. */
HKT_API hkt_status hkt_all_gather_v(const void* send, void* recv, const size_t* counts, hkt_type type,
                                    hkt_comm* comm, hkt_request** request);
HKT_API hkt_status hkt_reduce_scatter_v(const void* send, void* recv, const size_t* counts, hkt_type type,
                                        hkt_op op, hkt_comm* comm, hkt_request** request);
HKT_API hkt_status hkt_gather_v(const void* send, void* recv, const size_t* counts, hkt_type type,
                                int32_t root, hkt_comm* comm, hkt_request** request);
HKT_API hkt_status hkt_scatter_v(const void* send, void* recv, const size_t* counts, hkt_type type,
                                 int32_t root, hkt_comm* comm, hkt_request** request);

/* Like all_to_all, with a count for each pair of ranks: send_counts[q] elements from this rank to rank q, and
 * recv_counts[q] from rank q to this one. A rank gives only its own counts: the count that it sends to q must
 * be the count that q receives from it.
 *   counts      one for each rank, 0 included; the arrays are read before the function returns.
 *   displs      send_displs, recv_displs: where in send and recv the piece for or from each rank begins, in
 *               elements. NULL: one after the other, in the order of the ranks.
 *   buffers     Pieces of recv must overlap neither each other nor, unless in place, pieces of send: that is
 *               checked. Pieces of send may overlap each other. In place: recv == send, with the same counts
 *               and displacements for both on this rank; the library then copies send first. A rank whose
 *               buffer has no elements may pass NULL.
 *   MISMATCH    Two ranks give different counts for what one sends to the other: all ranks fail, with a text
 *               that names both ranks and their counts; only the receivers' pieces are written. A rank that
 *               has received all its pieces may return before it learns of the failure; then its next
 *               operation fails.
 *   SCHEDULE    Each piece is sent directly from its sender to its receiver. If the communicator's schedule
 *               passes pieces on (bruck, default), it is refused. */
HKT_API hkt_status hkt_all_to_all_v(const void* send, const size_t* send_counts, const size_t* send_displs,
                                    void* recv, const size_t* recv_counts, const size_t* recv_displs,
                                    hkt_type type, hkt_comm* comm, hkt_request** request);

/* Returns when every rank has entered the barrier. Always waits. */
HKT_API hkt_status hkt_barrier(hkt_comm* comm);

/* Like hkt_barrier, with a request, which ends when every rank has entered the barrier, by hkt_barrier or by
 * this function. A null request is INVALID_ARGUMENT. */
HKT_API hkt_status hkt_barrier_start(hkt_comm* comm, hkt_request** request);

/* A barrier that reports missing ranks: returns HKT_SUCCESS once every rank has come to it, or
 * HKT_ERROR_TIMEOUT after timeout_ms (1 or more), with a text that names all ranks that have not come. comm
 * stays usable then. A rank that calls it again comes to the same barrier, and waits for those that were
 * missing. When the last of them comes, the barrier is over for all ranks, even those that meanwhile do
 * something else: their next call returns at once. All ranks must call it equally often. It takes no place in
 * the order of collectives, and only ranks that come to it need to be inside a call of Hocket; while it
 * waits, this rank's operations make progress. Rank 0 keeps the list: if its process has stopped, the text
 * cannot name the others. It costs a message to rank 0 and back, so do not call it in every step of a
 * program. Errors: also PEER_LOST and those that comm has failed with. */
HKT_API hkt_status hkt_barrier_monitored(hkt_comm* comm, int64_t timeout_ms);

/* ---- Point to point --------------------------------------------------------------------------- */
/* A send on one rank and a receive on another (or the same) are matched by peer and tag: the first send to a
 * rank with a tag goes to the first receive from the sender with that tag, the second to the second, in the
 * order in which each side started them. They are outside the common order of collectives: each rank starts
 * them at any time, before, between or during collectives, independently of other ranks. Request, buffer and
 * alignment are as for the collectives; a buffer belongs to the caller again when the operation on its own
 * rank is complete.
 *
 * A small send, of up to 4000 bytes, may be complete before its receive was started, but this is not promised
 * for any number of sends. A program that sends several messages before the other side receives starts them
 * with requests, whatever their size. (After a few small messages, a send waits while its peer has no open
 * send or receive with this rank. While the peer has one, it keeps messages with other tags in its memory,
 * without a limit, so that the message for which it waits can come.) A longer send is complete once its
 * receive was started and the data have left this rank. So two ranks that send to each other, and a rank that
 * sends to itself, start the send or the receive with a request before they wait. Messages move inside
 * Hocket's calls on both ranks (starts, hkt_wait, hkt_test, collectives that wait), or by its progress
 * thread. A message that has not been received when its sender destroys its communicator may be lost.
 *
 * count and type's size must be the same on both sides. If they differ, the receiver finds it, and all ranks
 * fail with HKT_ERROR_MISMATCH; the text has both ranks, the tag and both sizes. A message whose peer never
 * sends or receives it ends with HKT_ERROR_TIMEOUT, which names the peer and the tag, and breaks the
 * communicator as a collective's timeout would. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, and those of
 * hkt_wait. */

/* Sends count elements at buffer to rank `peer`. tag: 0 or more. Without a request it waits until the send is
 * complete, which may be when the peer receives, even for a small one. */
HKT_API hkt_status hkt_send(const void* buffer, size_t count, hkt_type type, int32_t peer, int32_t tag,
                            hkt_comm* comm, hkt_request** request);

/* Receives count elements from rank `peer` into buffer. */
HKT_API hkt_status hkt_recv(void* buffer, size_t count, hkt_type type, int32_t peer, int32_t tag,
                            hkt_comm* comm, hkt_request** request);

/* Receives count elements from any rank, this one included, that sends with the tag; of several messages that
 * have arrived, the first. Messages of one rank are still received in their order, and of several receives
 * with the tag, from that rank or from any, the one that was started first gets the message. *source, if
 * source is not null, is set to the sender when the receive completes, and must stay valid until then; it is
 * undefined if the receive fails. From the first such call on, this rank listens to all ranks of comm. Fails
 * with PEER_LOST when all other ranks have left. Otherwise as hkt_recv. */
HKT_API hkt_status hkt_recv_any(void* buffer, size_t count, hkt_type type, int32_t tag, int32_t* source,
                                hkt_comm* comm, hkt_request** request);

/* ---- Requests --------------------------------------------------------------------------------- */

/* Waits until the operation is complete, frees the request, and returns the operation's status. Spins
 * briefly, then sleeps. HKT_ERROR_INTERRUPTED is not a status of the operation: the request stays valid then
 * (hkt_comm_options.is_interrupted). Errors: PEER_LOST, TIMEOUT, MISMATCH, TRANSPORT, DEVICE, ABORTED, and
 * failures of another rank alone (OUT_OF_MEMORY, IO, DEVICE); recv is then undefined and the communicator is
 * broken (hkt_comm_status). */
HKT_API hkt_status hkt_wait(hkt_request* request);

/* Returns HKT_IN_PROGRESS, and the request stays valid; or the operation's status, and frees the request. */
HKT_API hkt_status hkt_test(hkt_request* request);

/* As hkt_wait, for timeout_ms milliseconds at most (0: as hkt_test); then returns HKT_IN_PROGRESS, and the
 * request stays valid. More than a day counts as a day, here and for all other timeouts. Errors: those of
 * hkt_wait, and INVALID_ARGUMENT (timeout_ms is negative). */
HKT_API hkt_status hkt_wait_for(hkt_request* request, int64_t timeout_ms);

/* Waits until one of `count` requests has ended, for timeout_ms milliseconds at most, and sets *index to its
 * place: the first in the list, if several have. The request's status is not returned: the request stays
 * valid, and hkt_test returns its status at once. HKT_IN_PROGRESS if none has ended in time; *index is then
 * count. Null requests are skipped, so that a list can be emptied step by step; if all are null, that is
 * INVALID_ARGUMENT. The requests must be collectives and messages of one communicator. Thread-safe. Errors:
 * INVALID_ARGUMENT, INTERRUPTED. */
HKT_API hkt_status hkt_wait_any(hkt_request* const* requests, size_t count, int64_t timeout_ms,
                                size_t* index);

/* Makes one request of several: it is complete when all of them are, and its status is that of the first in
 * the list that failed. They belong to it from now on, and must no longer be used by themselves. So a group
 * of operations, such as sends and receives with several peers, can be started one after another, and waited
 * for, or notified, as one. The joined request cannot be joined again, nor passed to hkt_wait_any. The
 * requests must be collectives and messages of one communicator. Thread-safe. Errors: INVALID_ARGUMENT (none,
 * a null one, several communicators), OUT_OF_MEMORY; the requests then still belong to the program. */
HKT_API hkt_status hkt_request_join(hkt_request* const* requests, size_t count, hkt_request** request);

/* Notifications of ends
 *   A program that does other work can be notified when an operation ends, in success or failure; at once, if
 * it has ended already. The request still belongs to the program, and hkt_test returns its status. A request
 * that is still in flight when its communicator is destroyed gives no notification. A notification makes no
 * progress on operations: use options.progress = HKT_PROGRESS_THREAD, or have a thread that waits. A request
 * may have several notifications of both kinds. For collectives and messages; a batch of a cache, a push or a
 * pull is INVALID_ARGUMENT. Thread-safe. */

/* Adds 1 to the eventfd (eventfd(2)), so that poll, epoll or an event loop wakes up. One descriptor may serve
 * many requests: reading it gives the number of those that have ended. Hocket duplicates the descriptor, so
 * the program may close its own at any time. Errors: INVALID_ARGUMENT (also for a descriptor that is not an
 * eventfd), OUT_OF_MEMORY (also for lack of descriptors). */
HKT_API hkt_status hkt_request_eventfd(hkt_request* request, int eventfd);

/* Calls function(user) once, from a thread of the communicator for that purpose: the functions of all its
 * requests are called one after another, so a slow one delays the others. function may use Hocket, even wait
 * for the request and start others, but must not destroy this communicator, and must not throw.
 * hkt_comm_destroy returns after the last of them has. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY (also if no
 * thread can be started). */
HKT_API hkt_status hkt_request_callback(hkt_request* request, void (*function)(void* user), void* user);

/* ---- Plans ------------------------------------------------------------------------------------ */

/* Options of a plan; start from HKT_PLAN_OPTIONS_INIT. */
typedef struct hkt_plan_options {
    size_t size;                 /* sizeof(hkt_plan_options) */
    const char* schedule;        /* null: the communicator's choice. "": Hocket's choice, also where the
                                    communicator names a schedule. Else it must exist for this very
                                    collective, or making the plan fails with NOT_FOUND. A name in the library
                                    ("blueconnect"), one with arguments ("flat(ring, doubling)"), a file with one
                                    schedule of the collective ("my.sched"), or "FILE:NAME(ARGS)" */
    int32_t root;                /* if the collective has one */
    int32_t executor;            /* hkt_executor */
    const size_t* tensor_counts; /* for starts with lists of tensors, and for a schedule that calculates for
                                    each tensor, as lars does: x is a list of tensors, and this array has the
                                    number of elements of each; their sum is the count of every start. Null: x
                                    is one tensor. Copied */
    size_t tensors;              /* how many numbers tensor_counts has */
    const char* collective;      /* null: the one that the call names. Else a collective that a schedule file
                                    defines, and the call's is ignored: "scan", "my.sched:scan", or "my.sched" if
                                    that file defines one. If `schedule` names a file, that file's come first */
} hkt_plan_options;

#define HKT_PLAN_OPTIONS_INIT \
    { sizeof(hkt_plan_options), NULL, 0, 0, NULL, 0, NULL }

/* Reads the schedule, verifies it against the communicator's topology, projects it onto this rank and
 * compiles it for the type and operator (op is ignored for collectives that do not combine, whose functions
 * take none; HKT_AVERAGE is not for collectives that files define). Local: doesn't wait for other ranks.
 * options may be null. The plan can be started with any count, many times; the caller must destroy it before
 * comm. Errors: SCHEDULE (the text is the compiler's
 * diagnostic, with file, line, caret and counter-example), NOT_FOUND, INVALID_ARGUMENT; also OUT_OF_MEMORY,
 * IO, and TIMEOUT (making the plan took longer than the communicator's timeout_ms). The other ranks would
 * start the plan, so these last three are reported to them, and end the communicator. */
HKT_API hkt_status hkt_plan_create(hkt_comm* comm, hkt_collective collective, hkt_type type, hkt_op op,
                                   const hkt_plan_options* options, hkt_plan** plan);

/* Starts the plan. count is the one that the collective's function takes: where the data are divided by rank,
 * the count of one piece (recv_count of hkt_reduce_scatter, send_count of hkt_all_gather). Buffers, request
 * and errors are as for the collectives. Several starts of one plan may be in flight. */
HKT_API hkt_status hkt_plan_start(hkt_plan* plan, const void* send, void* recv, size_t count,
                                  hkt_request** request);

/* The elements of this rank's send and recv in a start with this count: 0 for a buffer that is ignored. What
 * they are for a collective that a schedule file defines follows from its contract (docs/language.md).
 * Errors: those of hkt_plan_create, as the plan for that count is made if it does not exist yet. */
HKT_API hkt_status hkt_plan_extents(hkt_plan* plan, size_t count, size_t* send, size_t* recv);

/* Arguments of a start for a schedule that computes, and the form of the buffers. Start from
 * HKT_START_OPTIONS_INIT. */
typedef struct hkt_start_options {
    size_t size;              /* sizeof(hkt_start_options) */
    const double* parameters; /* the parameters that the schedule's header names without a default, in its
                                 order; the same on all ranks. Copied */
    size_t parameter_count;
    const void* const* buffers; /* the further buffers that the header names after `with`, in its order: each
                                   has as many elements as x, of float32 (of float64 if x is of that), the
                                   same on all ranks. They are read until the operation is complete */
    size_t buffer_count;
    size_t tensors; /* 0: send, recv and each of buffers point to elements. Otherwise they are lists of so
                       many tensors, which may lie anywhere (see below); the number must be
                       hkt_plan_options.tensors */
} hkt_start_options;

#define HKT_START_OPTIONS_INIT \
    { sizeof(hkt_start_options), NULL, 0, NULL, 0, 0 }

/* Lists of tensors
 *   With hkt_start_options.tensors, send, recv and each of options.buffers are the addresses of arrays with
 * that many pointers, one to each tensor of hkt_plan_options.tensor_counts. The arrays are copied. Only for
 * collectives whose x is whole on each rank: all_reduce, reduce, broadcast. send and recv may be the same
 * list, and may overlap in any other way, but no two tensors of recv may overlap. The tensors are copied when
 * the operation starts, and the results when hkt_wait or hkt_test finds it complete: until then the program
 * must not touch the tensors of recv, even if a callback or an eventfd has announced the end of the
 * operation. If the tensors of send and those of recv are contiguous (views of one bucket), the operation
 * works on them directly, without copies. The same holds for each of buffers, which may lie in recv, too.
 * Other ranks may pass whole buffers. The lists themselves are in host memory, and so are tensors that are
 * copied: INVALID_ARGUMENT names one that is not. */

/* As hkt_plan_start, with the arguments that the schedule needs; options may be null. Errors: as
 * hkt_plan_start; INVALID_ARGUMENT also for more or fewer parameters or buffers than the schedule takes, for
 * a null buffer, and for lists that do not meet the rules above. Parameters that differ between ranks are a
 * MISMATCH. */
HKT_API hkt_status hkt_plan_start_with(hkt_plan* plan, const void* send, void* recv, size_t count,
                                       const hkt_start_options* options, hkt_request** request);

/* The name of a parameter of each start, counted from 0; null if there is none. Valid until the plan is
 * destroyed. */
HKT_API const char* hkt_plan_parameter(hkt_plan* plan, size_t index);

/* States
 *   A schedule may keep values from one start to the next, as hitopk keeps the values that it has not sent.
 * They belong to the plan, and are 0 at first. Such a plan has one count, that of its first start, until its
 * state is reset: make a plan for each tensor. Its starts take turns. A collective's own function
 * (hkt_all_reduce) refuses a schedule with states: it has no plan of its own to keep them. After a failed
 * start the state belongs to no step: load an older one, or reset it. The states of all ranks of a job can be
 * loaded by a job of any number of ranks with the same schedule; its arguments may differ. With as many ranks
 * and the same topology each rank gets its own state back, bit for bit. Otherwise the old ranks' values for
 * an element are added, in the order of the ranks, and one of the new ranks gets the sum, the others 0: no
 * value that was not sent yet is lost. Where the proof has found that several old ranks keep the same value
 * for an element, because it comes from the same ranks' inputs, it counts once; new ranks that keep the same
 * value all get it. So a momentum of complete sums, or of broadcast values, is unchanged on all ranks. */

/* Writes this rank's state to memory, and its size to *bytes. If `room` is smaller than that, or memory is
 * null, only *bytes is set, and the call succeeds. Not while a start is in flight. Errors: INVALID_ARGUMENT
 * (the schedule has no state, the plan has never been started, its last start failed). After starts with
 * count 0 only, the state has no elements, and can be loaded, too; the next start may have any count. */
HKT_API hkt_status hkt_plan_save_state(hkt_plan* plan, void* memory, size_t room, size_t* bytes);

/* Replaces this rank's state by the states that a job's ranks have saved: all count of them, in any order;
 * the same on all ranks of this job. Errors: INVALID_ARGUMENT (the text says what is wrong with which state;
 * the format is older; x has as many elements as when it was saved, and these are not divided evenly by this
 * job's ranks where each has a piece); the state is then unchanged. OUT_OF_MEMORY. */
HKT_API hkt_status hkt_plan_load_state(hkt_plan* plan, const void* const* saved, const size_t* bytes,
                                       size_t count);

/* Sets the state to zeros; the next start may have another count. Call it on all ranks, like
 * hkt_plan_load_state: if ranks' states belong to different steps, the next start is a MISMATCH. */
HKT_API hkt_status hkt_plan_reset_state(hkt_plan* plan);

/* Explains the plan for 1 MiB in words: this rank's steps with their source lines. Valid until the plan is
 * destroyed. */
HKT_API const char* hkt_plan_explain(hkt_plan* plan);

/* The schedule that a start with this count takes: its name on the first line and, if Hocket chose it, the
 * reason on the lines that follow. Makes the plan for that count if it does not exist yet; "" if that fails.
 * Valid until the plan is destroyed. */
HKT_API const char* hkt_plan_schedule(hkt_plan* plan, size_t count);

/* Frees the plan; its started requests must be complete. Null is a no-op. */
HKT_API void hkt_plan_destroy(hkt_plan* plan);

/* ---- Schedules without a communicator ----------------------------------------------------------- */
/* The functions of schedc, for programs: they check and explain schedules before there is a job.
 * HOCKET_SCHEDULE_PATH and HOCKET_TIMEOUT_MS give the folders of schedules and the deadline. *text is the
 * calling thread's copy, valid until its next call of these functions. Thread-safe. The text of an error is
 * in hkt_last_error(). */

/* Checks every definition of the file `file`: algorithms on groups of many sizes, schedules on `topology`, or
 * on many small ones if it is null. *text (text may be null) has a line for each correct definition, with the
 * cases that were checked. Errors: SCHEDULE (the diagnostics of all errors, with line, caret and
 * counter-example, or of checks that took too long), NOT_FOUND, IO, INVALID_ARGUMENT, OUT_OF_MEMORY. */
HKT_API hkt_status hkt_schedule_check(const char* file, const char* topology, const char** text);

/* Explains a schedule for rank `rank`, in words: its steps with their source lines, and how much it sends and
 * receives. schedule: as in hkt_plan_options; null: the one chosen for 1 MiB. collective: an hkt_collective;
 * -1: the first that the schedule exists for. topology: "2x3", "4" for one level of 4 ranks, or as in
 * hkt_comm_options. Roots are rank 0. Errors: also TIMEOUT. */
HKT_API hkt_status hkt_schedule_explain(const char* schedule, int32_t collective, const char* topology,
                                        int32_t rank, const char** text);

/* ---- Kernels ---------------------------------------------------------------------------------- */
/* The arithmetic of sparse collectives and of optimizers by itself, for frameworks that move the data
 * themselves. There is no communicator. The text of an error is in hkt_last_error(). Results do not depend on
 * the number of threads. Thread-safe, for calls that write different memory.
 *
 * Kernels on devices
 *   All memory of a call is the host's, or all of it is on one CUDA device and in one context of it; anything
 * else is INVALID_ARGUMENT, and the text gives the place of each argument. Only the lists of hkt_norms,
 * hkt_lars and hkt_lamb (pointers and counts) and the options are always the host's, and are read during the
 * call. On a device the results are bitwise equal to those on the host, except for NaNs that arithmetic
 * produces.
 *   The call is enqueued on the thread's stream (hkt_kernels_set_stream) and returns. It allocates nothing on
 * the device and waits for nothing, and a stream that is being captured takes it into a graph; the graph
 * keeps every number that was passed by value, such as seed, step and rate. The first call on a device loads
 * the code of all kernels there, and CUDA may make it wait for the device's work; so make one beforehand,
 * especially before a capture. The order is that of the stream: all arguments in memory must stay valid until
 * the stream has executed the call.
 *   Results by pointer (selected, non_finite, skipped) are written to the device, too. Temporary memory is
 * the caller's workspace: memory of the device, aligned to 256 bytes as that of cudaMalloc is; its content
 * has no meaning, and one workspace serves all calls of a stream. On a device `threads` is ignored, on the
 * host the workspace.
 *   The code is in libhocket_cuda.so, which is loaded when a call is first given memory of a device, or by
 * hkt_topk_workspace: from the path in HOCKET_CUDA_KERNELS, else from beside libhocket.so, else from where it
 * is installed with it, else by the loader's path. If it is missing or does not fit: DEVICE, and the text
 * names the file that was looked for. Errors that the driver or a launch reports are DEVICE, or
 * OUT_OF_MEMORY; faults of kernels that run later are those of the stream. docs/kernels.md says more. */

/* Sets the stream on which the calling thread's kernels are enqueued from now on; other threads have their
 * own. stream: a CUstream or cudaStream_t of the context that the memory is in; NULL, which holds before the
 * first call: the default stream of the memory's device. The stream remains the caller's, and must live as
 * long as kernels are called with it. Local, never waits, thread-safe. Errors: INVALID_ARGUMENT (a stream,
 * but no CUDA driver in this process), DEVICE. */
HKT_API hkt_status hkt_kernels_set_stream(void* stream);

/* Everything has a default: start from HKT_TOPK_OPTIONS_INIT and change what you need. decay, scale and
 * select_non_finite apply only with a residual. */
typedef struct hkt_topk_options {
    size_t size;        /* sizeof(hkt_topk_options) */
    uint64_t seed;      /* these three numbers decide which of the elements that tie for the last places */
    uint64_t step;      /* are selected: the same numbers, the same elements. Let `step` change with each */
    uint64_t shard;     /* step of a training, and let ranks with different elements have different shards */
    float* residual;    /* error feedback: `count` floats, 0 at first; null: none. Elements are selected from
                           decay * residual + scale * x, and the residual becomes the rest */
    float decay;        /* 1. How much of the residual counts */
    float scale;        /* 1. Not 0 */
    int32_t value_type; /* -1. The hkt_type of `values`: float32, float16 or bfloat16; -1: that of x, as it
                           must be without a residual */
    int32_t thresholds; /* 0: exact. Else the number of thresholds that the paper's algorithm tries (Shi et
                           al. 2021, Algorithm 1), up to 1000; it may miss some of the largest elements */
    int32_t select_non_finite; /* if an infinity or a NaN is among the numbers to select from: 0: nothing is
                                  selected, and the residual is unchanged. 1: it is selected if k allows, and
                                  its residual becomes 0 in any case */
    int32_t threads;           /* up to 256; 0: HOCKET_KERNEL_THREADS, read at each call, else 1. The calling
                                  thread is one of them. Ignored on a device */
    void* workspace;           /* on a device: hkt_topk_workspace() bytes of it. Ignored on the host */
    size_t workspace_bytes;
} hkt_topk_options;

#define HKT_TOPK_OPTIONS_INIT \
    { sizeof(hkt_topk_options), 0, 0, 0, NULL, 1, 1, -1, 0, 0, 0, NULL, 0 }

/* Sets *k to the number of elements for a density (0 to 1): the product with `count` as a double, rounded
 * down, but at least 1 if there are elements and the density is above 0. Errors: INVALID_ARGUMENT. */
HKT_API hkt_status hkt_topk_count(size_t count, double density, size_t* k);

/* Selects the min(k, count) elements of x with the largest magnitude. Writes their values to `values` and
 * their indices, ascending, to `indices`; both have room for min(k, count), `values` of options.value_type.
 * *selected is set to that number, or to 0 if the step was skipped, which only a call with a residual does
 * (options.select_non_finite); then the buffers are unchanged. *non_finite (may be null) is set to 1 if there
 * was an infinity or a NaN to select from, else to 0. NaNs count as the largest, then come infinities. Zeros
 * are selected, too, if no other elements are left. x: `count` elements, up to 2^32, of float32, float16 or
 * bfloat16; it is not changed. No two of x, values, indices and the residual may overlap. options may be
 * null. With a residual, value + residual is bitwise equal to the number that was selected from, at each
 * selected index. Memory: up to 24 bytes * k and 1 MiB for each thread; on a device only the workspace.
 * Errors: INVALID_ARGUMENT: nothing has been written. OUT_OF_MEMORY: the residual may already hold the
 * numbers to select from, so do not repeat the step. */
HKT_API hkt_status hkt_topk(const void* x, size_t count, hkt_type type, size_t k,
                            const hkt_topk_options* options, void* values, uint32_t* indices,
                            size_t* selected, int32_t* non_finite);

/* Sets *bytes to the workspace that such a call needs on a device: up to 24 bytes * k, count / 7 and 3 MiB.
 * Of the options, only the presence of a residual matters. A smaller k or count never needs more. Errors:
 * INVALID_ARGUMENT, DEVICE (there are no kernels for devices). */
HKT_API hkt_status hkt_topk_workspace(size_t count, hkt_type type, size_t k, const hkt_topk_options* options,
                                      size_t* bytes);

/* dense[indices[i]] += values[i] for i = 0 .. k - 1, one after another, so the result is always the same. An
 * index may come more than once. dense: `count` elements of `type`, any type that has a sum; values: k of
 * value_type, the same type or, where both are floating-point types, another one. Sums are calculated as
 * hkt_type says, and rounded to `type` one by one. dense must not overlap the others. threads: as in
 * hkt_topk_options; ascending indices without repetition are needed for more than one to be used. Errors:
 * INVALID_ARGUMENT (an index that is not below `count`, among others); nothing has been added then.
 *
 * On a device both types are float32, float16 or bfloat16, and the indices are not checked: if one occurs
 * twice, the result there is undefined, and indices that are not below `count` are ignored. So indices that
 * are all ones (cudaMemset with 0xff) before hkt_topk add nothing if hkt_topk skips its step. No workspace is
 * needed. */
HKT_API hkt_status hkt_scatter_add(void* dense, size_t count, hkt_type type, const void* values,
                                   hkt_type value_type, const uint32_t* indices, size_t k, int32_t threads);

/* norms[t] = the square root of the sum of the squares of tensor t, which has counts[t] elements of float32,
 * float16 or bfloat16, for t = 0 .. tensor_count - 1. Squares, and their sums over 65,536 elements at a time,
 * are float32, in a fixed order; these sums are added as float64. So a norm is infinite where the squares of
 * 65,536 elements add up to more than 3.4e38 (all of them 7e16, say), and squares below 1e-45 count as 0.
 * `norms` must not overlap a tensor. threads: as in hkt_topk_options. Errors: INVALID_ARGUMENT,
 * OUT_OF_MEMORY. */
HKT_API hkt_status hkt_norms(const void* const* tensors, const size_t* counts, size_t tensor_count,
                             hkt_type type, float* norms, int32_t threads);

/* As hkt_norms, with a workspace of hkt_tensors_workspace() bytes, which is needed on a device. */
HKT_API hkt_status hkt_norms_with(const void* const* tensors, const size_t* counts, size_t tensor_count,
                                  hkt_type type, float* norms, int32_t threads, void* workspace,
                                  size_t workspace_bytes);

/* Sets *bytes to the workspace that hkt_norms_with, hkt_lars and hkt_lamb need on a device for tensors of
 * these numbers of elements: 8 bytes for each 65,536 elements of a tensor or part of them, and 4 for each
 * tensor. Errors: INVALID_ARGUMENT. */
HKT_API hkt_status hkt_tensors_workspace(const size_t* counts, size_t tensor_count, size_t* bytes);

/* Optimizers for large batches, which give each tensor a rate of its own, the rate times the tensor's ratio.
 * hkt_lars and hkt_lamb take one step of a list of tensors, t = 0 .. tensor_count - 1. weights[t] and its
 * states are counts[t] numbers of float32, gradients[t] as many of gradient_type: float32, float16 or
 * bfloat16. The caller owns all of them. The step changes weights and states, which start as zeros; it reads
 * gradients. Elements are calculated in float32, each result rounded; norms are those of hkt_norms.
 *
 * A tensor with one of the two norms 0 has the ratio 1, as in the reference implementations. If a norm or a
 * tensor's rate is infinite or NaN, no tensor is changed, *skipped becomes 1, and the call succeeds; else it
 * becomes 0. Ranks that have the same numbers all skip, or none does. Biases and the parameters of
 * normalizations are usually taken apart, in a call with adaptive = 0 and weight_decay = 0.
 *
 * No two of all tensors may overlap, apart from gradients. Thread-safe, for calls of different tensors.
 * Errors: INVALID_ARGUMENT (with the name and the number of the tensor), OUT_OF_MEMORY: nothing has been
 * changed. Memory: 8 bytes for 65,536 elements, and up to 300 bytes for a tensor. On a device, a failure of
 * the driver may leave some of a step's work enqueued; so do not continue after a step that ended with
 * DEVICE. */

/* Everything has a default: start from HKT_LARS_OPTIONS_INIT and change what you need. */
typedef struct hkt_lars_options {
    size_t size;         /* sizeof(hkt_lars_options) */
    double momentum;     /* 0.9. From 0 to below 1 */
    double weight_decay; /* 0.0005. Not below 0, like all that follow */
    double trust;        /* 0.001 */
    double epsilon;      /* 0. Added to the divisor of the weights' norm */
    int32_t adaptive;    /* 1. 0: all ratios are 1, which is SGD with momentum */
    int32_t threads;     /* as in hkt_topk_options */
    void* workspace;     /* on a device: hkt_tensors_workspace() bytes of it. Ignored on the host */
    size_t workspace_bytes;
} hkt_lars_options;

#define HKT_LARS_OPTIONS_INIT \
    { sizeof(hkt_lars_options), 0.9, 0.0005, 0.001, 0, 1, 0, NULL, 0 }

/* LARS (You, Gitman, Ginsburg 2017, Algorithm 1). With weights w, gradient g and momentum v of a tensor:
 *   ratio = trust * |w| / (|g| + weight_decay * |w| + epsilon)
 *   v = momentum * v + rate * ratio * (g + weight_decay * w)
 *   w = w - v
 * rate: of this step, not below 0. options may be null, skipped may not. */
HKT_API hkt_status hkt_lars(float* const* weights, const void* const* gradients, float* const* momenta,
                            const size_t* counts, size_t tensor_count, hkt_type gradient_type, double rate,
                            const hkt_lars_options* options, int32_t* skipped);

/* Everything has a default: start from HKT_LAMB_OPTIONS_INIT and change what you need. */
typedef struct hkt_lamb_options {
    size_t size;         /* sizeof(hkt_lamb_options) */
    double beta1;        /* 0.9. From 0 to below 1, like beta2 */
    double beta2;        /* 0.999 */
    double epsilon;      /* 1e-6. Not below 0, like all that follow */
    double weight_decay; /* 0.01 */
    int32_t adaptive;    /* 1. 0: all ratios are 1, which is Adam with decoupled weight decay */
    int32_t threads;     /* as in hkt_topk_options */
    void* workspace;     /* as in hkt_lars_options */
    size_t workspace_bytes;
} hkt_lamb_options;

#define HKT_LAMB_OPTIONS_INIT \
    { sizeof(hkt_lamb_options), 0.9, 0.999, 1e-6, 0.01, 1, 0, NULL, 0 }

/* LAMB (You et al. 2020, Algorithm 2, with phi(x) = x). With weights w, gradient g, first moment m and second
 * moment v of a tensor:
 *   m = beta1 * m + (1 - beta1) * g
 *   v = beta2 * v + (1 - beta2) * g^2
 *   u = (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon) + weight_decay * w
 *   w = w - rate * (|w| / |u|) * u
 * rate: of this step, not below 0. step: the step's number; the first is 1. Skipped steps do not count.
 * options may be null, skipped may not. */
HKT_API hkt_status hkt_lamb(float* const* weights, const void* const* gradients, float* const* first_moments,
                            float* const* second_moments, const size_t* counts, size_t tensor_count,
                            hkt_type gradient_type, double rate, uint64_t step,
                            const hkt_lamb_options* options, int32_t* skipped);

/* ---- Data cache ------------------------------------------------------------------------------- */
/* Reads training samples from slow storage once, and from memory ever after (Shi et al. 2021, section 4.1).
 * A sample is bytes with a number, its key. A get looks for it, in this order, in
 *   memory   decoded samples, lent and not copied;
 *   disk     encoded samples in a local folder, checksummed, which outlives the process and which several
 *            processes use at once;
 *   peers    the rank that owns the key, if a communicator or servers are given;
 *   source   a folder of files, one packed file, objects by URL, or a function.
 * However many threads and processes want a sample at once, it is loaded once. The source is never written.
 * docs/cache.md describes the guarantees when parts fail.
 *
 * All functions except hkt_cache_close are thread-safe. They leave their error text in hkt_last_error().
 * After fork() a child must not use the caches of its parent; it opens its own, on the same folder.
 */

/* The place where a function of the embedder puts a sample. */
/* Reserves room for the sample; call it once. Null if the sample is larger than the cache's memory, or if no
 * room becomes free before the deadline; then return HKT_ERROR_LIMIT. */
HKT_API void* hkt_cache_value_reserve(hkt_cache_value* value, size_t bytes);

/* Reads sample `key` from the source into `sample`. Called from up to hkt_cache_options.workers threads at
 * once. HKT_SUCCESS, HKT_ERROR_NOT_FOUND, or another error, which the get returns. It must always give the
 * same bytes for a key, or hkt_cache_options.dataset must change. */
typedef hkt_status (*hkt_cache_read_fn)(void* context, uint64_t key, hkt_cache_value* sample);

/* Decodes a sample into the form that is kept in memory. Called as above. It must be deterministic: random
 * augmentation comes after the cache. */
typedef hkt_status (*hkt_cache_decode_fn)(void* context, uint64_t key, const void* encoded, size_t bytes,
                                          hkt_cache_value* sample);

typedef enum hkt_cache_io {
    HKT_CACHE_IO_DEFAULT =
        0, /* HOCKET_CACHE_IO (io_uring|threads); else io_uring where the kernel allows it */
    HKT_CACHE_IO_URING = 1,
    HKT_CACHE_IO_THREADS = 2
} hkt_cache_io;

/* The samples of the source that are written to the disk. */
typedef enum hkt_cache_store {
    HKT_CACHE_STORE_DEFAULT = 0, /* all except those that come while the disk is behind by half of the memory:
                                    no load waits for a disk that is slower than the source */
    HKT_CACHE_STORE_ALL = 1,     /* all: loads wait until the disk has caught up */
    HKT_CACHE_STORE_NONE = 2     /* none: samples on the disk are used, and nothing is changed */
} hkt_cache_store;

/* Start from HKT_CACHE_OPTIONS_INIT. Set source or read, not both. With neither, the cache has only the
 * samples of hkt_cache_put, and those in the folder. */
typedef struct hkt_cache_options {
    size_t size; /* sizeof(hkt_cache_options) */

    /* HOCKET_CACHE_FOLDER: the folder of the disk level, made if it does not exist (except with
     * HKT_CACHE_STORE_NONE); unset: no disk level. It must not be in the source */
    const char* folder;
    /* HOCKET_CACHE_MEMORY ("8GiB"); 1 GiB: for samples and all data under way */
    uint64_t memory_bytes;
    /* HOCKET_CACHE_DISK; half of the space that is free or used by the folder: for all files in it, whichever
     * process wrote them */
    uint64_t disk_bytes;

    /* A folder: its files are the samples, numbered in the order of their relative paths; or a packed file;
     * or a URL (https, http, s3), of objects, tar shards or a packed object (docs/cache.md) */
    const char* source;
    /* For a packed file: lines "OFFSET BYTES"; default: the file's name and ".idx". For a folder: the index
     * that hocket-cache index makes; default: hocket.index in it, if it is there. For a URL: a path or a URL
     * of either; default: docs/cache.md */
    const char* source_index;
    hkt_cache_read_fn read;
    void* read_context;
    /* Name and version of the samples: those on the disk under another one are not used. Required with read;
     * with source it is added to the paths, sizes and times of change */
    const char* dataset;

    hkt_cache_decode_fn decode; /* null: samples are used as they are */
    void* decode_context;
    /* The decoder's configuration, in words: required with decode. The same on all ranks of comm */
    const char* decoder;

    /* Its ranks are peers: hkt_cache_open is collective then, and the cache is closed before the communicator
     * is destroyed. Null: no peers, or those of servers */
    hkt_comm* comm;
    /* HOCKET_CACHE_SERVERS: "host:port,host:port" of `hocket-cache serve`; not with comm. "": none */
    const char* servers;
    const char* secret; /* HOCKET_SECRET: for servers */

    int32_t io;         /* hkt_cache_io */
    int32_t store;      /* hkt_cache_store */
    int32_t depth;      /* reads in flight; 64, or 256 with a URL */
    int32_t workers;    /* the most threads that may block in read, and as many in decode; 64 and 32 */
    int64_t timeout_ms; /* HOCKET_TIMEOUT_MS; 60000: the longest that a get waits for its samples */
} hkt_cache_options;

#define HKT_CACHE_OPTIONS_INIT                                                                             \
    {                                                                                                      \
        sizeof(hkt_cache_options), NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
            NULL, 0, 0, 0, 0, 0                                                                            \
    }

/* Opens a cache. On success the caller owns *cache, and must pass it to hkt_cache_close. A disk that is full,
 * read-only or broken is not an error (hkt_cache_stats.trouble describes it): the cache then works without a
 * disk. Errors: INVALID_ARGUMENT, NOT_FOUND (the source), IO (the source cannot be read, or the folder is not
 * one), OUT_OF_MEMORY, and those of hkt_comm_create for peers; MISMATCH if the ranks' samples or decoders
 * differ.
 */
HKT_API hkt_status hkt_cache_open(const hkt_cache_options* options, hkt_cache** cache);

/* Waits for pending writes, makes them durable, and frees the cache. All samples must have been released and
 * all requests ended. Null is a no-op. */
HKT_API void hkt_cache_close(hkt_cache* cache);

/* A sample on loan: read-only, and shared by all callers that have it. */
typedef struct hkt_sample {
    const void* data; /* aligned to 64 bytes; valid until hkt_cache_release */
    size_t bytes;
    uint64_t key;
    void* lent; /* Hocket's */
} hkt_sample;

/* Lends the sample with that key. Errors: NOT_FOUND, IO, LIMIT, TIMEOUT (too much of the memory is lent, or
 * the source does not answer), errors that read or decode returned, OUT_OF_MEMORY. Without a source, and if
 * the process that owns the key gives no answer: PEER_LOST, TIMEOUT, or the error that it gave, as it alone
 * knows if the sample was put. */
HKT_API hkt_status hkt_cache_get(hkt_cache* cache, uint64_t key, hkt_sample* sample);

/* Sets samples[i] to the sample with keys[i]. The call lends all samples, or none and returns an error. With
 * a request the call returns at once; then samples must stay valid until the request is complete (hkt_wait,
 * hkt_test), but keys need not. All samples of a batch are lent at once: they must fit into the memory beside
 * the data under way. Errors: as for hkt_cache_get; LIMIT once it is known that they will never fit. */
HKT_API hkt_status hkt_cache_get_batch(hkt_cache* cache, const uint64_t* keys, size_t count,
                                       hkt_sample* samples, hkt_request** request);

/* Copies samples one after another into memory, which the caller owns: the sample with keys[i] takes the
 * bytes from offsets[i] to offsets[i + 1]. offsets has room for count + 1 numbers; the first is 0, the last
 * the total size. If the total is more than `room`, or memory is null, only offsets is written, and the call
 * succeeds: the samples are in the cache's memory then, where a call with more room finds them. Nothing is
 * lent when it returns. All samples of a call must fit into the cache's memory, as for hkt_cache_get_batch.
 * Always waits. Errors: as for hkt_cache_get_batch. */
HKT_API hkt_status hkt_cache_copy_batch(hkt_cache* cache, const uint64_t* keys, size_t count, void* memory,
                                        size_t room, uint64_t* offsets);

/* Gives samples back, each once. Entries with lent == NULL are skipped. */
HKT_API void hkt_cache_release(hkt_cache* cache, const hkt_sample* samples, size_t count);

/* Adds a sample (encoded, as the source would give it) to the disk of the rank that owns the key; without a
 * folder, to memory, until it is evicted. The key may not be one of the source's folder or packed file
 * (INVALID_ARGUMENT). A key is written once: writing the same bytes again is not an error, other bytes are
 * (MISMATCH). When the call returns success the sample survives this process; from the next hkt_cache_flush
 * on it survives a loss of power. Errors: INVALID_ARGUMENT, MISMATCH, LIMIT, IO (the text says why the disk
 * does not accept it). */
HKT_API hkt_status hkt_cache_put(hkt_cache* cache, uint64_t key, const void* data, size_t bytes);

/* Starts to load samples that will be needed soon, in this order; returns at once. */
HKT_API hkt_status hkt_cache_prefetch(hkt_cache* cache, const uint64_t* keys, size_t count);

/* Sets the order in which the program will get samples from now on: an epoch's permutation, or several. The
 * first `cursor` of them were got already. The cache loads ahead into free memory, and into half of the
 * memory at the cost of samples that are needed later; it evicts the samples that are needed furthest in the
 * future. The program may still get samples in any order. This replaces an earlier order; count 0 removes it.
 * keys are copied. */
HKT_API hkt_status hkt_cache_set_order(hkt_cache* cache, const uint64_t* keys, size_t count, uint64_t cursor);

/* Returns the position just after the furthest sample of the order that was requested; samples of batches
 * under way count, too. 0 without an order. After a restart, pass hkt_cache_set_order the position up to
 * which you have trained. */
HKT_API uint64_t hkt_cache_cursor(const hkt_cache* cache);

/* Returns the number of samples of the source; 0 if it is unknown (read, or no source). */
HKT_API uint64_t hkt_cache_count(const hkt_cache* cache);

/* Finds the key of a file of a source folder, by its path relative to the folder. Errors: NOT_FOUND. */
HKT_API hkt_status hkt_cache_find(const hkt_cache* cache, const char* name, uint64_t* key);

/* Sets *name to the name of a sample of the source, by which hkt_cache_find finds it; of a packed file or a
 * read function, to what errors call it. Valid until the thread's next call of this. Errors: NOT_FOUND. */
HKT_API hkt_status hkt_cache_name(const hkt_cache* cache, uint64_t key, const char** name);

/* Once this returns, all earlier writes survive a loss of power. Errors: IO. */
HKT_API hkt_status hkt_cache_flush(hkt_cache* cache);

/* Counts of this process since the cache was opened, and its state now. */
typedef struct hkt_cache_stats {
    uint64_t gets, memory_hits; /* samples got; those of them that were in memory */
    /* loads, prefetches included, by where the sample was */
    uint64_t disk_hits, peer_hits, source_reads, failures;
    uint64_t disk_read_bytes, peer_read_bytes, source_read_bytes, disk_written_bytes;
    uint64_t shared_loads;  /* gets that waited for a load that was already under way */
    uint64_t prefetched;    /* samples that were in memory, or under way, when first requested */
    uint64_t evicted;       /* samples dropped from memory */
    uint64_t corrupt;       /* records and segments that failed their checksum, and are not used */
    uint64_t not_written;   /* samples that the disk did not accept */
    uint64_t peer_failures; /* questions that a peer did not answer: the source was read instead */
    uint64_t served;        /* samples given to peers */
    uint64_t wait_ns; /* time that callers waited in get, get_batch and hkt_wait, all threads together */
    /* now */
    uint64_t memory_bytes, memory_used, memory_lent, memory_samples, table_bytes;
    uint64_t disk_bytes, disk_used, disk_samples, disk_segments;
    const char* io;           /* "io_uring", "threads (io_uring: Operation not permitted)" */
    const char* peer_trouble; /* the last failure of a peer: "" if there was none */
    /* why samples are not written to the disk, and what is damaged there: "" if all is well */
    const char* trouble;
    /* how much on the disk was found damaged since the cache was opened, and what became of its space: "" if
     * nothing was. The calling thread's copies, valid until its next hkt_ call */
    const char* damage;
} hkt_cache_stats;

/* size: sizeof(hkt_cache_stats). Errors: INVALID_ARGUMENT. */
HKT_API hkt_status hkt_cache_get_stats(hkt_cache* cache, hkt_cache_stats* stats, size_t size);

/* The result of reading and checking every record on the disk. */
typedef struct hkt_cache_verification {
    uint64_t segments, records, bytes, bad_segments, bad_records;
    const char* findings; /* one a line, with file and offset, the first hundred. The calling thread's copy */
} hkt_cache_verification;

/* Reads and checks every record on the disk. Bad records are dropped, and their space is freed: the next get
 * reads them from the source, if it has them. progress (may be null) is called with the bytes done and the
 * bytes in all; a non-zero result stops the check. Bad records are not an error. size:
 * sizeof(hkt_cache_verification). */
HKT_API hkt_status hkt_cache_verify(hkt_cache* cache,
                                    int (*progress)(void* context, uint64_t done, uint64_t all),
                                    void* context, hkt_cache_verification* verification, size_t size);

/* Serves the caches of other processes (hkt_cache_options.servers) at host:port until the cache is closed;
 * these processes must know the secret (HOCKET_SECRET if null). port 0: any free one; *bound (may be null) is
 * set to it. Errors: BOOTSTRAP (the address), INVALID_ARGUMENT. */
HKT_API hkt_status hkt_cache_serve(hkt_cache* cache, const char* host, int32_t port, const char* secret,
                                   int32_t* bound);

/* ---- Parameter service ------------------------------------------------------------------------ */
/* Servers keep the weights of a model, workers push gradients and pull weights (MLNET, HotCloud 2015; bounded
 * staleness: Ho et al. 2013). A worker counts its rounds: gradients that it pushes after it has called
 * hkt_params_clock c times belong to round c. A server applies a round when it has the gradients of all
 * workers, which are added in the order of the workers' numbers: weights are always those of whole rounds,
 * and bitwise identical from run to run. A pull with staleness s by a worker at round c waits for weights of
 * all rounds below c - s. Workers come and go while the job runs. docs/params.md describes the guarantees
 * when processes die.
 *
 * A worker has an hkt_params, a server an hkt_params_server; separate processes open them with an address and
 * a secret (also: hocket-params serve), or the ranks of a communicator take these roles. All functions except
 * those that close are thread-safe, but hkt_params_clock must not be called while the same handle pushes.
 * They leave their error text in hkt_last_error().
 */

/* A tensor of the model. Never grows. */
typedef struct hkt_params_tensor {
    const char* name; /* no two have the same */
    size_t count;     /* elements; 1 or more */
    hkt_type type;
} hkt_params_tensor;

/* As staleness: pulls never wait, and an update is applied as soon as it has come, in any order. */
#define HKT_UNBOUNDED (-1)

/* Start from HKT_PARAMS_OPTIONS_INIT. The update, the staleness, the tree, the size of chunks, the priority
 * and the longest wait belong to the job: all workers must give the same values; and the same number of
 * workers, if the job has not begun. */
typedef struct hkt_params_options {
    size_t size;         /* sizeof(hkt_params_options) */
    const char* address; /* HOCKET_PARAMS_ADDRESS: "host:port" of the first server */
    const char* secret;  /* HOCKET_SECRET: shared by all processes of the job; never sent. Among ranks, the
                            secret, the address, workers and number are not set: they come from the
                            communicator */
    const char* update;  /* How servers apply a round's gradients g; "sum", w = w + g. Spelling: see "The
                            update" in docs/params.md */
    int64_t staleness;   /* the largest staleness of pulls, or HKT_UNBOUNDED. 0: bulk-synchronous */
    const char* tree;    /* of the workers, in which gradients are added on the way up: "direct", "binary",
                            "degree N", "rack" (one worker of each rack is below the server, and the others of
                            the rack below it); "auto": one of these, by an estimate */
    const char* rack;    /* common to workers near each other; this host. With ranks: the innermost level of a
                            grid topology */
    uint64_t chunk_bytes; /* the pieces in which weights are dealt to servers and sent; a 128th of all, but 64
                             to 512 KiB */
    int32_t workers;      /* 1: the job begins when this many have come */
    int32_t number;   /* this worker's number, below workers; -1: any. Each number is given once; workers that
                         come later, or to a restored job, get a new one */
    int32_t priority; /* among jobs that share hosts: 0 to 255; higher goes first */
    int32_t longest_wait_ms; /* 500: a job that has waited this long for jobs of higher priority reads a
                                little anyway; -1: never */
    int64_t timeout_ms;      /* HOCKET_TIMEOUT_MS; 60000: the longest wait for the job's beginning, and for a
                                request's operation */
    /* As in hkt_comm_options, for hkt_wait and hkt_wait_for of this worker's requests, and its overlaps */
    int (*is_interrupted)(void* user);
    void* interrupt_user;
} hkt_params_options;

#define HKT_PARAMS_OPTIONS_INIT \
    { sizeof(hkt_params_options), NULL, NULL, NULL, 0, NULL, NULL, 0, 0, -1, 0, 0, 0, NULL, NULL }

/* Joins the service as a worker; returns when the worker takes part: at the job's beginning, or, if that
 * is over, from the round of the others on. If no server listens at the address, it tries again until
 * timeout_ms is over; after 2 s a line on stderr says why. The tensors are numbered as they are listed,
 * and must be the same on all workers. first_weights[i]: the initial weights of tensor i, read until the
 * call returns. Null: this worker has none. If several workers have some, those of one are used; if none
 * has, zeros. On success the caller owns *params, and must pass it to hkt_params_close. options may be
 * null. Errors: INVALID_ARGUMENT, SCHEDULE and NOT_FOUND (the update), BOOTSTRAP (no server at the address
 * until timeout_ms is over, or it refuses this worker for its secret), MISMATCH (the job there has other
 * tensors or options, or the server another version), TIMEOUT (not all servers and workers have come),
 * PEER_LOST, OUT_OF_MEMORY. */
HKT_API hkt_status hkt_params_open(const hkt_params_tensor* tensors, size_t count,
                                   const void* const* first_weights, const hkt_params_options* options,
                                   hkt_params** params);

/* Like hkt_params_open, among the ranks of comm: the last `servers` of them serve, and get *server; the
 * others are workers with their ranks as numbers, and get *params. The other pointer becomes null.
 * Collective, with the same tensors and options on all ranks; a server's first_weights are ignored.
 * Afterwards the service does not use comm, which may be used for other purposes, or be destroyed. If a rank
 * fails, all do; the text is that of comm. Errors: those of hkt_params_open, and of collectives. */
HKT_API hkt_status hkt_params_open_with_ranks(hkt_comm* comm, int32_t servers,
                                              const hkt_params_tensor* tensors, size_t count,
                                              const void* const* first_weights,
                                              const hkt_params_options* options, hkt_params** params,
                                              hkt_params_server** server);

/* Leaves the job, and frees the handle; requests that have not ended become invalid. The gradients of rounds
 * that the worker has ended count if the others also end these rounds within 2 s, for which the call waits.
 * If servers write checkpoints, it waits longer, until a checkpoint contains its pushed gradients, at most
 * for timeout_ms. The worker takes part in no later round. Null is a no-op. */
HKT_API void hkt_params_close(hkt_params* params);

/* Pushes the gradients of the tensors first, first + 1, ... first + count - 1 in this worker's round, each
 * tensor once a round; gradients[i] is that of tensor first + i. They are copied before the call returns. The
 * call, or the request, waits only for room for the next round: a worker keeps the updates of a few rounds
 * until servers have applied them. Errors: INVALID_ARGUMENT (nothing is pushed), and those of
 * hkt_params_pull: the gradients are pushed then, also after TIMEOUT, and must not be pushed again. */
HKT_API hkt_status hkt_params_push(hkt_params* params, size_t first, size_t count,
                                   const void* const* gradients, hkt_request** request);

/* As hkt_params_push, for one tensor of which all values but `count` are 0: values[i] is that of element
 * indices[i]. indices ascend. */
HKT_API hkt_status hkt_params_push_sparse(hkt_params* params, size_t tensor, size_t count,
                                          const uint32_t* indices, const void* values, hkt_request** request);

/* Ends this worker's round. Gradients that were not pushed in it count as zeros. *round (may be null) is set
 * to the number of the round that begins. Waits if this worker is further ahead than servers have room for,
 * as a push does, and no longer than such a push. Errors: INVALID_ARGUMENT, TIMEOUT (the round has not
 * ended), and the error that has ended the worker. */
HKT_API hkt_status hkt_params_clock(hkt_params* params, uint64_t* round);

/* Pulls the weights of the tensors first, ... first + count - 1 into weights[0], ... weights[count - 1]: of
 * all rounds below this worker's round minus staleness, at least. staleness: not above that of the options.
 * The weights of tensors that this worker has pushed in its round may include that round, too, in some
 * chunks. The memory belongs to the service until the call has returned, or the request has ended. Errors:
 * INVALID_ARGUMENT; TIMEOUT (another worker has not pushed its round; this one may go on); PEER_LOST (a
 * server is gone, and none has taken its place; the text names it. Only hkt_params_close may be called then),
 * OUT_OF_MEMORY, INTERRUPTED. */
HKT_API hkt_status hkt_params_pull(hkt_params* params, size_t first, size_t count, void* const* weights,
                                   int64_t staleness, hkt_request** request);

/* Asks all servers to write a checkpoint now; the request ends when they have. Each writes its current
 * weights, whose round may differ between servers: workers push missing gradients again. Errors: IO (a server
 * has no folder for it, or cannot write; the text names it), TIMEOUT, PEER_LOST. */
HKT_API hkt_status hkt_params_checkpoint(hkt_params* params, hkt_request** request);

/* Returns the worker's number among all workers of the job. -1 if params is null, or a parent's. */
HKT_API int32_t hkt_params_number(const hkt_params* params);

/* Counts of this worker since it was opened, and its state now. */
typedef struct hkt_params_stats {
    uint64_t round; /* how often hkt_params_clock was called, and where the worker began */
    uint64_t bytes_sent, bytes_received; /* payload, of all connections, shared memory included */
    uint64_t kept_bytes;                 /* of updates that a server may request again */
    uint64_t epochs;        /* trees that a server has announced, at most: workers came or went */
    uint64_t reconnections; /* to servers */
    uint64_t children;      /* workers below this one, in the trees of all servers */
} hkt_params_stats;

/* size: sizeof(hkt_params_stats). Errors: INVALID_ARGUMENT. */
HKT_API hkt_status hkt_params_get_stats(hkt_params* params, hkt_params_stats* stats, size_t size);

/* Start from HKT_PARAMS_SERVER_OPTIONS_INIT. */
typedef struct hkt_params_server_options {
    size_t size;             /* sizeof(hkt_params_server_options) */
    const char* listen;      /* "host:port" or ":port" (all addresses); port 0: any that is free. Required */
    const char* join;        /* "host:port" of the first server; null: this is the first one */
    const char* secret;      /* HOCKET_SECRET */
    const char* checkpoints; /* the folder for this server's checkpoint; null: it writes none */
    uint64_t checkpoint_every; /* rounds between two checkpoints; 10. All servers take the first one's, and
                                  keep it with restore */
    int32_t restore;           /* 1: goes on from a checkpoint in the folder */
    int32_t servers;           /* of the first server: how many there are, itself included; 1 */
    int64_t timeout_ms;        /* HOCKET_TIMEOUT_MS; 60000: for the first server to be there */
    int64_t silence_ms;        /* after which a worker counts as not answering, and to a worker this server;
                                  200 or more; 2000 */
    int64_t return_ms;         /* after which a worker that does not answer is removed from the job; 10000 */
    int64_t index;    /* with restore: the server whose checkpoint to use, if the folder has those of several;
                         -1: the only one */
    const char* rack; /* of workers near the server (hkt_params_options.rack); this host */
    uint64_t round; /* with restore: goes back to the checkpoint of all rounds below this one; 0: goes on from
                       the latest */
    int64_t accept_torn; /* not 0, with restore: new workers continue from it even if no former worker comes
                            back and other servers, or some chunks, have other rounds */
} hkt_params_server_options;

#define HKT_PARAMS_SERVER_OPTIONS_INIT \
    { sizeof(hkt_params_server_options), NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, -1, NULL, 0, 0 }

/* Begins to serve, on a thread of Hocket's own. The first worker that comes defines the model and the job. On
 * success the caller owns *server, and must pass it to hkt_params_server_stop. Errors: INVALID_ARGUMENT,
 * BOOTSTRAP (the address), NOT_FOUND (there is no checkpoint to restore), IO (the checkpoint, or its folder),
 * OUT_OF_MEMORY. */
HKT_API hkt_status hkt_params_server_start(const hkt_params_server_options* options,
                                           hkt_params_server** server);

/* Returns the address at which workers and other servers reach the server: "10.0.0.4:7000". Valid until the
 * server is stopped; null if server is null, or a parent's. */
HKT_API const char* hkt_params_server_address(const hkt_params_server* server);

/* Waits until workers have come and all have left, for timeout_ms milliseconds at most (0 or more); then
 * returns HKT_IN_PROGRESS. Errors: INVALID_ARGUMENT, and the server's failure: BOOTSTRAP (the first server is
 * not there), MISMATCH (it refuses this one), IO, OUT_OF_MEMORY. */
HKT_API hkt_status hkt_params_server_wait(hkt_params_server* server, int64_t timeout_ms);

/* Sets *json to the state that hkt_params_status gives of this server. Errors: INVALID_ARGUMENT,
 * OUT_OF_MEMORY. */
HKT_API hkt_status hkt_params_server_stats(hkt_params_server* server, const char** json);

/* Ends the server, and returns when its last checkpoint, of all rounds so far, is on the disk, if it has a
 * folder for them. Remaining workers treat the server as one that has died. Afterwards only
 * hkt_params_server_stop may be called. Errors: INVALID_ARGUMENT, IO (the last checkpoint could not be
 * written; the text says why), and the server's failure. */
HKT_API hkt_status hkt_params_server_finish(hkt_params_server* server);

/* Ends the server, unless hkt_params_server_finish has done so, and frees the handle; log lines say if the
 * last checkpoint could not be written. Null is a no-op. */
HKT_API void hkt_params_server_stop(hkt_params_server* server);

/* Queries the server at "host:port", which belongs to a job or waits for one; secret null: HOCKET_SECRET.
 * timeout_ms 0: HOCKET_TIMEOUT_MS; 60000. Sets *json to its state, which has at least: {"server": its number,
 * "at": "host:port", "clock": the number of rounds that all of its weights have, "epochs", "chunks" and
 * "bytes": its share of the weights, "model_chunks" and "model_bytes": all of them, "workers": [{"number",
 * "at", "rack", "parent": a number or "server", "answers": true or false, "received", "sent": bytes,
 * "shares_memory"}]}. Before the job has begun, the state is {"server": null if the first server has not
 * given it a number yet, "at", "waits_for": in words}, which a server that goes on with a job may have, too;
 * where a model is so small that this server has no part of it, {"server", "at", "unused": that in words}.
 * The first server also has "servers", their addresses, once all have come. The copy belongs to the calling
 * thread, and is valid until its next hkt_ call. Errors: INVALID_ARGUMENT, BOOTSTRAP, MISMATCH, TIMEOUT,
 * PEER_LOST. */
HKT_API hkt_status hkt_params_status(const char* address, const char* secret, int64_t timeout_ms,
                                     const char** json);

/* ---- Overlap of communication and computation --------------------------------------------------- */
/* Plans the batches in which a model's layers communicate while other layers compute, from the times of each
 * layer (iBatch: Wang, Pi, Zhou 2019). Forward, layers communicate and then compute: weights are pulled.
 * Backward, they compute, from the last to the first, and then communicate: gradients are pushed or reduced.
 * A batch is a sequence of layers that communicate together. docs/overlap.md has the methods.
 * hkt_overlap_plan plans; an hkt_overlap measures a training program's times, plans from them, and runs the
 * plans. The text of an error is in hkt_last_error(), and that of an overlap among ranks in
 * hkt_comm_last_error(comm), too. */

typedef enum hkt_overlap_method {
    HKT_OVERLAP_OPTIMUM = 0,    /* no plan is faster. Takes time quadratic in the number of layers */
    HKT_OVERLAP_SEQUENTIAL = 1, /* one batch */
    HKT_OVERLAP_LAYERS = 2,     /* each layer is a batch */
    HKT_OVERLAP_ALGORITHM1 = 3, /* of iBatch, from the first layer on */
    HKT_OVERLAP_ALGORITHM2 = 4, /* of iBatch, from the last layer on */
    HKT_OVERLAP_IBATCH = 5,     /* the faster of these two */
    HKT_OVERLAP_MG_WFBP = 6,    /* Shi, Chu, Li 2019; backward alone */
    HKT_OVERLAP_BUCKETS = 7     /* batches of a constant number of bytes */
} hkt_overlap_method;

/* Everything has a default: start from HKT_OVERLAP_OPTIONS_INIT and change what you need. */
typedef struct hkt_overlap_options {
    size_t size;           /* sizeof(hkt_overlap_options) */
    int32_t method;        /* hkt_overlap_method; HKT_OVERLAP_OPTIMUM */
    int32_t backward;      /* 0: forward; 1: backward */
    uint64_t limit_bytes;  /* the most bytes of a batch of several layers; 0: any number */
    uint64_t bucket_bytes; /* with HKT_OVERLAP_BUCKETS: a batch is closed when it has this many; 25 MiB */
} hkt_overlap_options;

#define HKT_OVERLAP_OPTIONS_INIT \
    { sizeof(hkt_overlap_options), HKT_OVERLAP_OPTIMUM, 0, 0, 0 }

/* The predicted time of a plan, in seconds. */
typedef struct hkt_overlap_prediction {
    double seconds;       /* from the beginning to the end */
    double communication; /* time in which the link is busy, start-ups included */
    double computation;   /* time in which layers compute */
    double overlap;       /* time in which both go on */
} hkt_overlap_prediction;

/* Plans from given times. Pure, and thread-safe. startup: the seconds that each communication takes besides
 * its transfers. transfer[i], compute[i]: the seconds of layer i, the model's first one first in both
 * directions; each time is finite, and from 0 to 1e9. bytes[i]: of layer i, up to 2^48; null if neither
 * buckets nor a limit are used. layers: 1 to 20000. Sets *batches to the number of batches, and ends[b] to
 * the number of layers up to the end of batch b: the first batch is layers 0 to ends[0] - 1, the last
 * ends[*batches - 1] is `layers`. Backward, the last batch comes first in time. ends has room for `layers`
 * numbers. options and prediction may be null. prediction_size: sizeof(hkt_overlap_prediction). Errors:
 * INVALID_ARGUMENT (then nothing is written), OUT_OF_MEMORY. */
HKT_API hkt_status hkt_overlap_plan(double startup, const double* transfer, const double* compute,
                                    const uint64_t* bytes, size_t layers, const hkt_overlap_options* options,
                                    size_t* ends, size_t* batches, hkt_overlap_prediction* prediction,
                                    size_t prediction_size);

/* Plans that are measured and run
 *   An hkt_overlap belongs to one model. While a backward pass computes layer after layer, from the last to
 * the first, the gradients of the layers that are done are exchanged: among the ranks of a communicator by
 * all_reduce, or with a parameter service, which receives them and returns the weights computed from them.
 * The batches of layers are planned from measurements: the first iterations run other plans, with batches of
 * many sizes, and later the times are checked again now and then. A training loop is
 *
 *     for each iteration {
 *         for each layer, from 0 on { hkt_overlap_forward(overlap, layer); ... its forward pass ... }
 *         hkt_overlap_begin_backward(overlap);
 *         for each layer, from the last to 0 { ... its gradients ...; hkt_overlap_backward(overlap, layer); }
 *         hkt_overlap_finish(overlap);
 *         ... the optimizer, where there is no service ...
 *     }
 *
 *   With every plan the results have the same bits, unless another schedule is named, or weights may be
 * stale. One thread at a time may call the functions of one hkt_overlap. As long as it lives, only it may
 * push, pull and clock for its worker; and only the thread that trains may start collectives of its
 * communicator, so that all ranks start them in the same order. A call that is refused (INVALID_ARGUMENT)
 * changes nothing, and a call that was INTERRUPTED must be repeated; after any other error the functions of
 * an iteration return that error again. Waits for the ranks' common measurements, for room for gradients, and
 * in hkt_params_clock are not interrupted. */
typedef struct hkt_overlap hkt_overlap;

/* A layer of the model: the next tensors of it. Never grows. */
typedef struct hkt_overlap_layer {
    const char* name; /* in profiles; null: none */
    size_t tensors;   /* how many; 0: the layer has no weights, and only computes */
} hkt_overlap_layer;

/* With a service: the time at which weights are pulled. */
typedef enum hkt_overlap_pulls {
    HKT_OVERLAP_PULLS_FASTEST = 0, /* the one of these two that is predicted to be faster */
    HKT_OVERLAP_PULLS_BACKWARD =
        1, /* each batch as soon as all workers have pushed its gradients, while other layers still compute
              backward. If several batches are under way, the first layers go first */
    HKT_OVERLAP_PULLS_FORWARD =
        2 /* when the backward pass is over, in batches of their own (iBatch): while the first layers compute
             forward, the weights of others arrive. Not for HKT_OVERLAP_MG_WFBP */
} hkt_overlap_pulls;

/* Everything has a default: start from HKT_OVERLAP_RUN_OPTIONS_INIT and change what you need. */
typedef struct hkt_overlap_run_options {
    size_t size;           /* sizeof(hkt_overlap_run_options) */
    int32_t method;        /* hkt_overlap_method; HKT_OVERLAP_OPTIMUM */
    uint64_t limit_bytes;  /* as in hkt_overlap_options */
    uint64_t bucket_bytes; /* as in hkt_overlap_options */
    int32_t measure;       /* the number of iterations that measure before the plan is made, the very first as
                              a warm-up; with a service, one more; 16. 3 or more */
    int32_t look_every;    /* the number of iterations after which the times are checked again; if they have
                              changed by a tenth, or are far from the prediction, they are measured anew, as at
                              the beginning; 100. -1: never */
    const char* profile;   /* the result of hkt_overlap_profile in an earlier run of the same layers: the plan
                              is made from it at once, without measuring first. The same on all ranks */
    hkt_op op;             /* among ranks: how gradients are combined; HKT_AVERAGE */
    const char* schedule;  /* among ranks: as in hkt_plan_options; null: "reproducible", which adds an element
                              in the same order wherever it lies. With others the bits may depend on the
                              batches */
    int64_t staleness;     /* with a service: of the weights, as in hkt_params_pull; HKT_UNBOUNDED; 0 */
    int64_t pulls;         /* with a service: hkt_overlap_pulls; HKT_OVERLAP_PULLS_FASTEST. A profile of an
                              earlier run without forward passes makes that HKT_OVERLAP_PULLS_BACKWARD */
} hkt_overlap_run_options;

#define HKT_OVERLAP_RUN_OPTIONS_INIT \
    { sizeof(hkt_overlap_run_options), HKT_OVERLAP_OPTIMUM, 0, 0, 0, 0, NULL, HKT_AVERAGE, NULL, 0, 0 }

/* Makes an overlap that combines gradients among the ranks of comm. tensors: all of the model, with one type;
 * layers: their division into layers, the first layer's tensors first. gradients[i] is the memory of tensor
 * i, for as long as the overlap lives: an iteration combines the ranks' gradients there, in place. If the
 * tensors of a layer, and of the next one, are contiguous in memory, they are used directly, otherwise they
 * are copied together; memory of hkt_mem_alloc is the fastest. No two may overlap. comm must make progress by
 * itself (HKT_PROGRESS_THREAD), and must outlive the overlap. Collective: all ranks give the same layers and
 * options; a rank whose arguments are refused waits for the others, too, which get MISMATCH. options may be
 * null. On success the caller owns *overlap, and must pass it to hkt_overlap_close. Errors: INVALID_ARGUMENT,
 * NOT_FOUND and SCHEDULE (the schedule), MISMATCH (ranks give other layers or options), OUT_OF_MEMORY, and
 * those of collectives. */
HKT_API hkt_status hkt_overlap_with_ranks(hkt_comm* comm, const hkt_params_tensor* tensors, size_t count,
                                          void* const* gradients, const hkt_overlap_layer* layers,
                                          size_t layer_count, const hkt_overlap_run_options* options,
                                          hkt_overlap** overlap);

/* Makes an overlap that pushes gradients to the parameter service, batch by batch, while the backward pass
 * goes on, and pulls the resulting weights, at once or while the next forward pass computes. layers: the
 * division into layers of the tensors that params was opened with. gradients[i] and weights[i] are the
 * memory of tensor i, for as long as the overlap lives; no weights may overlap other memory. The current
 * weights are pulled into weights before the call returns. As soon as hkt_overlap_backward is called with
 * a layer, its weights may be written: the program must no longer need the old ones. With
 * HKT_OVERLAP_PULLS_FORWARD none are written before hkt_overlap_finish. A tensor that several layers use
 * belongs to the first of them. Each worker plans for itself, independently of the others. params must
 * outlive the overlap. options may be null. On success the caller owns *overlap. Errors: INVALID_ARGUMENT,
 * OUT_OF_MEMORY, and those of hkt_params_pull. */
HKT_API hkt_status hkt_overlap_with_params(hkt_params* params, const void* const* gradients,
                                           void* const* weights, const hkt_overlap_layer* layers,
                                           size_t layer_count, const hkt_overlap_run_options* options,
                                           hkt_overlap** overlap);

/* Waits until the weights of this layer, and of those before it, have arrived: before that none of these
 * layers may compute. hkt_overlap_begin_backward waits for all. The time from its return until the next call
 * counts as the layer's computation. Among ranks it does not wait. Errors: those of hkt_params_pull. */
HKT_API hkt_status hkt_overlap_forward(hkt_overlap* overlap, size_t layer);

/* Begins the backward pass: earlier computation cannot overlap with communication. Errors: those of
 * hkt_overlap_forward. */
HKT_API hkt_status hkt_overlap_begin_backward(hkt_overlap* overlap);

/* Says that the gradients of this layer, and of all after it, are complete: each layer once, from the last
 * one to 0. From this call on only Hocket may touch them, until hkt_overlap_finish has returned. If the layer
 * completes a batch, the batch is started. Errors: INVALID_ARGUMENT (another layer's turn), and those of
 * collectives, or of hkt_params_push. */
HKT_API hkt_status hkt_overlap_backward(hkt_overlap* overlap, size_t layer);

/* Ends the iteration. Among ranks it returns when all gradients are combined; with a service it ends the
 * worker's round (hkt_params_clock), and weights may still be under way. Now and then all ranks also exchange
 * their measurements here, and use the same plan from then on. Errors: INVALID_ARGUMENT (the gradients of
 * some layers were missing), those of collectives, or of hkt_params_clock; INTERRUPTED: call it again. */
HKT_API hkt_status hkt_overlap_finish(hkt_overlap* overlap);

/* The plan that an hkt_overlap runs, and its times: seconds, medians of the iterations that ran this plan, at
 * most the last 100. */
typedef struct hkt_overlap_run_stats {
    uint64_t iterations; /* since it was opened */
    uint64_t plans;   /* how many were made. 0: it is measuring, and the times are 0. While it measures again,
                         they are those of the previous plan */
    uint64_t batches; /* of the plan that runs */
    double predicted_seconds; /* of an iteration: among ranks from the end of one to the end of the next, with
                                 a service from one backward pass to the next */
    double measured_seconds;
    double computation;    /* parts of that: layers, and the time between iterations */
    double communication;  /* while batches were under way */
    double overlap;        /* while both went on */
    uint64_t pull_batches; /* of the current plan, for weights alone (HKT_OVERLAP_PULLS_FORWARD). 0: weights
                              come back with gradients, or there is no service */
} hkt_overlap_run_stats;

/* size: sizeof(hkt_overlap_run_stats). Errors: INVALID_ARGUMENT. */
HKT_API hkt_status hkt_overlap_get_stats(hkt_overlap* overlap, hkt_overlap_run_stats* stats, size_t size);

/* Returns the current plan, as hkt_overlap_plan does; ends has room for as many numbers as there are
 * layers. */
HKT_API hkt_status hkt_overlap_batches(hkt_overlap* overlap, size_t* ends, size_t* batches);

/* Like hkt_overlap_batches, for the batches of weights alone, as hkt_overlap_run_stats.pull_batches counts
 * them. */
HKT_API hkt_status hkt_overlap_pull_batches(hkt_overlap* overlap, size_t* ends, size_t* batches);

/* Sets *json to the profile of the last plan, which hocket-overlap plan reads (docs/overlap.md). The copy
 * belongs to the calling thread, and is valid until its next hkt_ call. Errors: INVALID_ARGUMENT (nothing has
 * been measured yet). */
HKT_API hkt_status hkt_overlap_profile(hkt_overlap* overlap, const char** json);

/* Frees the overlap, between two iterations or within one, which is then abandoned. Among ranks, all must
 * close it after the same layer, because they must start the same operations; the call waits until this
 * rank's operations have ended, at most for hkt_comm_options.timeout_ms, and hkt_comm_abort ends the wait.
 * With a service, weights are no longer written, and the worker's round lacks the gradients that were not
 * pushed. Null is a no-op. */
HKT_API void hkt_overlap_close(hkt_overlap* overlap);

#ifdef __cplusplus
}
#endif

#endif /* HOCKET_H */
