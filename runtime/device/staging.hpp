// The buffers of one start that are on a device, and their likeness in pinned memory of the host, on which
// everything else works. Nobody but this rank sees the difference.
//
//   input    is copied to the host in the order in which it is needed, behind what the caller had enqueued on
//            its stream; who reads a stretch asks first whether it has come;
//   output   is copied to the device stretch by stretch, as soon as each is final; at the end the caller's
//            stream is made to wait for the copies. The host never does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/devices.hpp"
#include "runtime/device/stream_point.hpp"

namespace hocket::device {

struct Stretch {
    std::uint64_t begin, end;  // bytes of a buffer
};

struct StagedBuffer {
    Place place;
    const void* memory = nullptr;         // on the device
    std::vector<Stretch> stretches;       // what is copied; of an input in the order in which it is needed
    const char* name = "";                // the argument's
    const StreamPoint* behind = nullptr;  // what the copies come behind; null: all that is on the stream now
    std::uint64_t bytes() const;          // to the end of the furthest
};

// Not thread-safe. If one function has thrown, the staging can only be destroyed.
class Staging {
  public:
    // Begins to copy the input. An input and an output that overlap do so on the host, too. Throws
    // hocket::Error: device, out_of_memory, invalid_argument (the stream is being captured).
    static std::unique_ptr<Staging> begin(const Buffers& buffers, std::optional<StagedBuffer> input,
                                          std::optional<StagedBuffer> output);

    // The staging memory is used again once its copies have ended.
    ~Staging();
    Staging(const Staging&) = delete;

    // On the host; null if that buffer is not staged.
    std::byte* input() const { return input_.host; }
    std::byte* output() const { return output_.host; }

    // Whether the memory, of a staged buffer or any other, has what the caller put there. Throws
    // hocket::Error (device).
    bool has_come(const std::byte* begin, std::uint64_t bytes);

    // The memory has what the caller shall get; what lies in the output is copied. Throws as above.
    void finished(const std::byte* begin, std::uint64_t bytes);

    // What the host waits for, for people; "" if nothing.
    std::string awaited();
    bool is_waiting() const { return come_ < chunks_.size(); }

    // Once all output is finished: work that is enqueued on the caller's stream from now on comes behind the
    // copies. Throws as above.
    void hand_over();

  private:
    struct Side {
        std::vector<Stretch> stretches;
        Queues* queues = nullptr;   // null: this buffer is not staged
        Queues* callers = nullptr;  // for the caller's stream
        Stream copies = nullptr;
        const StreamPoint* behind = nullptr;  // as in StagedBuffer; only while it begins
        std::byte* host = nullptr;
        DevicePointer device = 0;
        std::string doing;  // for errors
        bool is_staged() const { return host != nullptr; }
    };
    struct Chunk {
        std::byte* begin;
        std::uint64_t bytes;
        Event come;
    };
    struct Loan {
        Queues* queues;
        Block block;
        std::vector<Event> fences;  // for the copies from and to it
        bool is_lost = false;       // a copy has no fence
    };

    explicit Staging(const Buffers& buffers) : driver_(buffers.driver), stream_(buffers.stream) {}
    void take(Side& side, Devices& devices, StagedBuffer& buffer, const char* verb) const;
    void take_memory(std::uint64_t input_bytes, std::uint64_t output_bytes);
    void follow_stream() const;
    void copy_input();
    void copy_chunk(std::uint64_t begin, std::uint64_t end);
    void copy_to_device(Stretch final);
    void copy_to_device(std::uint64_t begin, std::uint64_t end);
    void order_behind(const Side& side, Event copies);
    Loan& loan_of(const std::byte* memory);

    const Driver& driver_;
    const Stream stream_;  // the caller's
    Side input_, output_;
    std::vector<Loan> loans_;
    std::vector<Chunk> chunks_;       // of the input, in the order of their copies
    std::size_t come_ = 0;            // so many of them
    std::vector<Stretch> pending_;    // of the output: final, and not yet on its way: too short for a copy
    bool has_copied_output_ = false;  // since the last fence
};

}  // namespace hocket::device
