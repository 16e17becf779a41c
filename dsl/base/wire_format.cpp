#include "dsl/base/wire_format.hpp"

#include <fmt/format.h>

namespace hocket::dsl {
namespace {

constexpr std::uint64_t scale_bytes = 4, alignment = 4;

const WireFormatRow& row_of(WireFormat::Kind kind) {
    return wire_format_rows[static_cast<std::size_t>(kind)];
}

}  // namespace

unsigned WireFormat::bits() const {
    return row_of(kind).bits;
}

bool WireFormat::has_scales() const {
    return row_of(kind).has_scales;
}

std::uint64_t WireFormat::bytes_of_block(std::uint64_t elements) const {
    const std::uint64_t codes = (elements * bits() + 7) / 8;
    return (has_scales() ? scale_bytes : 0) + (codes + alignment - 1) / alignment * alignment;
}

std::uint64_t WireFormat::bytes(std::uint64_t elements) const {
    const std::uint64_t rest = elements % block;
    return elements / block * bytes_of_block(block) + (rest > 0 ? bytes_of_block(rest) : 0);
}

double WireFormat::bytes_of_element() const {
    return static_cast<double>(bytes_of_block(block)) / block;
}

std::string WireFormat::text() const {
    const std::string_view name = row_of(kind).name;
    return has_scales() ? fmt::format("{}({})", name, block) : std::string(name);
}

std::optional<WireFormat::Kind> wire_format_of(std::string_view name) {
    for (std::size_t i = 0; i < std::size(wire_format_rows); ++i)
        if (wire_format_rows[i].name == name) return static_cast<WireFormat::Kind>(i);
    return std::nullopt;
}

bool is_format(std::string_view name) {
    return name == largest_elements || wire_format_of(name);
}

std::string wire_format_names() {
    std::string names;
    for (const WireFormatRow& row : wire_format_rows) names += fmt::format("{}, ", row.name);
    return fmt::format("{}{}(DENSITY)", names, largest_elements);
}

}  // namespace hocket::dsl
