#include "tools/schedc/imports/mscclpp/channels.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::tools::imports::mscclpp {
namespace {

constexpr std::size_t most_members = std::size_t{1} << 20;  // of all groups of ranks

}  // namespace

Medium Channels::medium(const Json& object, const char* name) const {
    const std::string& text = fields_.text(object, name);
    if (text == "memory" || (plan_.is_old && text == "sm")) return Medium::memory;
    if (text == "port" || (plan_.is_old && text == "proxy")) return Medium::port;
    if (text == (plan_.is_old ? "nvls" : "switch")) return Medium::nvls;
    if (text == "none") return Medium::none;
    fields_.fail(fmt::format("\"{}\" is \"{}\", which is no kind of channel", name, excerpt(text)),
                 plan_.is_old ? "these are: memory (sm), port (proxy), nvls and none"
                              : "these are: memory, port, switch and none");
}

int Channels::stream(int from, int to, bool is_port, int number) {
    const auto [found, is_new] =
        streams_.try_emplace({from, to, is_port, number}, static_cast<int>(plan_.streams.size()));
    if (is_new) plan_.streams.push_back({from, to, is_port, number});
    return found->second;
}

void Channels::read_gpu(const Json& gpu) {
    gpus_.resize(plan_.algorithm.gpus.size());
    for (const Json& channel : fields_.list_or_nothing(gpu, "channels")) {
        if (plan_.is_old)
            fields_.check_object(channel, "a channel",
                                 {"type", "srcbuff", "dstbuff", "buff", "connectedTo", "rankGroups"});
        else
            fields_.check_object(channel, "a channel",
                                 {"channel_type", "connected_to", "buff", "buffer_type", "rank_groups"});
        const Medium kind = medium(channel, plan_.is_old ? "type" : "channel_type");
        if (kind == Medium::nvls)
            add_groups(channel);
        else if (kind != Medium::none)
            add_ends(channel, kind);
    }
    read_remote_buffers(gpu);
}

void Channels::add_ends(const Json& channel, Medium medium) {
    const int gpu = fields_.at.gpu;
    for (const Json& one : fields_.list(channel, plan_.is_old ? "connectedTo" : "connected_to")) {
        End end;
        end.peer = fields_.number(one, std::string("the peer of a channel"), 0, plan_.algorithm.ranks() - 1);
        if (end.peer == gpu)
            fields_.fail("a channel has its own GPU as a peer", "use 'copy' inside of a GPU");
        const bool is_port = medium == Medium::port;
        const int number = counts_[{gpu, end.peer, is_port}]++;
        end.outgoing = stream(gpu, end.peer, is_port, number);
        end.incoming = stream(end.peer, gpu, is_port, number);
        if (plan_.is_old) {
            end.source = fields_.buffer(channel, "srcbuff");
            end.target = fields_.buffer(channel, "dstbuff");
        }
        (is_port ? gpus_[gpu].port : gpus_[gpu].memory).push_back(end);
        if (plan_.streams.size() > most_steps)
            fields_.fail(fmt::format("there are more than {} channels", most_steps), larger);
    }
}

void Channels::add_groups(const Json& channel) {
    const char* buffer = !plan_.is_old && fields_.has(channel, "buffer_type") ? "buffer_type" : "buff";
    for (const Json& one : fields_.list(channel, plan_.is_old ? "rankGroups" : "rank_groups")) {
        fields_.check_object(one, "a group of ranks", {"size", "ranks"});
        Group group;
        group.buffer = fields_.buffer(channel, buffer);
        for (const Json& rank : fields_.list(one, "ranks"))
            group.gpus.push_back(
                fields_.number(rank, std::string("a rank of a group"), 0, plan_.algorithm.ranks() - 1));
        std::ranges::sort(group.gpus);
        if (std::ranges::adjacent_find(group.gpus) != group.gpus.end() ||
            !std::ranges::binary_search(group.gpus, fields_.at.gpu))
            fields_.fail("a group of ranks has a rank twice, or not this GPU",
                         "name each GPU of the group once");
        members_ += group.gpus.size();
        if (members_ > most_members)
            fields_.fail(fmt::format("groups of ranks name more than {} ranks together", most_members),
                         larger);
        gpus_[fields_.at.gpu].groups.push_back(std::move(group));
    }
}

void Channels::read_remote_buffers(const Json& gpu) {
    if (plan_.is_old) return;
    for (const Json& one : fields_.list_or_nothing(gpu, "remote_buffers")) {
        fields_.check_object(one, "a remote buffer", {"rank", "type", "access_channel_types"});
        RemoteBuffer remote;
        remote.gpu = fields_.number(one, "rank", 0, plan_.algorithm.ranks() - 1);
        remote.buffer = fields_.buffer(one, "type");
        for (const Json& type : fields_.list(one, "access_channel_types")) {
            const Json object = {{"access_channel_types", type}};
            const Medium by = medium(object, "access_channel_types");
            remote.by_memory = remote.by_memory || by == Medium::memory;
            remote.by_port = remote.by_port || by == Medium::port;
        }
        gpus_[fields_.at.gpu].remote.push_back(remote);
    }
}

void Channels::check() {
    gpus_.resize(plan_.algorithm.gpus.size());
    std::map<std::pair<std::vector<int>, Buffer>, std::map<int, int>> counts;  // how many a GPU has of it
    for (int g = 0; g < plan_.algorithm.ranks(); ++g)
        for (const Group& group : gpus_[g].groups) ++counts[{group.gpus, group.buffer}][g];
    for (const auto& [group, by_gpu] : counts) {
        const auto count = [&](int gpu) {
            const auto found = by_gpu.find(gpu);
            return found == by_gpu.end() ? 0 : found->second;
        };
        const int most = *std::ranges::max_element(group.first, {}, count);
        const int least = *std::ranges::min_element(group.first, {}, count);
        if (count(most) == count(least)) continue;
        fields_.at = {most, -1, -1};
        fields_.fail(fmt::format("it has a group of ranks for the switch that gpu {} does not have", least),
                     "all GPUs of a group must name the same ranks and the same buffer");
    }
}

BlockChannels Channels::of_block(const Json& block) const {
    BlockChannels result;
    for (const Json& channel : fields_.list_or_nothing(block, "channels")) add_channels(channel, result);
    for (const Json& reference : fields_.list_or_nothing(block, "remote_buffer_refs"))
        add_remote_buffers(reference, result);
    const std::pair<const char*, std::size_t> counts[] = {
        {"memory channels", result.memory.size()},
        {"port channels", result.port.size()},
        {"switch channels", result.groups.size()},
        {"remote buffers of memory channels", result.remote_by_memory.size()},
        {"remote buffers of port channels", result.remote_by_port.size()}};
    for (const auto& [kind, count] : counts)
        if (count > static_cast<std::size_t>(most_channels))
            fields_.fail(fmt::format("it has {} {}: a threadblock of MSCCL++ has room for {}", count, kind,
                                     most_channels),
                         "divide its work among several threadblocks");
    return result;
}

void Channels::add_channels(const Json& channel, BlockChannels& result) const {
    if (plan_.is_old)
        fields_.check_object(channel, "a channel", {"src", "dst", "ctype", "cids"});
    else
        fields_.check_object(channel, "a channel", {"buff", "buffer_type", "channel_type", "channel_ids"});
    const GpuChannels& own = gpus_[fields_.at.gpu];
    const Medium kind = medium(channel, plan_.is_old ? "ctype" : "channel_type");
    const auto take = [&](const auto& all, auto& taken) {
        for (const Json& id : fields_.list(channel, plan_.is_old ? "cids" : "channel_ids"))
            taken.push_back(all[fields_.number(id, std::string("the number of a channel"), 0,
                                               static_cast<int>(all.size()) - 1)]);
    };
    if (!plan_.is_old) {
        if (kind == Medium::nvls) take(own.groups, result.groups);
        if (kind == Medium::memory) take(own.memory, result.memory);
        if (kind == Medium::port) take(own.port, result.port);
        return;
    }
    // Numbers count the channels between two buffers.
    const Buffer source = fields_.buffer(channel, "src"), target = fields_.buffer(channel, "dst");
    if (kind == Medium::nvls) {
        std::vector<Group> groups;
        std::ranges::copy_if(own.groups, std::back_inserter(groups),
                             [&](const Group& one) { return one.buffer == source; });
        take(groups, result.groups);
    } else if (kind != Medium::none) {
        std::vector<End> ends;
        std::ranges::copy_if(kind == Medium::port ? own.port : own.memory, std::back_inserter(ends),
                             [&](const End& one) { return one.source == source && one.target == target; });
        take(ends, kind == Medium::port ? result.port : result.memory);
    }
}

void Channels::add_remote_buffers(const Json& reference, BlockChannels& result) const {
    fields_.check_object(reference, "a reference to remote buffers",
                         {"access_channel_type", "remote_buffer_ids"});
    const GpuChannels& own = gpus_[fields_.at.gpu];
    const Medium by = medium(reference, "access_channel_type");
    if (by != Medium::memory && by != Medium::port)
        fields_.fail(fmt::format("\"access_channel_type\" is \"{}\", by which no remote buffer is reached",
                                 fields_.text(reference, "access_channel_type")),
                     "write \"memory\" or \"port\"");
    for (const Json& id : fields_.list(reference, "remote_buffer_ids")) {
        const RemoteBuffer& remote = own.remote[fields_.number(
            id, std::string("the number of a remote buffer"), 0, static_cast<int>(own.remote.size()) - 1)];
        if (!(by == Medium::port ? remote.by_port : remote.by_memory))
            fields_.fail("it refers to a remote buffer by a channel that the buffer does not name",
                         "add the kind of the channel to the buffer's access_channel_types");
        (by == Medium::port ? result.remote_by_port : result.remote_by_memory).push_back(remote);
    }
}

}  // namespace hocket::tools::imports::mscclpp
