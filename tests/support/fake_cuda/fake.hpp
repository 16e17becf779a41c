// A CUDA driver for tests on machines without a device: the functions of libcuda.so.1 that Hocket and its
// tests call, with their names and parameters. It keeps a driver's guarantees and nothing more:
//
//   memory    of a device is address space that the process cannot touch (a touch ends it with SIGSEGV):
//             copies go through a second mapping of the same memory file
//             another process opens it by its handle, which says where the memory file is; a process cannot
//             open its own
//   streams   are threads; each operation is late by a random time, so nothing is ordered but what streams
//             and events order. A copy first spoils its destination, and writes the right data only some time
//             later
//   kernels   run on the processor. While one runs, the memory of its device can be touched by the process,
//   and
//             by no means before or after. Those of the library for devices run one at a time
//             (tests/support/simt.hpp): kernels.cpp. Those of plans run beside each other, each thread of a
//             block as a thread of the process: plan_kernels.cpp. The devices say that their compute
//             capability is 0, so Hocket gives them twins (runtime/compute/jit/device_image.hpp)
//   waits     to free memory of a device or pinned memory, to close another process's memory, and to launch a
//             kernel whose code is not there yet, waits for all streams of the context; a copy from memory
//             that is not pinned returns before the device has the data
//   faults    a use that a real driver need not survive (pinned memory that is freed under a copy, memory
//   that
//             is freed or closed while any process copies from or to it, handles of another context) ends the
//             process with a text, or gives the driver's error
//
// tests/support/device.hpp says how tests talk to it beside that.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#define FAKE_CUDA_API extern "C" __attribute__((visibility("default")))

namespace fake_cuda {

constexpr int success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, invalid_device = 101,
              invalid_image = 200, invalid_context = 201, invalid_handle = 400, not_found = 500,
              not_ready = 600, launch_failed = 719, not_supported = 801, capture_unsupported = 900,
              capture_invalidated = 901, capture_unjoined = 904, capture_isolation = 905,
              captured_event = 907, illegal_state = 401;
constexpr int devices = 2;
// Few, and not a power of two, so that blocks and threads are all that tests can wait for.
constexpr int processors = 6, most_threads = 3;
constexpr std::uint64_t pinned_most = std::uint64_t{1} << 30;  // of a process

[[noreturn]] void fault(const std::string& text);

// The result of a call that a test lets fail, or success. Each function calls this first.
int result_of_call(const char* function);
bool any_call_has_failed();

struct Context {
    int device;
};

// ---- Memory -------------------------------------------------------------------------------------

// The state that all processes share that have an allocation open; it lies behind the memory in the file.
struct Common {
    static constexpr int most_users = 1000;  // a page holds them all
    std::atomic<bool> is_freed;
    // For each copy from or to it under way that another process made: that process; 0: none.
    std::atomic<int> users[most_users];
};

struct Allocation {
    std::byte* begin;   // the address that the program gets
    std::byte* shadow;  // the same memory, accessible
    std::size_t bytes;
    Context* context;
    int file;  // -1: another process's
    Common* common;
    std::uint64_t number;  // no other allocation of the process has or had it
    int uses = 0;          // copies and kernels that are under way
    int kernels = 0;       // of them
    int opens = 0;         // of another process's
    int owner = 0;         // another process's: that process
};

struct Handle {  // without padding: handles of one allocation are the same bytes
    int owner, file, device, reserved;
    std::uint64_t number, bytes;
    std::uint64_t inode;  // of the file
};
static_assert(sizeof(Handle) <= 64);

// Thread-safe. Device: success, or a driver's error.
int allocate(std::size_t bytes, Context& context, std::byte*& begin);
bool release(std::byte* begin);  // once its uses have ended
// While a kernel runs, the process can touch the memory of its device that is there when it begins.
std::vector<std::byte*> open_memory(int device);
void close_memory(const std::vector<std::byte*>& opened);
void use_allocation(const void* memory, int change);
// An address at which the bytes can be accessed; null if they are not all inside one allocation.
std::byte* shadow_of(const void* memory, std::size_t bytes);
// The allocation that the address is in; null: memory of the host.
const Allocation* allocation_of(const void* memory);

bool export_allocation(const void* begin, Handle& handle);
// Success, or a driver's error.
int open_exported(const Handle& handle, Context& context, std::byte*& begin);
int close_exported(const std::byte* begin);
std::size_t opened();  // now
std::size_t met();     // other processes whose memory copies have been from or to
// Around a copy from or to memory, which may be another process's.
void begin_use_elsewhere(const void* memory);
void end_use_elsewhere(const void* memory);
// A device that has failed copies no more, as far as other processes can tell.
void give_uses_up();

int pin(std::size_t bytes, void*& begin);
int unpin(void* begin);
bool is_pinned(const void* memory, std::size_t bytes);
// A copy to or from pinned memory begins, and ends.
void use_pinned(const void* memory, int change);
std::uint64_t pinned_bytes();

// ---- Streams ------------------------------------------------------------------------------------

// The point in a stream that an event was recorded at.
class Mark {
  public:
    void set();
    void wait();
    bool is_set() const { return set_; }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<bool> set_ = false;
};

// Work of streams that are being captured, in the order of the calls, which is one of the orders that a real
// graph allows.
struct Capture {
    explicit Capture(void* stream) : origin(stream) {}
    const unsigned long long number = next_number();
    void* const origin;  // the stream that began it
    std::atomic<bool> is_invalid = false;
    std::vector<std::function<void()>> nodes;

    static unsigned long long next_number();
};

struct Graph {
    std::vector<std::function<void()>> nodes;
};

class Stream {
  public:
    explicit Stream(Context& of);
    ~Stream();  // once all operations have ended
    void enqueue(std::function<void()> operation);
    // The same, or a node of the graph if the stream is being captured.
    void put(std::function<void()> operation);
    void be_late();  // called by an operation
    bool is_idle();

    Context& context;
    std::shared_ptr<Capture> capture;  // null: none. Of the thread that captures
    Graph* captured = nullptr;         // for fake_cuda_replay()

  private:
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> operations_;
    bool ends_ = false, is_busy_ = false;
    std::minstd_rand random_;
    std::thread thread_;
};

// ---- Kernels of plans ---------------------------------------------------------------------------

// The compute capability that devices say they have, 80 for 8.0: FAKE_CUDA_CAPABILITY, or 0.
int capability();

// A module, and the one kernel in it.
struct PlanModule {
    void (*code)();  // a TwinCode
    Context* context;
    bool is_there = false;  // on the device
    std::atomic<int> runs = 0;
};

// Success, or invalid_image for all but the text of a twin.
int load_plan(const char* image, Context& context, PlanModule*& module);
int unload_plan(PlanModule* module);  // ends the process if it runs
bool is_plan(const PlanModule* module);
unsigned long long runs_by_packets();
// Returns when all threads have ended. arguments: an address.
void run_plan(PlanModule& module, unsigned blocks, unsigned threads, unsigned long long arguments);

// ---- Events -------------------------------------------------------------------------------------

struct Event {
    Context& context;
    std::shared_ptr<Mark> mark;           // null: never recorded
    std::weak_ptr<Capture> capture = {};  // it was recorded in this one
    bool is_captured = false;             // it was last recorded in a capture, which may be over
};

}  // namespace fake_cuda
