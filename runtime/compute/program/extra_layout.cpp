#include "runtime/compute/program/extra_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.hpp"
#include "runtime/compute/kernels/selection.hpp"

namespace hocket::compute {
namespace {

constexpr std::uint64_t alignment = 64, piece_alignment = 16;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

// Returns true if a rank of this host packs the piece or may get it. Ranks that share memory have the same
// layout.
bool is_here(const dsl::RankProgram& program, const dsl::ExtraBuffer& buffer, const dsl::PieceOf& piece) {
    const auto is_local = [&](dsl::Rank rank) {
        return rank == program.rank || std::ranges::binary_search(program.local_peers, rank);
    };
    if (!buffer.receivers.empty())
        return is_local(piece.rank) || is_local(buffer.receivers[piece.number(buffer)]);
    if (buffer.groups.empty()) return true;
    const auto group_of = [&](dsl::Rank rank) { return buffer.groups[static_cast<std::size_t>(rank)]; };
    const auto is_in_group = [&](dsl::Rank rank) { return group_of(rank) == group_of(piece.rank); };
    return is_in_group(program.rank) || std::ranges::any_of(program.local_peers, is_in_group);
}

}  // namespace

ExtraLayout::ExtraLayout(const dsl::RankProgram& program, DataType type, const Layout& layout,
                         std::vector<double> densities, std::uint64_t tensors)
    : program_(&program),
      layout_(layout),
      element_(element_size(working_type(type))),
      work_bytes_(round_up(layout.count() * element_size(type), alignment)),
      densities_(std::move(densities)),
      selected_(program.extras.size()),
      begins_(program.extras.size()) {
    for (std::size_t i = 0; i < program.extras.size(); ++i) {
        if (program.extras[i].buffer.is_like_x()) continue;
        const dsl::ExtraBuffer& buffer = program.extras[i].buffer;
        for (std::int64_t number = 0; number < program.ranks * buffer.parts; ++number) {
            const dsl::PieceOf piece{static_cast<dsl::Rank>(number / buffer.parts), number % buffer.parts};
            begins_[i].push_back(work_bytes_);
            if (buffer.selects()) selected_[i].push_back(0);
            if (!is_here(program, buffer, piece)) continue;
            std::uint64_t bytes = layout.count() > 0 ? tensors * sizeof(double) : 0;
            if (buffer.selects()) {
                const std::uint64_t k = kernels::selected_of(region(i, piece).count, densities_[i]);
                selected_[i].back() = k;
                bytes = bytes_of_values(k, type) + k * sizeof(std::uint32_t);
            } else if (buffer.format) {
                bytes = buffer.format->bytes(region(i, piece).count);
            }
            work_bytes_ += round_up(bytes, piece_alignment);
        }
        begins_[i].push_back(work_bytes_);
        work_bytes_ = round_up(work_bytes_, alignment);
    }
}

std::uint64_t ExtraLayout::selected(std::size_t extra, const dsl::PieceOf& piece) const {
    return selected_[extra][piece.number(program_->extras[extra].buffer)];
}

ExtraLayout::Stretch ExtraLayout::region(std::size_t extra, const dsl::PieceOf& piece) const {
    const dsl::ProgramBuffer& buffer = program_->extras[extra];
    const dsl::Interval& interval = buffer.regions[piece.number(buffer.buffer)];
    const std::uint64_t begin = layout_.offset(interval.begin);
    return {begin, layout_.offset(interval.end) - begin};
}

std::uint64_t ExtraLayout::offset(const dsl::Rational& position) const {
    const std::int64_t whole = position.num() / position.den();
    // The position may be the end of a buffer, which is never the beginning of the next one.
    const bool is_end = (whole - dsl::first_extra) % dsl::extra_stride != 0;
    const std::int64_t buffer = is_end ? whole - 1 : whole;
    const std::size_t extra = dsl::extra_index(buffer);
    const dsl::Rational within = position - dsl::Rational(buffer);
    if (begins_[extra].empty()) return layout_.offset(within) * element_;
    // The end of the buffer is the beginning of a piece that does not exist.
    const dsl::ExtraBuffer& of = program_->extras[extra].buffer;
    return begins_[extra][dsl::piece_at(of, within, program_->ranks).number(of)];
}

std::vector<double> densities_of(const dsl::RankProgram& program, const Arguments* arguments) {
    std::vector<double> densities;
    for (const dsl::ProgramBuffer& extra : program.extras) {
        double density = extra.buffer.density;
        if (extra.buffer.parameter >= 0) {
            const auto parameter = static_cast<std::size_t>(extra.buffer.parameter);
            density = arguments->parameters[parameter];
            if (!(density >= 0 && density <= 1))
                throw Error(Status::invalid_argument,
                            fmt::format("the parameter {} is {}; it is a density, and must be from 0 to 1",
                                        program.parameters[parameter], density));
        }
        densities.push_back(density);
    }
    return densities;
}

}  // namespace hocket::compute
