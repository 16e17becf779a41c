// The device buffers of one start and their copies in the host's pinned memory (staging buffers), on which
// everything else works. Other ranks do not see the difference.
//
//   inputs   are copied to the host in the order in which they are needed, after the work that the caller had
//            enqueued on its stream; check has_come() before reading a stretch;
//   output   is copied to the device stretch by stretch, as soon as each is final; at the end the caller's
//            stream is made to wait for the copies. The host never waits for them.
#pragma once

#include <algorithm>
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
    std::vector<Stretch> stretches;       // copied; an input in the order in which it is needed
    std::string name;                     // the argument's
    const StreamPoint* behind = nullptr;  // the copies follow this point; null: all work on the stream now
    std::uint64_t bytes() const;          // to the end of the furthest stretch
};

// Not thread-safe. After a function has thrown, the object can only be destroyed.
class Staging {
  public:
    // Begins to copy the inputs. If input and output overlap, so do their copies on the host; further inputs
    // overlap no output. Throws hocket::Error: device, out_of_memory, invalid_argument (the stream is being
    // captured).
    static std::unique_ptr<Staging> begin(const Buffers& buffers, std::optional<StagedBuffer> input,
                                          std::optional<StagedBuffer> output,
                                          std::vector<StagedBuffer> further = {});

    // The staging memory is reused once its copies have ended.
    ~Staging();
    Staging(const Staging&) = delete;

    // Return the buffer on the host; null if that buffer is not staged.
    std::byte* input() const { return input_.host; }
    std::byte* output() const { return output_.host; }
    std::byte* further(std::size_t index) const { return further_[index].host; }

    // Returns true if the memory, of a staged buffer or any other, holds the caller's inputs. Throws
    // hocket::Error (device).
    bool has_come(const std::byte* begin, std::uint64_t bytes);
    bool further_has_come();  // all of the further inputs

    // Marks the memory as final; the part of it that lies in the output is copied to the device. Throws as
    // above.
    void finished(const std::byte* begin, std::uint64_t bytes);

    // Describes what the host waits for, for people; "" if nothing.
    std::string awaited();
    bool is_waiting() const {
        return input_.is_waiting() || std::ranges::any_of(further_, &Side::is_waiting);
    }

    // Call once all output is finished: work enqueued on the caller's stream from now on follows the copies.
    // Throws as above.
    void hand_over();

  private:
    struct Chunk {
        std::byte* begin;
        std::uint64_t bytes;
        Event come;
    };
    struct Side {
        std::vector<Stretch> stretches;
        Queues* queues = nullptr;   // null: this buffer is not staged
        Queues* callers = nullptr;  // of the caller's stream
        Stream copies = nullptr;
        const StreamPoint* behind = nullptr;  // as in StagedBuffer; only during begin()
        std::byte* host = nullptr;
        DevicePointer device = 0;
        std::string doing;          // for errors
        std::vector<Chunk> chunks;  // of an input, in the order of their copies
        std::size_t come = 0;       // how many of them have arrived
        bool is_staged() const { return host != nullptr; }
        bool is_waiting() const { return come < chunks.size(); }
    };
    struct Loan {
        Queues* queues;
        Block block;
        std::vector<Event> fences;  // for the copies from and to it
        bool is_lost = false;       // a copy has no fence
    };

    explicit Staging(const Buffers& buffers) : driver_(buffers.driver), stream_(buffers.stream) {}
    void take(Side& side, Devices& devices, StagedBuffer& buffer, const char* verb) const;
    template <typename Call>
    void for_inputs(Call call);
    std::byte* take_block(const Side& side, std::uint64_t bytes);
    void take_memory(std::uint64_t input_bytes, std::uint64_t output_bytes);
    void follow_stream(const Side& side) const;
    void copy_input(Side& side);
    void copy_chunk(Side& side, std::uint64_t begin, std::uint64_t end);
    bool has_come(Side& side, const std::byte* begin, std::uint64_t bytes) const;
    void look(Side& side) const;
    void hand_over_output();
    void hand_over_rest(Side& input);
    void copy_to_device(Stretch final);
    void copy_to_device(std::uint64_t begin, std::uint64_t end);
    void order_behind(const Side& side, Event copies);
    Loan& loan_of(const std::byte* memory);

    const Driver& driver_;
    const Stream stream_;  // the caller's
    Side input_, output_;
    std::vector<Side> further_;
    std::vector<Loan> loans_;
    std::vector<Stretch> pending_;    // of the output: final, but too short to be copied yet
    bool has_copied_output_ = false;  // output was copied after the last fence
};

}  // namespace hocket::device
