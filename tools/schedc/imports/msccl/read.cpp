#include "tools/schedc/imports/msccl/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <pugixml.hpp>
#include <utility>

#include "dsl/base/diagnostic.hpp"
#include "tools/schedc/imports/divide.hpp"

namespace hocket::tools::imports::msccl {
namespace {

const Words words = {
    .origin = "MSCCL",
    .step = "step",
    .chunk_fields = {"i_chunks", "o_chunks", "s_chunks"},
    .reads_nothing =
        "receive the chunk, or copy it there, and wait for that step (depid, deps); or is srcbuf another "
        "buffer?",
    .writes_no_result = "receive the chunk into the output",
    .copies_no_result =
        "receive the chunk into the output, or copy it there from the input: with inplace=\"0\" they "
        "are two buffers",
    .needs_output_alone =
        "let the algorithm work on the output alone, once it is written: an algorithm with "
        "inplace=\"1\" does so",
    .has_no_scratch =
        "schedules have no scratch buffer; receive and reduce at once (rrc), or overwrite what is no "
        "longer needed",
    .order =
        [](const Place& other) {
            return fmt::format("make it wait: depid=\"{}\" deps=\"{}\", and hasdep=\"1\" there", other.block,
                               other.step);
        },
};

// What reading needs everywhere: whose errors they are.
class Reader {
  public:
    explicit Reader(const std::string& path) {
        result_.path = path;
        result_.words = &words;
    }

    Program read(const std::string& text) {
        pugi::xml_document document;
        const pugi::xml_parse_result parsed =
            document.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_fragment);
        if (!parsed) refuse_text(text, parsed);
        const pugi::xml_node algo = document.child("algo");
        for (const pugi::xml_node& node : document.children())
            if (algo && node != algo)
                fail(fmt::format("there is more than the element <algo>: {}",
                                 excerpt(node.type() == pugi::node_element ? node.name() : node.value())),
                     "one file has one algorithm; leave out what stands before and behind it");
        if (!algo)
            fail(fmt::format("the root element is <{}>, not <algo>",
                             excerpt(document.document_element().name())),
                 "only MSCCL's XML and MSCCL++'s JSON can be imported: <algo name=\"...\" coll=\"allreduce\" "
                 "ngpus=\"4\" ...>");
        read_head(algo);
        for (const pugi::xml_node& gpu : algo.children("gpu")) read_gpu(gpu);
        for (int id = 0; id < result_.ranks(); ++id)
            if (!is_read_[id])
                fail(fmt::format("there is no <gpu id=\"{}\">, but ngpus is {}", id, result_.ranks()),
                     "write one <gpu> for each of the ids from 0 to ngpus - 1");
        divide(result_);
        check_chunks();
        return std::move(program_);
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
            fail(fmt::format("{}=\"{}\" of <{}> is not a whole number from {} to {}", name, excerpt(text),
                             node.name(), least, most),
                 most == most_chunks || most == most_gpus ? larger : "");
        return value;
    }

    void read_head(const pugi::xml_node& algo) {
        result_.name = attribute(algo, "name");
        result_.collective = collective_of(result_, "coll", attribute(algo, "coll"));
        result_.in_place = number(algo, "inplace", 0, 1) == 1;
        const int ranks = number(algo, "ngpus", 1, most_gpus);
        number(algo, "nchunksperloop", 1, most_chunks);
        if (algo.attribute("nchannels")) channels_ = number(algo, "nchannels", 1, most_blocks);
        if (algo.attribute("root")) result_.root = number(algo, "root", 0, ranks - 1);
        const std::string_view proto = algo.attribute("proto").value();
        if (!proto.empty() && proto != "Simple" && proto != "LL" && proto != "LL128")
            fail(fmt::format("proto=\"{}\" is none of Simple, LL and LL128", excerpt(proto)),
                 "Hocket has no such protocols, and leaves the attribute out; write one of them");
        result_.gpus.resize(static_cast<std::size_t>(ranks));
        program_.blocks.resize(result_.gpus.size());
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
            const int expected = static_cast<int>(program_.blocks[id].size());
            if (++blocks_ > most_blocks)
                fail(fmt::format("there are more than {} threadblocks", most_blocks), larger);
            at_.block = at_.step = -1;
            const int block_id = number(block, "id", 0, most_blocks);
            if (block_id != expected)
                fail(fmt::format("threadblock {} stands where {} is expected", block_id, expected),
                     "number the threadblocks of a GPU from 0, in their order");
            at_.block = block_id;
            program_.blocks[id].push_back(read_block(block));
            gpu.blocks.emplace_back();
            for (const XmlStep& step : program_.blocks[id].back().steps)
                gpu.blocks.back().push_back({static_cast<int>(gpu.blocks.back().size()), -1,
                                             step.dependency_block, step.dependency_step});
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
            if (++steps_ > most_steps) fail(fmt::format("there are more than {} steps", most_steps), larger);
            block.steps.push_back(read_step(step, block));
        }
        return block;
    }

    XmlStep read_step(const pugi::xml_node& node, const Threadblock& block) {
        XmlStep step;
        const std::string_view type = attribute(node, "type");
        step.type = std::ranges::find(step_types, type, &StepType::name);
        if (step.type == std::end(step_types))
            fail(fmt::format("type=\"{}\" is no type of a step", excerpt(type)),
                 "these are: s, r, rcs, rrc, rrs, rrcs, cpy, re and nop");
        step.dependency_block = number(node, "depid", -1, most_blocks);
        step.dependency_step = number(node, "deps", -1, most_steps);
        step.is_awaited = number(node, "hasdep", 0, 1) == 1;
        if (step.type->name == "nop") return step;
        step.count = number(node, "cnt", 1, most_chunks);
        moved_ += step.count;
        if (moved_ > most_moved)
            fail(fmt::format("all steps until here move more than {} chunks", most_moved), larger);
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
            fail(fmt::format("{}=\"{}\" is no buffer", buffer, excerpt(name)),
                 "these are: i (input), o (output) and s (scratch)");
        return {static_cast<Buffer>(which), number(node, offset, -1, most_chunks)};
    }

    void check_chunks() {
        for (int g = 0; g < result_.ranks(); ++g)
            for (int b = 0; b < static_cast<int>(program_.blocks[g].size()); ++b) {
                const Threadblock& block = program_.blocks[g][b];
                for (int s = 0; s < static_cast<int>(block.steps.size()); ++s) {
                    at_ = {g, b, s};
                    check_step(block.steps[s]);
                }
            }
        at_ = {};
    }

    void check_step(const XmlStep& step) const {
        const StepType& type = *step.type;
        // What stands for the other end is not looked at.
        if (type.reduces || (!type.receives && (type.sends || type.copies)))
            check_range(result_, at_, at_.gpu, step.src, step.count);
        if (type.copies) check_range(result_, at_, at_.gpu, step.dst, step.count);
        check_dependency(step);
    }

    void check_dependency(const XmlStep& step) const {
        const std::vector<Threadblock>& blocks = program_.blocks[at_.gpu];
        if (step.dependency_block < 0 && step.dependency_step < 0) return;
        if (step.dependency_block < 0 || step.dependency_step < 0 ||
            step.dependency_block >= static_cast<int>(blocks.size()) ||
            step.dependency_step >= static_cast<int>(blocks[step.dependency_block].steps.size()))
            fail(fmt::format("it waits for step {} of threadblock {} (depid, deps), which does not exist",
                             step.dependency_step, step.dependency_block),
                 "a step waits for one of the same GPU; without a dependency both attributes are -1");
        if (!blocks[step.dependency_block].steps[step.dependency_step].is_awaited)
            fail(fmt::format(
                     "it waits for step {} of threadblock {}, which has hasdep=\"0\": it would tell nobody "
                     "that it is done",
                     step.dependency_step, step.dependency_block),
                 "write hasdep=\"1\" there");
    }

    Program program_;
    Algorithm& result_ = program_.algorithm;
    Place at_;
    std::vector<bool> is_read_;
    int channels_ = most_blocks, blocks_ = 0, steps_ = 0;
    std::int64_t moved_ = 0;
};

}  // namespace

Program read(const std::string& path, const std::string& text) {
    return Reader(path).read(text);
}

}  // namespace hocket::tools::imports::msccl
