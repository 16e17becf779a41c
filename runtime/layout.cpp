#include "runtime/layout.hpp"

#include "runtime/error.hpp"

namespace hocket {

Layout::Layout(std::span<const std::uint64_t> pieces) : count_(0) {
    std::vector<std::uint64_t> begins;
    begins.reserve(pieces.size() + 1);
    for (const std::uint64_t piece : pieces) {
        begins.push_back(count_);
        if (__builtin_add_overflow(count_, piece, &count_))
            throw Error(Status::invalid_argument, "the counts of all ranks together are more than 2^64 - 1");
    }
    begins.push_back(count_);
    begins_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(begins));
}

std::uint64_t Layout::offset_in_pieces(const dsl::Rational& boundary) const {
    using Wide = unsigned __int128;
    const std::vector<std::uint64_t>& begins = *begins_;
    const auto num = static_cast<Wide>(boundary.num()) * (begins.size() - 1),
               den = static_cast<Wide>(boundary.den());
    const auto piece = static_cast<std::size_t>(num / den);
    if (piece + 1 >= begins.size()) return count_;
    const std::uint64_t length = begins[piece + 1] - begins[piece];
    return begins[piece] + static_cast<std::uint64_t>(num % den * length / den);
}

}  // namespace hocket
