#include "runtime/jit/precompiled/usual_shapes.hpp"

#include <set>

namespace hocket::jit {
namespace {

using enum DataType;
constexpr DataType summed[] = {float32, bfloat16, float16, float64, int32, int64, uint8};
constexpr DataType averaged[] = {float32, bfloat16, float16, float64};
// Losses, flags, and what Hocket's own meetings agree on.
constexpr DataType chosen_from[] = {float32, int32, int64};

class Shapes {
  public:
    // To one rank, to one and its neighbour, and to all.
    void add(DataType type, ReduceOp op, std::size_t ranks, std::uint32_t divisor = 1) {
        for (const std::size_t destinations : {std::size_t(1), std::size_t(2), ranks})
            add(KernelShape::of(type, op, ranks, destinations, divisor));
    }
    void add_copies(DataType type, std::size_t destinations) {
        add(KernelShape::of(type, ReduceOp::sum, 1, destinations));
    }
    std::vector<KernelShape> all() const { return {shapes_.begin(), shapes_.end()}; }

  private:
    void add(const KernelShape& shape) {
        shapes_.insert(shape);
        if (machine_streams) shapes_.insert(shape.streaming());
    }

    std::set<KernelShape> shapes_;
};

}  // namespace

std::vector<KernelShape> usual_shapes() {
    Shapes shapes;
    for (std::size_t ranks = 2; ranks <= most_usual_ranks; ++ranks) {
        for (const DataType type : summed) shapes.add(type, ReduceOp::sum, ranks);
        for (const DataType type : averaged)
            shapes.add(type, ReduceOp::average, ranks, static_cast<std::uint32_t>(ranks));
        for (const DataType type : chosen_from)
            for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) shapes.add(type, op, ranks);
    }
    for (std::size_t destinations = 1; destinations <= most_usual_ranks; ++destinations)
        for (const DataType type : all_types) shapes.add_copies(type, destinations);  // by size
    return shapes.all();
}

}  // namespace hocket::jit
