#include "tools/schedc/imports/mscclpp/operations.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/schedc/imports/divide.hpp"

namespace hocket::tools::imports::mscclpp {

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
    return result;
}

Operation OperationReader::named(const Json& op, const std::string& name, const BlockChannels& block,
                                 int semaphores) const {
    Operation result;
    const bool is_relaxed = !plan_.is_old && name.starts_with("rlx");
    const std::string plain = is_relaxed ? name.substr(3) : name;
    if (plain == "signal" || plain == "wait" || (name == "flush")) {
        result.kind = plain == "signal" ? Kind::signal : plain == "wait" ? Kind::wait : Kind::flush;
        result.is_relaxed = is_relaxed;
        result.streams = streams(op, block, plain == "wait");
    } else if (name == "barrier") {
        result.kind = Kind::barrier;
        result.barrier = fields_.number(op, "barrier_id", 0, most_blocks);
        result.participants =
            fields_.number(op, plan_.is_old ? "nthread_blocks" : "num_threadblocks", 1, most_blocks);
    } else if (!plan_.is_old && (name == "sem_acquire" || name == "sem_release")) {
        result.kind = name == "sem_acquire" ? Kind::acquire : Kind::release;
        for (const Json& id : fields_.list(op, "semaphore_ids"))
            result.semaphores.push_back(
                fields_.number(id, std::string("the number of a semaphore"), 0, semaphores - 1));
    } else if (name != "nop") {
        if (!is_data_operation(name, plan_.is_old))
            fields_.fail(fmt::format("'{}' is no operation that can be imported", excerpt(name)),
                         "MSCCL++'s executor has no other ones than docs/schedc.md names");
        Operands all = plan_.is_old ? old_operands(op, block) : operands(op, block);
        all.name = name;
        return data_operation(fields_, all, plan_.is_old);
    }
    return result;
}

std::vector<int> OperationReader::streams(const Json& op, const BlockChannels& block, bool is_wait) const {
    std::vector<int> result;
    if (plan_.is_old) {
        for (const End* end : old_ends(op, is_wait, block))
            result.push_back(is_wait ? end->incoming : end->outgoing);
    } else {
        const std::vector<End>& ends = block.ends(channels_.medium(op, "channel_type"));
        for (const Json& id : fields_.list(op, "channel_ids")) {
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
    for (const Json& one : fields_.list(op, is_input ? "i_cids" : "o_cids")) {
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

}  // namespace hocket::tools::imports::mscclpp
