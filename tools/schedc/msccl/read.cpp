#include "tools/schedc/msccl/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <pugixml.hpp>
#include <utility>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"

namespace hocket::tools::msccl {
namespace {

using dsl::Collective;

// More than any machine that MSCCL is for has. They keep the time and the memory of an import small.
constexpr int most_gpus = 1024, most_blocks = 4096, most_steps = 65536, most_chunks = 65536;
constexpr std::int64_t most_moved = 1 << 18;   // chunks, by all steps
constexpr std::int64_t most_places = 1 << 22;  // chunks of all buffers of all GPUs

constexpr std::pair<std::string_view, Collective> collectives[] = {
    {"allreduce", Collective::all_reduce},
    {"all_reduce", Collective::all_reduce},
    {"allgather", Collective::all_gather},
    {"all_gather", Collective::all_gather},
    {"reduce_scatter", Collective::reduce_scatter},
    {"reducescatter", Collective::reduce_scatter},
    {"alltoall", Collective::all_to_all},
    {"all_to_all", Collective::all_to_all},
    {"broadcast", Collective::broadcast},
    {"reduce", Collective::reduce},
    {"gather", Collective::gather},
    {"scatter", Collective::scatter},
};

// What reading needs everywhere: whose errors they are.
class Reader {
  public:
    explicit Reader(const std::string& path) { result_.path = path; }

    Algorithm read(const std::string& text) {
        pugi::xml_document document;
        const pugi::xml_parse_result parsed =
            document.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_fragment);
        if (!parsed) refuse_text(text, parsed);
        const pugi::xml_node algo = document.child("algo");
        for (const pugi::xml_node& node : document.children())
            if (algo && node != algo)
                fail(fmt::format("there is more than the element <algo>: {}",
                                 quoted(node.type() == pugi::node_element ? node.name() : node.value())),
                     "one file has one algorithm; leave out what stands before and behind it");
        if (!algo)
            fail(fmt::format("the root element is <{}>, not <algo>",
                             quoted(document.document_element().name())),
                 "only MSCCL's XML can be imported: <algo name=\"...\" coll=\"allreduce\" ngpus=\"4\" ...>");
        read_head(algo);
        for (const pugi::xml_node& gpu : algo.children("gpu")) read_gpu(gpu);
        for (int id = 0; id < result_.ranks(); ++id)
            if (!is_read_[id])
                fail(fmt::format("there is no <gpu id=\"{}\">, but ngpus is {}", id, result_.ranks()),
                     "write one <gpu> for each of the ids from 0 to ngpus - 1");
        divide();
        check_chunks();
        return std::move(result_);
    }

  private:
    [[noreturn]] void fail(const std::string& message, const std::string& hint) const {
        refuse(result_, at_, message, hint);
    }

    [[noreturn]] void refuse_text(const std::string& text, const pugi::xml_parse_result& parsed) const {
        const auto end = text.begin() + std::clamp<std::ptrdiff_t>(parsed.offset, 0, std::ssize(text));
        throw dsl::DiagnosticError(dsl::Span(),
                                   fmt::format("{}:{}: this is no XML: {}", result_.path,
                                               1 + std::count(text.begin(), end, '\n'), parsed.description()),
                                   "MSCCL's XML has one element <algo>, with a <gpu> for each rank");
    }

    // What a file says is not printed whole, whatever it is.
    static std::string quoted(std::string_view text) {
        std::string shown(text.substr(0, 40));
        for (char& c : shown)
            if (static_cast<unsigned char>(c) < ' ') c = ' ';
        return text.size() > 40 ? shown + "..." : shown;
    }

    std::string_view attribute(const pugi::xml_node& node, const char* name) const {
        const pugi::xml_attribute found = node.attribute(name);
        if (!found)
            fail(fmt::format("<{}> has no attribute '{}'", node.name(), name),
                 fmt::format("write {}=\"...\" in it", name));
        return found.value();
    }

    int number(const pugi::xml_node& node, const char* name, int least, int most) const {
        const std::string_view text = attribute(node, name);
        int value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
            fail(fmt::format("{}=\"{}\" of <{}> is not a whole number from {} to {}", name, quoted(text),
                             node.name(), least, most),
                 most == most_chunks || most == most_gpus ? "larger algorithms are not imported" : "");
        return value;
    }

    void read_head(const pugi::xml_node& algo) {
        result_.name = attribute(algo, "name");
        const std::string_view coll = attribute(algo, "coll");
        const auto* known =
            std::ranges::find(collectives, coll, &std::pair<std::string_view, Collective>::first);
        if (known == std::end(collectives)) {
            std::vector<std::string> names;
            for (const auto& [name, collective] : collectives) names.emplace_back(name);
            fail(fmt::format("coll=\"{}\" is no collective that can be imported{}", quoted(coll),
                             dsl::did_you_mean(coll, names)),
                 "these can: allreduce, allgather, reduce_scatter, alltoall, broadcast, reduce, gather, "
                 "scatter");
        }
        result_.collective = known->second;
        result_.in_place = number(algo, "inplace", 0, 1) == 1;
        const int ranks = number(algo, "ngpus", 1, most_gpus);
        number(algo, "nchunksperloop", 1, most_chunks);
        if (algo.attribute("nchannels")) channels_ = number(algo, "nchannels", 1, most_blocks);
        if (algo.attribute("root")) result_.root = number(algo, "root", 0, ranks - 1);
        const std::string_view proto = algo.attribute("proto").value();
        if (!proto.empty() && proto != "Simple" && proto != "LL" && proto != "LL128")
            fail(fmt::format("proto=\"{}\" is none of Simple, LL and LL128", quoted(proto)),
                 "Hocket has no such protocols, and leaves the attribute out; write one of them");
        result_.gpus.resize(static_cast<std::size_t>(ranks));
        is_read_.resize(result_.gpus.size());
    }

    void read_gpu(const pugi::xml_node& node) {
        at_ = {};
        const int id = number(node, "id", 0, result_.ranks() - 1);
        at_.gpu = id;
        if (is_read_[id]) fail("there are two elements <gpu> with this id", "each id stands for one GPU");
        is_read_[id] = true;
        Gpu& gpu = result_.gpus[id];
        const char* names[] = {"i_chunks", "o_chunks", "s_chunks"};
        for (int buffer = 0; buffer < 3; ++buffer)
            gpu.chunks[buffer] = number(node, names[buffer], 0, most_chunks);
        for (const pugi::xml_node& block : node.children("tb")) {
            const int expected = static_cast<int>(gpu.blocks.size());
            if (++blocks_ > most_blocks)
                fail(fmt::format("there are more than {} threadblocks", most_blocks),
                     "larger algorithms are not imported");
            at_.block = at_.step = -1;
            const int block_id = number(block, "id", 0, most_blocks);
            if (block_id != expected)
                fail(fmt::format("threadblock {} stands where {} is expected", block_id, expected),
                     "number the threadblocks of a GPU from 0, in their order");
            at_.block = block_id;
            gpu.blocks.push_back(read_block(block));
        }
        at_ = {};
    }

    Threadblock read_block(const pugi::xml_node& node) {
        Threadblock block;
        block.send = number(node, "send", -1, result_.ranks() - 1);
        block.receive = number(node, "recv", -1, result_.ranks() - 1);
        block.channel = number(node, "chan", 0, channels_ - 1);
        for (const int peer : {block.send, block.receive})
            if (peer == at_.gpu) fail("it has its own GPU as a peer", "use the step 'cpy' inside of a GPU");
        for (const pugi::xml_node& step : node.children("step")) {
            at_.step = -1;
            const int s = number(step, "s", 0, most_steps);
            if (s != static_cast<int>(block.steps.size()))
                fail(fmt::format("step {} stands where {} is expected", s, block.steps.size()),
                     "number the steps of a threadblock from 0, in their order");
            at_.step = s;
            if (++steps_ > most_steps)
                fail(fmt::format("there are more than {} steps", most_steps),
                     "larger algorithms are not imported");
            block.steps.push_back(read_step(step, block));
        }
        return block;
    }

    Step read_step(const pugi::xml_node& node, const Threadblock& block) {
        Step step;
        const std::string_view type = attribute(node, "type");
        step.type = std::ranges::find(step_types, type, &StepType::name);
        if (step.type == std::end(step_types))
            fail(fmt::format("type=\"{}\" is no type of a step", quoted(type)),
                 "these are: s, r, rcs, rrc, rrs, rrcs, cpy, re and nop");
        step.dependency_block = number(node, "depid", -1, most_blocks);
        step.dependency_step = number(node, "deps", -1, most_steps);
        step.is_awaited = number(node, "hasdep", 0, 1) == 1;
        if (step.type->name == "nop") return step;
        step.count = number(node, "cnt", 1, most_chunks);
        moved_ += step.count;
        if (moved_ > most_moved)
            fail(fmt::format("all steps until here move more than {} chunks", most_moved),
                 "larger algorithms are not imported");
        step.src = chunks(node, "srcbuf", "srcoff");
        step.dst = chunks(node, "dstbuf", "dstoff");
        if (step.type->sends && block.send < 0)
            fail(fmt::format("'{}' sends, but its threadblock has send=\"-1\"", type),
                 "name the receiving GPU in send=\"...\" of the <tb>");
        if (step.type->receives && block.receive < 0)
            fail(fmt::format("'{}' receives, but its threadblock has recv=\"-1\"", type),
                 "name the sending GPU in recv=\"...\" of the <tb>");
        return step;
    }

    Chunks chunks(const pugi::xml_node& node, const char* buffer, const char* offset) const {
        const std::string_view name = attribute(node, buffer);
        const std::size_t which = name.size() == 1 ? std::string_view("ios").find(name[0]) : name.npos;
        if (which == name.npos)
            fail(fmt::format("{}=\"{}\" is no buffer", buffer, quoted(name)),
                 "these are: i (input), o (output) and s (scratch)");
        return {static_cast<Buffer>(which), number(node, offset, -1, most_chunks)};
    }

    // The number that all GPUs give, except for those that give 0. Nothing if all give 0.
    std::optional<int> common(Buffer buffer, const char* name) {
        int found = 0, first = 0;
        for (int id = 0; id < result_.ranks(); ++id) {
            const int one = result_.gpus[id].chunks[static_cast<int>(buffer)];
            if (found > 0 && one > 0 && one != found) {
                at_ = {id, -1, -1};
                fail(fmt::format("{} is {}, but {} of gpu {}", name, one, found, first),
                     "all ranks of a collective have buffers of the same size");
            }
            if (found == 0 && one > 0) found = one, first = id;
        }
        return found > 0 ? std::optional(found) : std::nullopt;
    }

    // Finds out into how many chunks x is divided. What a GPU says of its input and its output must agree.
    void divide() {
        const int ranks = result_.ranks();
        const bool input_is_piece =
            result_.collective == Collective::all_gather || result_.collective == Collective::gather;
        const bool output_is_piece =
            result_.collective == Collective::reduce_scatter || result_.collective == Collective::scatter;
        const bool by_rank =
            input_is_piece || output_is_piece || result_.collective == Collective::all_to_all;
        std::optional<int> input = common(Buffer::input, "i_chunks");
        std::optional<int> output = common(Buffer::output, "o_chunks");
        // In place, files say either how large the piece is, or how large all of the buffer is.
        const auto in_all = [&](std::optional<int> said, bool is_piece, std::optional<int> other) {
            if (!said || !is_piece || (result_.in_place && said == other)) return said;
            return std::optional(*said * ranks);
        };
        const std::optional<int> of_input = in_all(input, input_is_piece, output);
        const std::optional<int> of_output = in_all(output, output_is_piece, input);
        if (!of_input && !of_output)
            fail("no <gpu> has chunks: all i_chunks and o_chunks are 0",
                 "i_chunks and o_chunks say into how many chunks the buffers are divided");
        if (of_input && of_output && of_input != of_output)
            fail(fmt::format(
                     "i_chunks=\"{}\" and o_chunks=\"{}\" do not fit together for this collective on {} GPUs",
                     *input, *output, ranks),
                 "input and output must have chunks of the same size");
        result_.chunks = of_input ? *of_input : *of_output;
        if (result_.chunks > most_chunks)
            fail(fmt::format("the buffer has {} chunks, more than {}", result_.chunks, most_chunks),
                 "larger algorithms are not imported");
        std::int64_t places = std::int64_t{2} * ranks * result_.chunks;
        for (const Gpu& gpu : result_.gpus) places += gpu.chunks[static_cast<int>(Buffer::scratch)];
        if (places > most_places)
            fail(fmt::format("all buffers have {} chunks, more than {}", places, most_places),
                 "larger algorithms are not imported");
        if (result_.chunks % ranks == 0)
            result_.chunks_of_piece = result_.chunks / ranks;
        else if (by_rank)
            fail(fmt::format("the buffer has {} chunks, which {} GPUs cannot divide", result_.chunks, ranks),
                 "this collective needs the same number of chunks for each GPU");
    }

    int limit(const Gpu& gpu, Buffer buffer) const {
        const int said = gpu.chunks[static_cast<int>(buffer)];
        if (buffer == Buffer::scratch || said > 0) return said;
        const bool is_piece = buffer == Buffer::input ? result_.collective == Collective::all_gather ||
                                                            result_.collective == Collective::gather
                                                      : result_.collective == Collective::reduce_scatter ||
                                                            result_.collective == Collective::scatter;
        return is_piece ? result_.chunks_of_piece : result_.chunks;
    }

    void check_chunks() {
        for (int g = 0; g < result_.ranks(); ++g)
            for (int b = 0; b < static_cast<int>(result_.gpus[g].blocks.size()); ++b) {
                const Threadblock& block = result_.gpus[g].blocks[b];
                for (int s = 0; s < static_cast<int>(block.steps.size()); ++s) {
                    at_ = {g, b, s};
                    check_step(result_.gpus[g], block.steps[s]);
                }
            }
        at_ = {};
    }

    void check_step(const Gpu& gpu, const Step& step) const {
        const StepType& type = *step.type;
        // What stands for the other end is not looked at.
        if (type.reduces || (!type.receives && (type.sends || type.copies)))
            check_range(gpu, step.src, step.count);
        if (type.copies) check_range(gpu, step.dst, step.count);
        check_dependency(gpu, step);
    }

    void check_range(const Gpu& gpu, const Chunks& chunks, int count) const {
        const int most = limit(gpu, chunks.buffer);
        if (chunks.offset < 0 || chunks.offset + count > most)
            fail(fmt::format("{} is outside of the buffer, which has {} chunk{}", text_of(chunks, count),
                             most, most == 1 ? "" : "s"),
                 fmt::format("make {}_chunks of the <gpu> larger, or the offset or cnt smaller",
                             "ios"[static_cast<int>(chunks.buffer)]));
    }

    void check_dependency(const Gpu& gpu, const Step& step) const {
        if (step.dependency_block < 0 && step.dependency_step < 0) return;
        if (step.dependency_block < 0 || step.dependency_step < 0 ||
            step.dependency_block >= static_cast<int>(gpu.blocks.size()) ||
            step.dependency_step >= static_cast<int>(gpu.blocks[step.dependency_block].steps.size()))
            fail(fmt::format("it waits for step {} of threadblock {} (depid, deps), which does not exist",
                             step.dependency_step, step.dependency_block),
                 "a step waits for one of the same GPU; without a dependency both attributes are -1");
        if (!gpu.blocks[step.dependency_block].steps[step.dependency_step].is_awaited)
            fail(fmt::format(
                     "it waits for step {} of threadblock {}, which has hasdep=\"0\": it would tell nobody "
                     "that it is done",
                     step.dependency_step, step.dependency_block),
                 "write hasdep=\"1\" there");
    }

    Algorithm result_;
    Place at_;
    std::vector<bool> is_read_;
    int channels_ = most_blocks, blocks_ = 0, steps_ = 0;
    std::int64_t moved_ = 0;
};

}  // namespace

Algorithm read_algorithm(const std::string& path, const std::string& text) {
    return Reader(path).read(text);
}

}  // namespace hocket::tools::msccl
