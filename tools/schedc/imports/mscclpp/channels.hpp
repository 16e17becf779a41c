// The channels and remote buffers of a plan: which numbers of a threadblock mean which of them.
#pragma once

#include <map>
#include <tuple>

#include "tools/schedc/imports/mscclpp/fields.hpp"
#include "tools/schedc/imports/mscclpp/plan.hpp"

namespace hocket::tools::imports::mscclpp {

enum class Medium : std::uint8_t { none, memory, port, nvls };  // nvls: through the switch

// An end of a channel. What it sends arrives at the end with its number that the other GPU has.
struct End {
    int peer = 0;
    int outgoing = 0, incoming = 0;                         // streams
    Buffer source = Buffer::input, target = Buffer::input;  // of the first generation
};

struct RemoteBuffer {
    int gpu = 0;
    Buffer buffer = Buffer::input;
    bool by_memory = false, by_port = false;
};

// GPUs that the switch reaches at once.
struct Group {
    std::vector<int> gpus;
    Buffer buffer = Buffer::input;
};

// All that the threadblocks of a GPU can name.
struct GpuChannels {
    std::vector<End> memory, port;
    std::vector<Group> groups;
    std::vector<RemoteBuffer> remote;
};

// What the numbers in a threadblock's operations stand for.
struct BlockChannels {
    std::vector<End> memory, port;
    std::vector<Group> groups;
    std::vector<RemoteBuffer> remote_by_memory, remote_by_port;

    const std::vector<End>& ends(Medium medium) const { return medium == Medium::port ? port : memory; }
    const std::vector<RemoteBuffer>& remote(Medium medium) const {
        return medium == Medium::port ? remote_by_port : remote_by_memory;
    }
};

class Channels {
  public:
    Channels(Fields& fields, Plan& plan) : fields_(fields), plan_(plan) {}

    void read_gpu(const Json& gpu);
    // Once all GPUs are read: a channel has two ends, a group is one at all of its GPUs.
    void check();
    BlockChannels of_block(const Json& block) const;

    Medium medium(const Json& object, const char* name) const;

  private:
    void add_ends(const Json& channel, Medium medium);
    void add_groups(const Json& channel);
    void read_remote_buffers(const Json& gpu);
    void add_channels(const Json& channel, BlockChannels& result) const;
    void add_remote_buffers(const Json& reference, BlockChannels& result) const;
    int stream(int from, int to, bool is_port, int number);

    Fields& fields_;
    Plan& plan_;
    std::vector<GpuChannels> gpus_;
    std::map<std::tuple<int, int, bool, int>, int> streams_;
    std::map<std::tuple<int, int, bool>, int> counts_;  // of ends: by GPU, peer, whether it is a port
    std::size_t members_ = 0;                           // of all groups
};

}  // namespace hocket::tools::imports::mscclpp
