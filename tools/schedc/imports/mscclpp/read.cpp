#include "tools/schedc/imports/mscclpp/read.hpp"

#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "tools/schedc/imports/divide.hpp"
#include "tools/schedc/imports/mscclpp/operations.hpp"

namespace hocket::tools::imports::mscclpp {
namespace {

constexpr int most_semaphore = 1 << 20;

const Words words = {
    .origin = "MSCCL++",
    .step = "op",
    .chunk_fields = {"input_chunks", "output_chunks", "scratch_chunks"},
    .reads_nothing = "put or copy the chunk there, and wait for that operation; or is another buffer meant?",
    .writes_no_result = "put the chunk into the output",
    .copies_no_result =
        "put the chunk into the output, or copy it there from the input: with \"inplace\": false they are "
        "two buffers",
    .needs_output_alone =
        "let the algorithm work on the output alone, once it is written: one with \"inplace\": true "
        "does so",
    .has_no_scratch =
        "schedules have no scratch buffer; combine what arrives at once, or overwrite what is no longer "
        "needed",
    .order =
        [](const Place&) {
            return std::string(
                "between operations of a threadblock stands a nop; between threadblocks the one signals "
                "behind a nop "
                "(or releases a semaphore), and the other waits, with a nop behind it; a barrier does both");
        },
};

class Reader {
  public:
    Reader(const std::string& path, int rounds) : rounds_(rounds) {
        algorithm().path = path;
        algorithm().words = &words;
    }

    Plan read(const Json& root) {
        fields_.check_object(root, "the plan",
                             {"name", "collective", "colletive", "protocol", "inplace", "reuse_resources",
                              "num_threads_per_block", "use_double_scratch_buffer", "buffer_alignment",
                              "min_message_size", "max_message_size", "gpus"});
        read_head(root);
        for (const Json& gpu : fields_.list(root, "gpus")) read_buffers(gpu);
        fields_.at = {};
        divide(algorithm());
        const Json& gpus = root["gpus"];
        for (fields_.at.gpu = 0; fields_.at.gpu < algorithm().ranks(); ++fields_.at.gpu)
            channels_.read_gpu(gpus[fields_.at.gpu]);
        channels_.check();
        for (int id = 0; id < algorithm().ranks(); ++id) read_blocks(id, gpus[id]);
        fields_.at = {};
        refine();
        return std::move(plan_);
    }

  private:
    Algorithm& algorithm() { return plan_.algorithm; }

    void read_head(const Json& root) {
        algorithm().name = fields_.text(root, "name");
        // Released versions have written the field without its second c.
        const char* collective = fields_.has(root, "colletive") ? "colletive" : "collective";
        const std::string& coll = fields_.text(root, collective);
        plan_.is_shift = coll == "sendrecv";
        if (!plan_.is_shift) algorithm().collective = collective_of(algorithm(), "collective", coll);
        algorithm().in_place = fields_.flag(root, "inplace");
        const std::string& protocol = fields_.text(root, "protocol");
        if (protocol != "Simple" && protocol != "LL")
            fields_.fail(fmt::format("\"protocol\" is \"{}\", none of Simple and LL", excerpt(protocol)),
                         "LL is the one of packets");
        has_packets_ = protocol == "LL";
        if (fields_.has(root, "reuse_resources")) fields_.flag(root, "reuse_resources");
        if (fields_.has(root, "use_double_scratch_buffer"))
            plan_.doubles_scratch = fields_.flag(root, "use_double_scratch_buffer");
        if (fields_.has(root, "buffer_alignment")) fields_.number(root, "buffer_alignment", 1, 1 << 30);
        if (fields_.has(root, "num_threads_per_block"))
            threads_ = fields_.number(root, "num_threads_per_block", 1, 1 << 30);
        if (threads_ > most_threads)
            fields_.fail(fmt::format("\"num_threads_per_block\" is {}: a threadblock has at most {} threads",
                                     threads_, most_threads),
                         "write a smaller number");
        note_sizes(root);
        const Json& gpus = fields_.list(root, "gpus");
        if (gpus.empty() || gpus.size() > most_gpus)
            fields_.fail(fmt::format("\"gpus\" has {} GPUs, not 1 to {}", gpus.size(), most_gpus), larger);
        plan_.is_old = gpus[0].is_object() && gpus[0].contains("inputChunks");
    }

    void note_sizes(const Json& root) {
        const auto size = [&](const char* name, std::uint64_t otherwise) {
            if (!fields_.has(root, name)) return otherwise;
            if (!root[name].is_number_unsigned())
                fields_.fail(fmt::format("\"{}\" is no number of bytes", name), "write a whole number");
            return root[name].get<std::uint64_t>();
        };
        constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
        const std::uint64_t least = size("min_message_size", 0), largest = size("max_message_size", most);
        if (least > largest)
            fields_.fail("\"min_message_size\" is larger than \"max_message_size\"", "exchange the two");
        if (largest < most)
            algorithm().notes.push_back(
                fmt::format("The file is for messages of {} to {} bytes; the schedule is for all sizes.",
                            least, largest));
        else if (least > 0)
            algorithm().notes.push_back(fmt::format(
                "The file is for messages of at least {} bytes; the schedule is for all sizes.", least));
    }

    void read_buffers(const Json& gpu) {
        const int id = algorithm().ranks();
        fields_.at = {id, -1, -1};
        const char* names[][3] = {{"input_chunks", "output_chunks", "scratch_chunks"},
                                  {"inputChunks", "outputChunks", "scratchChunks"}};
        if (plan_.is_old)
            fields_.check_object(gpu, "a GPU",
                                 {"id", "inputChunks", "outputChunks", "scratchChunks", "chunkGroups",
                                  "threadblocks", "channels"});
        else
            fields_.check_object(gpu, "a GPU",
                                 {"id", "input_chunks", "output_chunks", "scratch_chunks", "threadblocks",
                                  "channels", "remote_buffers", "semaphores"});
        if (const int said = fields_.number(gpu, "id", 0, most_gpus); said != id)
            fields_.fail(fmt::format("\"id\" is {} where {} is expected", said, id),
                         "number the GPUs from 0, in their order");
        Gpu one;
        for (int buffer = 0; buffer < 3; ++buffer)
            one.chunks[buffer] = fields_.number(gpu, names[plan_.is_old ? 1 : 0][buffer], 0, most_chunks);
        if (plan_.is_old && fields_.has(gpu, "chunkGroups"))
            fields_.number(gpu, "chunkGroups", 1, most_chunks);
        algorithm().gpus.push_back(std::move(one));
    }

    void read_blocks(int id, const Json& gpu) {
        fields_.at = {id, -1, -1};
        std::vector<int>& semaphores = plan_.semaphores.emplace_back();
        for (const Json& one : fields_.list_or_nothing(gpu, "semaphores")) {
            fields_.check_object(one, "a semaphore", {"init_value"});
            semaphores.push_back(fields_.number(one, "init_value", 0, most_semaphore));
        }
        std::vector<std::vector<Operation>>& blocks = plan_.blocks.emplace_back();
        for (const Json& block : fields_.list(gpu, "threadblocks")) {
            const int number = static_cast<int>(blocks.size());
            fields_.at = {id, number, -1};
            fields_.check_object(block, "a threadblock", {"id", "channels", "remote_buffer_refs", "ops"});
            if (++blocks_ > most_blocks)
                fields_.fail(fmt::format("there are more than {} threadblocks", most_blocks), larger);
            if (const int said = fields_.number(block, "id", 0, most_blocks); said != number)
                fields_.fail(fmt::format("\"id\" is {} where {} is expected", said, number),
                             "number the threadblocks of a GPU from 0, in their order");
            blocks.emplace_back();
            algorithm().gpus[id].blocks.emplace_back();
            const BlockChannels channels = channels_.of_block(block);
            for (const Json& op : fields_.list(block, "ops")) read_operation(op, channels);
        }
    }

    void read_operation(const Json& op, const BlockChannels& channels) {
        number_ = fields_.at.step < 0 ? 0 : number_ + 1;
        fields_.at.step = static_cast<int>(steps().size());
        if (!op.is_object() || !op.contains("name") || op["name"] != "pipeline" || plan_.is_old) {
            add(op, channels, -1);
            return;
        }
        read_loop(op, channels);
    }

    // A loop goes over its chunks in parts of unit_size bytes, and does all of its operations with one part
    // before the next one.
    void read_loop(const Json& op, const BlockChannels& channels) {
        steps().push_back({number_, -1, -1, -1});  // for errors
        fields_.check_object(op, "a pipeline", {"name", "iter_context", "ops"});
        const Json& context = fields_.field(op, "iter_context");
        fields_.check_object(context, "\"iter_context\"", {"unit_size", "num_chunks"});
        const Loop loop{fields_.number(context, "num_chunks", 1, most_chunks),
                        fields_.number(context, "unit_size", 1, std::numeric_limits<int>::max())};
        plan_.has_loops = true;
        steps().pop_back();
        for (int round = 0; round < rounds_; ++round) {
            int inner = 0;
            for (const Json& one : fields_.list(op, "ops")) {
                Operation& added = add(one, channels, inner++);
                if (added.shares > 1)
                    fields_.fail(
                        "it is in a pipeline, and shared by threadblocks",
                        "leave out \"tbg_info\": MSCCL++'s executor divides an operation in one way only");
                check_in_loop(added, loop);
                added.share = round, added.shares = rounds_;
                added.loop = loop;
            }
        }
    }

    void check_in_loop(const Operation& op, const Loop& loop) const {
        if (op.has_packets())
            fields_.fail(
                "it has packets, and is in a pipeline: MSCCL++'s executor does all of it in each round",
                "let it stand outside of the pipeline, or use data instead of packets");
        for (const Part& part : op.parts)
            if (part.count != loop.chunks)
                fields_.fail(fmt::format("it has {} chunk{}, but its pipeline goes over {}", part.count,
                                         part.count == 1 ? "" : "s", loop.chunks),
                             "all operations of a pipeline have \"num_chunks\" chunks");
    }

    std::vector<Step>& steps() { return algorithm().gpus[fields_.at.gpu].blocks[fields_.at.block]; }

    Operation& add(const Json& op, const BlockChannels& channels, int inner) {
        fields_.at.step = static_cast<int>(steps().size());
        steps().push_back({number_, inner, -1, -1});
        if (++steps_ > most_steps)
            fields_.fail(fmt::format("there are more than {} operations", most_steps), larger);
        std::vector<Operation>& all = plan_.blocks[fields_.at.gpu][fields_.at.block];
        all.push_back(
            operations_.read(op, channels, static_cast<int>(plan_.semaphores[fields_.at.gpu].size())));
        if (all.back().has_packets() && !has_packets_)
            fields_.fail("it uses packets, but \"protocol\" is \"Simple\", which has no room for their flags",
                         "write \"protocol\": \"LL\"");
        check_threads(all.back());
        return all.back();
    }

    // One thread for each channel or semaphore.
    void check_threads(const Operation& op) const {
        std::size_t lanes = std::max(op.streams.size(), op.semaphores.size());
        if (std::ranges::any_of(op.parts, [](const Part& part) { return part.stream >= 0; }))
            lanes = std::max(lanes, op.parts.size());
        if (lanes > static_cast<std::size_t>(threads_))
            fields_.fail(
                fmt::format("it needs {} threads, but \"num_threads_per_block\" is {}", lanes, threads_),
                "let there be a thread for each channel and semaphore of an operation");
    }

    template <typename Action>
    void for_each_operation(const Action& action) {
        for (int g = 0; g < algorithm().ranks(); ++g)
            for (int b = 0; b < static_cast<int>(plan_.blocks[g].size()); ++b)
                for (int s = 0; s < static_cast<int>(plan_.blocks[g][b].size()); ++s) {
                    fields_.at = {g, b, s};
                    action(plan_.blocks[g][b][s]);
                }
        fields_.at = {};
    }

    // Divides chunks further, so that each operation has whole ones.
    void refine() {
        std::int64_t parts = 1;
        for_each_operation([&](const Operation& op) {
            for (const Part& part : op.parts)
                parts = std::lcm(parts, op.shares / std::gcd(op.shares, part.count));
            if (parts > most_chunks)
                fields_.fail("threadblocks share operations in too many different ways", larger);
        });
        const int by = static_cast<int>(parts);
        Algorithm& all = algorithm();
        if (std::int64_t{all.chunks} * by > most_chunks)
            fields_.fail(fmt::format("threadblocks divide {} chunks into {} parts each", all.chunks, by),
                         larger);
        all.parts_of_one = by;
        for (Gpu& gpu : all.gpus)
            for (int& chunks : gpu.chunks) {
                if (std::int64_t{chunks} * by > std::numeric_limits<int>::max() / 4)
                    fields_.fail("there are too many scratch chunks", larger);
                chunks *= by;
            }
        // Packets have numbers of their own, behind those of data: they lie elsewhere in the scratch buffer.
        for (Gpu& gpu : all.gpus) gpu.chunks[static_cast<int>(Buffer::scratch)] *= 2;
        divide(all);
        std::int64_t moved = 0;
        for_each_operation([&](Operation& op) {
            for (Part& part : op.parts) {
                const int count = part.count * by, first = share_begin(count, op.share, op.shares);
                part.count = share_begin(count, op.share + 1, op.shares) - first;
                for (auto* regions : {&part.sources, &part.targets})
                    for (Region& region : *regions) {
                        const int scratch =
                            algorithm().gpus[region.gpu].chunks[static_cast<int>(Buffer::scratch)];
                        region.chunks.offset =
                            region.chunks.offset * by + first + (region.is_packets ? scratch / 2 : 0);
                    }
                moved +=
                    std::int64_t{part.count} * static_cast<int>(part.sources.size() + part.targets.size());
            }
            if (moved > most_moved)
                fields_.fail(fmt::format("all operations until here move more than {} chunks", most_moved),
                             larger);
        });
    }

    static int share_begin(int count, int share, int shares) {
        return static_cast<int>(std::int64_t{count} * share / shares);
    }

    Plan plan_;
    int rounds_;
    Fields fields_{plan_.algorithm};
    bool has_packets_ = false;
    int threads_ = most_threads;  // of a threadblock
    Channels channels_{fields_, plan_};
    OperationReader operations_{fields_, channels_, plan_};
    int blocks_ = 0, steps_ = 0;
    int number_ = 0;  // of the operation in its threadblock
};

}  // namespace

Plan read(const std::string& path, const std::string& text, int rounds) {
    return Reader(path, rounds).read(parsed(path, text));
}

}  // namespace hocket::tools::imports::mscclpp
