#include "runtime/compute/jit/compiled_program.hpp"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/kernels.hpp"
#include "runtime/compute/jit/streaming.hpp"

namespace hocket::jit {
namespace {

// An element-wise operation: its kernels, and their arguments.
struct Step {
    KernelShape shape;
    Code code = nullptr;         // null: another operation
    Kernel* streamed = nullptr;  // compiled once a count needs it
    std::uint64_t least_streamed = no_streaming;
    dsl::BoundaryId begin = 0, end = 0;
    std::uint32_t operands = 0, destinations = 0;
    std::uint32_t given = 0;   // passed to the kernel as the number of operands
    std::size_t area_ids = 0;  // the first of its area ids
};

class Program final : public CompiledProgram {
  public:
    // Returns null if there is no such kernel.
    using Find = Kernel* (*)(const KernelShape&);

    // The program is incomplete if `find` returns null for one of its operations.
    Program(const dsl::RankProgram& program, DataType type, ReduceOp op, const dsl::Formula& defined,
            Find find)
        : type_(type), boundaries_(program.boundaries), find_(find) {
        const std::uint32_t divisor =
            defined.items.empty() ? divisor_of(op, static_cast<std::uint32_t>(program.ranks)) : 1;
        for (const dsl::Op& operation : program.ops)
            add(operation, op, defined, operation.completes ? divisor : 1,
                operation.epilogue == dsl::Op::no_epilogue
                    ? std::vector<dsl::Formula::Item>()
                    : program.computations[operation.epilogue].formula.items);
    }

    bool is_complete() const { return is_complete_; }

    void bind(const Layout& layout, std::uint64_t* byte_offsets) const override {
        for (std::size_t b = 0; b < boundaries_.size(); ++b)
            byte_offsets[b] = layout.offset(boundaries_[b]) * element_size(type_);
        for (const Step& step : steps_)
            if (byte_offsets[step.end] - byte_offsets[step.begin] >= step.least_streamed)
                step.streamed->code();
    }

    void run(dsl::OpId op, std::byte* const* areas, const std::uint64_t* byte_offsets) const override {
        if (op >= steps_.size() || !steps_[op].code)
            throw Error(Status::internal,
                        fmt::format("JIT: operation {} of the program has no kernel; please report it", op));
        const Step& step = steps_[op];
        const std::uint64_t begin = byte_offsets[step.begin], bytes = byte_offsets[step.end] - begin;
        if (bytes < step.least_streamed)
            call(step.code, step, areas, begin, bytes);
        else
            run_large(step, areas, begin, bytes);
    }

    std::string llvm_ir() const override { return jit::llvm_ir(shapes()); }
    std::string assembly() const override { return jit::assembly(shapes()); }

  private:
    void add(const dsl::Op& op, ReduceOp reduction, const dsl::Formula& defined, std::uint32_t divisor,
             std::vector<dsl::Formula::Item> epilogue) {
        Step& step = steps_.emplace_back();
        if (!is_complete_) return;
        step.operands = static_cast<std::uint32_t>(op.operands.size());
        step.destinations = static_cast<std::uint32_t>(1 + op.also.size());
        switch (op.kind) {
            case dsl::Op::Kind::combine:
            case dsl::Op::Kind::copy:
                step.shape = KernelShape::of(type_, reduction, step.operands, step.destinations, divisor,
                                             std::move(epilogue), defined.items);
                break;
            case dsl::Op::Kind::send:
            case dsl::Op::Kind::receive:
            case dsl::Op::Kind::signal:
            case dsl::Op::Kind::await:
            case dsl::Op::Kind::compute:
                return;  // others run these
        }
        Kernel* const kernel = find_(step.shape);
        is_complete_ = kernel != nullptr;
        if (!is_complete_) return;
        step.code = kernel->code();
        step.given = kernel->shape().divisor == KernelShape::divisor_by_call ? divisor : step.operands;
        if (machine_streams) step.streamed = find_(step.shape.streaming());
        if (step.streamed != nullptr)
            step.least_streamed = least_streamed_bytes(step.operands, step.destinations);
        step.begin = op.begin;
        step.end = op.end;
        step.area_ids = area_ids_.size();
        area_ids_.push_back(op.area);
        area_ids_.insert(area_ids_.end(), op.also.begin(), op.also.end());
        area_ids_.insert(area_ids_.end(), op.operands.begin(), op.operands.end());
    }

    void call(Code code, const Step& step, std::byte* const* areas, std::uint64_t begin,
              std::uint64_t bytes) const {
        code(areas, &area_ids_[step.area_ids], begin, bytes, step.given, step.destinations);
    }

    // Streams as many whole blocks as possible, from the destinations' first cache line on.
    void run_large(const Step& step, std::byte* const* areas, std::uint64_t begin,
                   std::uint64_t bytes) const {
        const std::uint64_t head = streaming_head(areas, &area_ids_[step.area_ids], step.operands,
                                                  step.destinations, begin, bytes, element_size(type_));
        if (head == no_streaming) return call(step.code, step, areas, begin, bytes);
        const std::uint64_t streamed = (bytes - head) / streamed_unit * streamed_unit;
        call(step.code, step, areas, begin, head);
        call(step.streamed->code(), step, areas, begin + head, streamed);
        call(step.code, step, areas, begin + head + streamed, bytes - head - streamed);
    }

    // Returns the shapes of all kernels that the program may call.
    std::vector<KernelShape> shapes() const {
        std::set<KernelShape> shapes;
        for (const Step& step : steps_) {
            if (step.code) shapes.insert(step.shape);
            if (step.streamed) shapes.insert(step.shape.streaming());
        }
        return {shapes.begin(), shapes.end()};
    }

    const DataType type_;
    const std::vector<dsl::Rational> boundaries_;
    const Find find_;
    bool is_complete_ = true;
    std::vector<Step> steps_;
    std::vector<std::uint32_t> area_ids_;  // for each step, the destinations', then the operands'
};

}  // namespace

std::unique_ptr<CompiledProgram> CompiledProgram::compile(const dsl::RankProgram& program, DataType type,
                                                          ReduceOp op, const dsl::Formula& defined) {
    const auto find = [](const KernelShape& shape) { return &find_kernel(shape); };
    return std::make_unique<Program>(program, type, op, defined, find);
}

std::unique_ptr<CompiledProgram> CompiledProgram::of_precompiled(const dsl::RankProgram& program,
                                                                 DataType type, ReduceOp op,
                                                                 const dsl::Formula& defined) {
    auto found = std::make_unique<Program>(program, type, op, defined, find_precompiled_kernel);
    return found->is_complete() ? std::move(found) : nullptr;
}

}  // namespace hocket::jit
