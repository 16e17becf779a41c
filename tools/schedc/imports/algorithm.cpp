#include "tools/schedc/imports/algorithm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"

namespace hocket::tools::imports {
namespace {

using dsl::Collective;

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

}  // namespace

// While a file is read, its steps may not be known yet.
std::string step_text(const Algorithm& algorithm, const Place& place) {
    const auto known = [](const auto& all, int index) { return index < static_cast<int>(all.size()); };
    if (!known(algorithm.gpus, place.gpu) || !known(algorithm.gpus[place.gpu].blocks, place.block) ||
        !known(algorithm.gpus[place.gpu].blocks[place.block], place.step))
        return fmt::format("{} {}", algorithm.words->step, place.step);
    const Step& step = algorithm.gpus[place.gpu].blocks[place.block][place.step];
    return step.inner < 0 ? fmt::format("{} {}", algorithm.words->step, step.number)
                          : fmt::format("{} {}.{}", algorithm.words->step, step.number, step.inner);
}

std::string short_text(const Algorithm& algorithm, const Place& place) {
    std::string text = fmt::format("gpu {}", place.gpu);
    if (place.block >= 0) text += fmt::format(" tb {}", place.block);
    if (place.step >= 0) text += " " + step_text(algorithm, place);
    return text;
}

std::string chunk_text(const Algorithm& algorithm, int chunk) {
    const int parts = algorithm.parts_of_one;
    return parts == 1 ? fmt::format("chunk {}", chunk)
                      : fmt::format("part {} of {} of chunk {}", chunk % parts, parts, chunk / parts);
}

std::string text_of(const Chunks& chunks, int count) {
    const char letter = "ios"[static_cast<int>(chunks.buffer)];
    return count == 1 ? fmt::format("{}[{}]", letter, chunks.offset)
                      : fmt::format("{}[{} ..< {}]", letter, chunks.offset, chunks.offset + count);
}

std::string excerpt(std::string_view text) {
    std::string shown(text.substr(0, 40));
    for (char& c : shown)
        if (static_cast<unsigned char>(c) < ' ') c = ' ';
    return text.size() > 40 ? shown + "..." : shown;
}

Collective collective_of(const Algorithm& algorithm, std::string_view field, std::string_view name) {
    const auto* known = std::ranges::find(collectives, name, &std::pair<std::string_view, Collective>::first);
    if (known != std::end(collectives)) return known->second;
    std::vector<std::string> names;
    for (const auto& [one, collective] : collectives) names.emplace_back(one);
    refuse(algorithm, {},
           fmt::format("{}=\"{}\" is no collective that can be imported{}", field, excerpt(name),
                       dsl::did_you_mean(name, names)),
           "these can: allreduce, allgather, reduce_scatter, alltoall, broadcast, reduce, gather, scatter");
}

void refuse(const Algorithm& algorithm, const Place& place, const std::string& message,
            const std::string& hint) {
    std::string text = algorithm.path + ": ";
    if (place.gpu >= 0) text += fmt::format("gpu {}", place.gpu);
    if (place.block >= 0) text += fmt::format(", threadblock {}", place.block);
    if (place.step >= 0) text += ", " + step_text(algorithm, place);
    throw dsl::DiagnosticError(dsl::Span(), text + (place.gpu >= 0 ? ": " : "") + message, hint);
}

}  // namespace hocket::tools::imports
