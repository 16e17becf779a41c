// The job that all processes of a parameter service agree on: its tensors, the update that is applied to
// them, and how they are distributed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/types.hpp"
#include "runtime/params/protocol/tree.hpp"

namespace hocket::params {

inline constexpr std::uint32_t most_servers = 1 << 16;

struct Tensor {
    std::string name;
    DataType type;
    std::uint64_t count;  // elements
    bool operator==(const Tensor&) const = default;
};

// The job's description, sent by the first worker that connects; workers that connect later must send the
// same.
struct Job {
    std::vector<Tensor> tensors;
    std::string update;        // the rule for a round's gradients on the servers, for example "sgd(0.1)"
    bool cuts_tensors = true;  // false: the update needs all of a tensor at once
    Staleness staleness = 0;   // the largest staleness that a pull may ask for
    std::string tree = "auto";
    std::uint64_t chunk_bytes = 0;  // 0: chunk_bytes_of() chooses the size
    std::uint32_t workers = 1;      // the job begins when this many workers have connected
    // Among jobs that share hosts (priority/priority_gate.hpp): 0 to 255, a higher number takes precedence. A
    // job that has waited for longest_wait may read a little in any case; 0: it may wait without a limit.
    std::uint32_t priority = 0;
    std::uint32_t longest_wait_ms = 500;
    bool operator==(const Job&) const = default;
};

// Returns the chunk size of the job if it sets one, else a 128th of all weights, but 64 to 512 KiB. With 128
// chunks each level of a tree adds a 128th of the transfer time, and a chunk is large compared with its
// headers.
std::uint64_t chunk_bytes_of(const Job& job);

// The job as JSON. decode throws transport::ProtocolError; a decoded job has passed check().
std::string encode(const Job& job);
Job decode_job(std::string_view text);

// Throws Error(invalid_argument) with a text that says what is wrong.
void check(const Job& job);

// Describes in words what differs between two processes' jobs; "" if nothing does.
std::string difference(const Job& theirs, const Job& ours);

// Maps elements to chunks and chunks to servers. A pure function of the job and the number of servers.
class Layout {
  public:
    Layout(const Job& job, std::uint32_t servers);

    // A part of a tensor that lies in one chunk.
    struct Piece {
        std::uint32_t tensor;
        Chunk chunk;
        std::uint64_t first;  // the first element's index in the tensor
        std::uint64_t at;     // and in the chunk
        std::uint64_t count;
    };
    struct Place {
        DataType type;
        std::uint64_t count = 0;
        std::uint32_t first_piece = 0, pieces = 0;  // ascending by tensor, contiguous

        std::uint64_t bytes() const { return count * element_size(type); }
    };

    // Chunks are numbered across all servers, in the order of the tensors.
    std::size_t chunks() const { return places_.size(); }
    const Place& place(Chunk chunk) const { return places_[chunk]; }
    std::span<const Piece> pieces_of_chunk(Chunk chunk) const;
    std::span<const Piece> pieces_of_tensor(std::uint32_t tensor) const;

    std::uint32_t servers() const { return static_cast<std::uint32_t>(firsts_.size() - 1); }
    // Each server has consecutive chunks, and all servers have about the same number of bytes.
    Chunk first_of(std::uint32_t server) const { return firsts_[server]; }
    std::size_t chunks_of(std::uint32_t server) const { return firsts_[server + 1] - firsts_[server]; }
    std::uint32_t server_of(Chunk chunk) const;

    std::uint64_t bytes() const { return bytes_; }
    std::uint64_t largest_chunk() const;

  private:
    void cut(const Job& job);
    void deal(std::uint32_t servers);

    std::vector<Place> places_;
    std::vector<Piece> pieces_;
    std::vector<std::uint32_t> first_pieces_;  // by tensor, with an end entry
    std::vector<Chunk> firsts_;                // by server, with an end entry
    std::uint64_t bytes_ = 0;
};

}  // namespace hocket::params
