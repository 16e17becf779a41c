// What all processes of a parameter service agree on: the tensors, what is done with them, and where they
// lie.
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

// What the first worker says when it comes; those that come later must say the same.
struct Job {
    std::vector<Tensor> tensors;
    std::string update;        // what servers do with a round's gradients: "sgd(0.1)"
    bool cuts_tensors = true;  // false: the update needs all of a tensor at once
    Staleness staleness = 0;   // no pull may ask for more
    std::string tree = "auto";
    std::uint64_t chunk_bytes = 0;  // 0: chunk_bytes_of() chooses
    std::uint32_t workers = 1;      // the job begins when so many have come
    // Among jobs that share hosts (priority/priority_gate.hpp): 0 to 255, the higher ones go first. Who has
    // waited for longest_wait reads a little even so; 0: it may wait for ever.
    std::uint32_t priority = 0;
    std::uint32_t longest_wait_ms = 500;
    bool operator==(const Job&) const = default;
};

// The job's, or a 128th of all weights, but 64 to 512 KiB: a level of a tree then takes a 128th of the time
// longer, and a chunk is large beside what comes with it.
std::uint64_t chunk_bytes_of(const Job& job);

// As JSON. decode: throws transport::ProtocolError; what it returns has passed check().
std::string encode(const Job& job);
Job decode_job(std::string_view text);

// Throws Error(invalid_argument) with what is wrong.
void check(const Job& job);

// What two processes say differently, for people; "": nothing.
std::string difference(const Job& theirs, const Job& ours);

// Where each element lies. A pure function of the job and the number of servers.
class Layout {
  public:
    Layout(const Job& job, std::uint32_t servers);

    // A part of a tensor that is in one chunk.
    struct Piece {
        std::uint32_t tensor;
        Chunk chunk;
        std::uint64_t first;  // its first element, in the tensor
        std::uint64_t at;     // and in the chunk
        std::uint64_t count;
    };
    struct Place {
        DataType type;
        std::uint64_t count = 0;
        std::uint32_t first_piece = 0, pieces = 0;  // ascending by tensor, one after another

        std::uint64_t bytes() const { return count * element_size(type); }
    };

    // Numbers of chunks are those of all servers, in the order of the tensors.
    std::size_t chunks() const { return places_.size(); }
    const Place& place(Chunk chunk) const { return places_[chunk]; }
    std::span<const Piece> pieces_of_chunk(Chunk chunk) const;
    std::span<const Piece> pieces_of_tensor(std::uint32_t tensor) const;

    std::uint32_t servers() const { return static_cast<std::uint32_t>(firsts_.size() - 1); }
    // Each server has consecutive chunks: about as many bytes as each other one.
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
    std::vector<std::uint32_t> first_pieces_;  // by tensor, and the end
    std::vector<Chunk> firsts_;                // by server, and the end
    std::uint64_t bytes_ = 0;
};

}  // namespace hocket::params
