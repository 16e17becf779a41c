#include "tools/schedc/imports/mscclpp/operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tools/schedc/imports/divide.hpp"

namespace hocket::tools::imports::mscclpp {

namespace {

// In the first generation.
bool takes_own_buffer_of_channel(std::string_view name) {
    constexpr std::string_view names[] = {"put", "pws", "pwsf", "ppkt", "rppkt", "get"};
    return std::ranges::find(names, name) != std::end(names);
}

}  // namespace

void OperationReader::check_fields(const Json& op, Kind kind) const {
    const auto check = [&](std::initializer_list<std::string_view> names) {
        fields_.check_object(op, "an operation of this kind", names);
    };
    const bool is_old = plan_.is_old;
    switch (kind) {
        case Kind::data:
            if (is_old)
                check({"name", "src", "dst", "srcbuff", "srcoff", "dstbuff", "dstoff", "ctype", "cnt",
                       "i_buff", "o_buff", "i_cids", "o_cids", "srcs", "dsts"});
            else
                check(
                    {"name", "channel_type", "channel_ids", "src_buff", "dst_buff", "tbg_info", "reduce_op"});
            break;
        case Kind::nop:
            is_old ? check({"name", "deps"}) : check({"name"});
            break;
        case Kind::barrier:
            is_old ? check({"name", "deps", "barrier_id", "nthread_blocks"})
                   : check({"name", "barrier_id", "num_threadblocks"});
            break;
        case Kind::acquire:
        case Kind::release:
            check({"name", "semaphore_ids"});
            break;
        case Kind::signal:
        case Kind::wait:
        case Kind::flush:
            is_old ? check({"name", "ctype", "cnt", "i_buff", "o_buff", "i_cids", "o_cids"})
                   : check({"name", "channel_type", "channel_ids"});
            break;
    }
}

Operation OperationReader::read(const Json& op, const BlockChannels& block, int semaphores) const {
    if (!op.is_object()) fields_.check_object(op, "an operation", {});
    if (fields_.has(op, "reduce_op") && fields_.text(op, "reduce_op") != "sum")
        fields_.fail(fmt::format("\"reduce_op\" is \"{}\"", excerpt(fields_.text(op, "reduce_op"))),
                     "a schedule combines with the operator that its caller names: write \"sum\", which "
                     "stands for it");
    // In the first generation the executor knows no others: between threadblocks there are barriers.
    for (const Json& one : fields_.list_or_nothing(op, "deps")) {
        fields_.check_object(one, "a dependency", {"tb", "step"});
        if (const int other = fields_.number(one, "tb", 0, most_blocks); other != fields_.at.block)
            fields_.fail(fmt::format("\"deps\" names threadblock {}, which MSCCL++ does not wait for", other),
                         "use a barrier between threadblocks");
    }
    Operation result = named(op, fields_.text(op, "name"), block, semaphores);
    check_fields(op, result.kind);
    if (fields_.has(op, "tbg_info")) {
        const Json& group = fields_.field(op, "tbg_info");
        fields_.check_object(group, "\"tbg_info\"", {"tb_id", "tbg_size"});
        result.shares = fields_.number(group, "tbg_size", 1, most_blocks);
        result.share = fields_.number(group, "tb_id", 0, result.shares - 1);
    }
    for (const Part& part : result.parts)
        for (const auto* regions : {&part.sources, &part.targets})
            for (const Region& region : *regions)
                check_range(plan_.algorithm, fields_.at, region.gpu, region.chunks, part.count);
    if (plan_.doubles_scratch && !plan_.is_old) check_halves(result);
    return result;
}

// Launches use the halves in turn, and the executor finds the half for packets and for its own GPU's data
// only.
void OperationReader::check_halves(const Operation& op) const {
    const auto is_wrong = [&](const Region& region, bool is_put) {
        return region.chunks.buffer == Buffer::scratch && !region.is_packets &&
               (is_put || region.gpu != fields_.at.gpu);
    };
    for (const Part& part : op.parts)
        for (const auto* regions : {&part.sources, &part.targets})
            for (const Region& region : *regions)
                if (is_wrong(region, part.stream >= 0))
                    fields_.fail(
                        fmt::format("it has data in {} of gpu {}, and \"use_double_scratch_buffer\" is true: "
                                    "MSCCL++'s executor finds the half of the scratch buffer for packets "
                                    "and for data of the same GPU only",
                                    text_of(region.chunks, part.count), region.gpu),
                        "write \"use_double_scratch_buffer\": false, or use packets");
}

void OperationReader::check_lanes(std::size_t count) const {
    if (count > static_cast<std::size_t>(most_lanes))
        fields_.fail(
            fmt::format("it names {} channels: an operation of MSCCL++ has room for {}", count, most_lanes),
            "use several operations");
}

void OperationReader::read_barrier(const Json& op, Operation& result) const {
    result.kind = Kind::barrier;
    result.barrier = fields_.number(op, "barrier_id", 0, most_blocks);
    if (result.barrier >= most_barriers)
        fields_.fail(fmt::format("\"barrier_id\" is {}: MSCCL++'s executor has {} barriers", result.barrier,
                                 most_barriers),
                     fmt::format("number them from 0 to {}", most_barriers - 1));
    result.participants =
        fields_.number(op, plan_.is_old ? "nthread_blocks" : "num_threadblocks", 1, most_blocks);
}

void OperationReader::read_semaphores(const Json& op, int semaphores, Operation& result) const {
    const Json& ids = fields_.list(op, "semaphore_ids");
    if (ids.size() > static_cast<std::size_t>(most_semaphores))
        fields_.fail(fmt::format("it names {} semaphores: an operation of MSCCL++ has room for {}",
                                 ids.size(), most_semaphores),
                     "use several operations");
    for (const Json& id : ids)
        result.semaphores.push_back(
            fields_.number(id, std::string("the number of a semaphore"), 0, semaphores - 1));
}

Operation OperationReader::named(const Json& op, const std::string& name, const BlockChannels& block,
                                 int semaphores) const {
    Operation result;
    const bool is_relaxed = !plan_.is_old && name.starts_with("rlx");
    const std::string plain = is_relaxed ? name.substr(3) : name;
    if (plain == "signal" || plain == "wait" || (name == "flush")) {
        result.kind = plain == "signal" ? Kind::signal : plain == "wait" ? Kind::wait : Kind::flush;
        result.is_relaxed = is_relaxed;
        result.streams = streams(op, plain, block);
        // Since 0.8 the executor counts the targets of a flush, of which it has none, and so does nothing.
        if (name == "flush" && !plan_.is_old) result.streams.clear();
    } else if (name == "barrier") {
        read_barrier(op, result);
    } else if (!plan_.is_old && (name == "sem_acquire" || name == "sem_release")) {
        result.kind = name == "sem_acquire" ? Kind::acquire : Kind::release;
        read_semaphores(op, semaphores, result);
    } else if (name != "nop") {
        if (!is_data_operation(name, plan_.is_old))
            fields_.fail(fmt::format("'{}' is no operation that can be imported", excerpt(name)),
                         "MSCCL++'s executor has no other ones than docs/schedc.md names");
        Operands all = plan_.is_old ? old_operands(op, block) : operands(op, block);
        all.name = name;
        if (plan_.is_old) {
            if (takes_own_buffer_of_channel(name)) check_old_pairs(op, name, block, all);
            if (name == "re" || name == "rs") check_old_sums(name, all);
            if (name == "rppkt") join_old_sources(all);
        }
        return data_operation(fields_, all, plan_.is_old);
    }
    return result;
}

Medium OperationReader::medium_of_order(const Json& op, const std::string& name) const {
    const char* field = plan_.is_old ? "ctype" : "channel_type";
    const Medium medium = channels_.medium(op, field);
    if (medium != Medium::port && (name == "flush" || medium != Medium::memory))
        fields_.fail(fmt::format("'{}' has the {} \"{}\", and needs {}", name, field, fields_.text(op, field),
                                 name == "flush" ? "a port channel" : "a memory or a port channel"),
                     "name the kind of its channel");
    return medium;
}

std::vector<int> OperationReader::streams(const Json& op, const std::string& name,
                                          const BlockChannels& block) const {
    const bool is_wait = name == "wait";
    const Medium medium = medium_of_order(op, name);
    std::vector<int> result;
    if (plan_.is_old) {
        for (const End* end : old_ends(op, is_wait, block))
            result.push_back(is_wait ? end->incoming : end->outgoing);
    } else {
        const std::vector<End>& ends = block.ends(medium);
        const Json& ids = fields_.list(op, "channel_ids");
        check_lanes(ids.size());
        for (const Json& id : ids) {
            const End& end = ends[fields_.number(id, std::string("the number of a channel"), 0,
                                                 static_cast<int>(ends.size()) - 1)];
            result.push_back(is_wait ? end.incoming : end.outgoing);
        }
    }
    if (result.empty()) fields_.fail("it names no channel", "name at least one");
    return result;
}

Operands OperationReader::operands(const Json& op, const BlockChannels& block) const {
    Operands result;
    if (fields_.has(op, "channel_type")) result.medium = channels_.medium(op, "channel_type");
    for (const Json& one : fields_.list_or_nothing(op, "src_buff"))
        result.sources.push_back(operand(one, block, result.medium));
    for (const Json& one : fields_.list_or_nothing(op, "dst_buff"))
        result.targets.push_back(operand(one, block, result.medium));
    if (result.medium != Medium::port) return result;
    const Json& ids = fields_.list(op, "channel_ids");
    check_lanes(ids.size());
    for (std::size_t i = 0; i < result.targets.size(); ++i) {
        if (i >= ids.size())
            fields_.fail("it has fewer channels than targets", "name a channel for each target");
        const End& end = block.port[fields_.number(ids[i], std::string("the number of a channel"), 0,
                                                   static_cast<int>(block.port.size()) - 1)];
        if (result.targets[i].kind == Operand::Kind::remote && end.peer != result.targets[i].regions[0].gpu)
            fields_.fail(fmt::format("target {} is of gpu {}, but its channel goes to gpu {}", i,
                                     result.targets[i].regions[0].gpu, end.peer),
                         "name a channel to the GPU of the buffer");
        result.targets[i].stream = end.outgoing;
    }
    return result;
}

Operand OperationReader::operand(const Json& one, const BlockChannels& block, Medium medium) const {
    fields_.check_object(one, "a range of chunks",
                         {"rank", "type", "buffer_id", "switch_channel_id", "index", "size"});
    if (fields_.has(one, "type") + fields_.has(one, "buffer_id") + fields_.has(one, "switch_channel_id") != 1)
        fields_.fail("a range of chunks must have one of \"type\", \"buffer_id\" and \"switch_channel_id\"",
                     "they name a buffer of this GPU, of another one, or of a group");
    if (fields_.has(one, "rank")) fields_.number(one, "rank", fields_.at.gpu, fields_.at.gpu);
    Operand result;
    const int index = fields_.number(one, "index", 0, most_chunks);
    result.count = fields_.number(one, "size", 1, most_chunks);
    if (fields_.has(one, "type")) {
        result.regions.push_back({fields_.at.gpu, {fields_.buffer(one, "type"), index}});
    } else if (fields_.has(one, "buffer_id")) {
        const std::vector<RemoteBuffer>& all = block.remote(medium);
        const RemoteBuffer& remote =
            all[fields_.number(one, "buffer_id", 0, static_cast<int>(all.size()) - 1)];
        result.kind = Operand::Kind::remote;
        result.regions.push_back({remote.gpu, {remote.buffer, index}});
    } else {
        const Group& group = block.groups[fields_.number(one, "switch_channel_id", 0,
                                                         static_cast<int>(block.groups.size()) - 1)];
        result.kind = Operand::Kind::group;
        result.regions.push_back({fields_.at.gpu, {group.buffer, index}});
        for (const int gpu : group.gpus)
            if (gpu != fields_.at.gpu) result.regions.push_back({gpu, {group.buffer, index}});
    }
    return result;
}

std::vector<const End*> OperationReader::old_ends(const Json& op, bool is_input,
                                                  const BlockChannels& block) const {
    const Json& buffers = fields_.field(op, is_input ? "i_buff" : "o_buff");
    fields_.check_object(buffers, is_input ? "\"i_buff\"" : "\"o_buff\"", {"src", "dst"});
    const Buffer source = fields_.buffer(buffers, "src"), target = fields_.buffer(buffers, "dst");
    std::vector<const End*> ends, result;
    for (const End& end : block.ends(channels_.medium(op, "ctype")))
        if (end.source == source && end.target == target) ends.push_back(&end);
    const Json& ids = fields_.list(op, is_input ? "i_cids" : "o_cids");
    check_lanes(ids.size());
    for (const Json& one : ids) {
        fields_.check_object(one, "a channel's number", {"id", "off"});
        result.push_back(ends[fields_.number(one, "id", 0, static_cast<int>(ends.size()) - 1)]);
    }
    return result;
}

Operand OperationReader::old_local(const Json& object, const char* buffer, const char* offset,
                                   int count) const {
    Operand result;
    result.count = count;
    result.regions.push_back(
        {fields_.at.gpu, {fields_.buffer(object, buffer), fields_.number(object, offset, 0, most_chunks)}});
    return result;
}

void OperationReader::add_old_remote(const Json& op, bool is_source, const BlockChannels& block,
                                     Operands& result, int count) const {
    const char* ids = is_source ? "i_cids" : "o_cids";
    std::vector<Operand>& operands = is_source ? result.sources : result.targets;
    if (!fields_.has(op, ids)) return;
    const std::vector<const End*> ends = old_ends(op, is_source, block);
    for (std::size_t i = 0; i < ends.size(); ++i) {
        Operand remote;
        remote.kind = Operand::Kind::remote;
        remote.count = count;
        remote.stream = result.medium == Medium::port ? ends[i]->outgoing : -1;
        remote.regions.push_back(
            {ends[i]->peer,
             {ends[i]->target, fields_.number(fields_.list(op, ids)[i], "off", 0, most_chunks)}});
        operands.push_back(std::move(remote));
    }
}

Operands OperationReader::old_operands(const Json& op, const BlockChannels& block) const {
    Operands result;
    if (fields_.has(op, "ctype")) result.medium = channels_.medium(op, "ctype");
    const int count = fields_.number(op, "cnt", 1, most_chunks);
    if (fields_.has(op, "srcbuff")) result.sources.push_back(old_local(op, "srcbuff", "srcoff", count));
    for (const Json& one : fields_.list_or_nothing(op, "srcs")) {
        fields_.check_object(one, "a source", {"buff", "off"});
        result.sources.push_back(old_local(one, "buff", "off", count));
    }
    if (fields_.has(op, "dstbuff")) result.targets.push_back(old_local(op, "dstbuff", "dstoff", count));
    for (const Json& one : fields_.list_or_nothing(op, "dsts")) {
        fields_.check_object(one, "a target", {"buff", "off"});
        result.targets.push_back(old_local(one, "buff", "off", count));
    }
    if (result.medium != Medium::nvls) {
        add_old_remote(op, true, block, result, count);
        add_old_remote(op, false, block, result, count);
        return result;
    }
    // Each group's buffer and place are those of srcbuff and dstbuff.
    for (const bool is_source : {true, false}) {
        std::vector<Operand>& operands = is_source ? result.sources : result.targets;
        const Json& ids = fields_.list(op, is_source ? "i_cids" : "o_cids");
        if (operands.size() != 1 || ids.size() != 1)
            fields_.fail(
                "an operation through the switch must have one source, one target and a channel for each",
                "write srcbuff, dstbuff, and i_cids and o_cids with one channel");
        Operand& operand = operands[0];
        const Region own = operand.regions[0];
        std::vector<const Group*> groups;
        for (const Group& group : block.groups)
            if (group.buffer == own.chunks.buffer) groups.push_back(&group);
        fields_.check_object(ids[0], "a channel's number", {"id", "off"});
        operand.kind = Operand::Kind::group;
        for (const int gpu :
             groups[fields_.number(ids[0], "id", 0, static_cast<int>(groups.size()) - 1)]->gpus)
            if (gpu != own.gpu) operand.regions.push_back({gpu, own.chunks});
    }
    return result;
}

// In the first generation channels have a buffer at each end, and the executor takes that of the channel,
// whatever the operation says.
void OperationReader::check_old_pairs(const Json& op, const std::string& name, const BlockChannels& block,
                                      const Operands& all) const {
    const bool is_get = name == "get";
    const char* ignored = is_get ? "dstbuff" : "srcbuff";
    if (fields_.has(op, ignored))
        fields_.fail(fmt::format("'{}' has \"{}\", which MSCCL++'s executor does not look at", name, ignored),
                     fmt::format("write \"{}\": [...]", is_get ? "dsts" : "srcs"));
    if (name == "rppkt" || !fields_.has(op, is_get ? "i_cids" : "o_cids")) return;
    const std::vector<Operand>& own = is_get ? all.targets : all.sources;
    const std::vector<const End*> ends = old_ends(op, is_get, block);
    for (std::size_t i = 0; i < std::min(own.size(), ends.size()); ++i)
        if (const Chunks chunks = own[i].regions[0].chunks; chunks.buffer != ends[i]->source)
            fields_.fail(
                fmt::format("'{}' names {}, but its channel's own buffer is {}: MSCCL++'s executor "
                            "takes the channel's",
                            name, text_of(chunks, own[i].count), "ios"[static_cast<int>(ends[i]->source)]),
                "use a channel of the buffer");
}

void OperationReader::check_old_sums(const std::string& name, const Operands& all) const {
    for (std::size_t i = 2; i < all.sources.size(); ++i)
        if (all.sources[i].regions[0].chunks.buffer != all.sources[1].regions[0].chunks.buffer)
            fields_.fail(
                fmt::format("\"srcs\" of '{}' names several buffers: MSCCL++'s executor takes all of "
                            "them from the first one's",
                            name),
                "use an operation for each buffer");
}

// Leaves one of its sources, which are all the same.
void OperationReader::join_old_sources(Operands& all) const {
    const auto differs = [&](const Operand& one) {
        const Chunks first = all.sources[0].regions[0].chunks, other = one.regions[0].chunks;
        return other.buffer != first.buffer || other.offset != first.offset;
    };
    const std::size_t count = all.sources.size();
    if (count != all.targets.size() || std::ranges::any_of(all.sources, differs))
        fields_.fail(
            fmt::format("'rppkt' has {} source{} and {} channel{}: MSCCL++'s executor takes the n-th source "
                        "for the n-th channel",
                        count, count == 1 ? "" : "s", all.targets.size(), all.targets.size() == 1 ? "" : "s"),
            "name the same source in \"srcs\" once for each channel, or use several operations");
    if (count > 1) all.sources.resize(1);
}

}  // namespace hocket::tools::imports::mscclpp
