#include "tools/schedc/msccl/algorithm.hpp"

#include <fmt/format.h>

#include "dsl/base/diagnostic.hpp"

namespace hocket::tools::msccl {

std::string short_text(const Place& place) {
    std::string text = fmt::format("gpu {}", place.gpu);
    if (place.block >= 0) text += fmt::format(" tb {}", place.block);
    if (place.step >= 0) text += fmt::format(" step {}", place.step);
    return text;
}

std::string text_of(const Chunks& chunks, int count) {
    const char letter = "ios"[static_cast<int>(chunks.buffer)];
    return count == 1 ? fmt::format("{}[{}]", letter, chunks.offset)
                      : fmt::format("{}[{} ..< {}]", letter, chunks.offset, chunks.offset + count);
}

void refuse(const Algorithm& algorithm, const Place& place, const std::string& message,
            const std::string& hint) {
    std::string text = algorithm.path + ": ";
    if (place.gpu >= 0) text += fmt::format("gpu {}", place.gpu);
    if (place.block >= 0) text += fmt::format(", threadblock {}", place.block);
    if (place.step >= 0) text += fmt::format(", step {}", place.step);
    throw dsl::DiagnosticError(dsl::Span(), text + (place.gpu >= 0 ? ": " : "") + message, hint);
}

}  // namespace hocket::tools::msccl
