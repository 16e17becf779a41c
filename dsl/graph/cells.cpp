#include "dsl/graph/cells.hpp"

#include <algorithm>

namespace hocket::dsl {

bool Cells::add(Node& node, const std::vector<View::Digit>& digits, std::size_t next) {
    while (next < digits.size() && digits[next].size == 1) ++next;
    if (next == digits.size()) return true;
    const View::Digit& digit = digits[next];
    const bool is_part = digit.level < 0;
    if (node.level == Node::undivided) {
        if (static_cast<std::uint64_t>(digit.size) > most_cells) return false;
        node.level = digit.level;
        node.size = digit.size;
        node.below.resize(is_part ? static_cast<std::size_t>(digit.size) : 1);
        node.cells = static_cast<std::uint64_t>(digit.size);
    }
    if (node.level != digit.level || node.size != digit.size) return false;
    Node& below = node.below[is_part ? static_cast<std::size_t>(digit.value) : 0];
    const std::uint64_t before = below.cells;
    if (!add(below, digits, next + 1)) return false;
    node.cells += (below.cells - before) * (is_part ? 1 : static_cast<std::uint64_t>(node.size));
    return node.cells <= most_cells;
}

void Cells::settle(Node& node) {
    std::uint64_t cells = 0;
    node.begins.clear();
    for (Node& below : node.below) {
        settle(below);
        if (node.level == Node::parts) node.begins.push_back(cells);
        cells += below.cells;
    }
}

void Cells::describe(const Node& node, std::vector<std::int64_t>& numbers) {
    numbers.insert(numbers.end(), {node.level, node.size});
    for (const Node& below : node.below) describe(below, numbers);
}

void Cells::append(const Node& node, Rational begin, Rational end, Region& region) {
    if (node.level == Node::undivided) return region.push_back({begin, end});
    const Rational width = (end - begin) * Rational(1, node.size);
    for (std::int64_t i = 0; i < node.size; ++i)
        append(node.below[node.level == Node::parts ? static_cast<std::size_t>(i) : 0],
               begin + width * Rational(i), begin + width * Rational(i + 1), region);
}

Region Cells::intervals() const {
    Region region;
    region.reserve(root_.cells);
    append(root_, Rational(0), Rational(1), region);
    return region;
}

std::uint32_t Cells::moved(std::uint32_t cell, const Symmetry& symmetry,
                           const std::vector<Rank>& amounts) const {
    std::uint64_t rest = cell, result = 0;
    for (const Node* node = &root_; node->level != Node::undivided;) {
        if (node->level == Node::parts) {
            const auto part = std::upper_bound(node->begins.begin(), node->begins.end(), rest) - 1;
            rest -= *part;
            result += *part;
            node = &node->below[static_cast<std::size_t>(part - node->begins.begin())];
            continue;
        }
        const std::uint64_t cells = node->below[0].cells;
        const Rank then = moved_coordinate(symmetry.levels[node->level], static_cast<Rank>(rest / cells),
                                           amounts[node->level], static_cast<Rank>(node->size));
        result += static_cast<std::uint64_t>(then) * cells;
        rest %= cells;
        node = node->below.data();
    }
    return static_cast<std::uint32_t>(result);
}

Region DataSymmetry::intervals() const {
    Region all;
    for (std::int64_t buffer = 0; buffer < buffers; ++buffer) {
        const Region region = shifted(cells.intervals(), buffer);
        all.insert(all.end(), region.begin(), region.end());
    }
    return all;
}

}  // namespace hocket::dsl
