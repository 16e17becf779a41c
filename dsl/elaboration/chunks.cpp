#include "dsl/elaboration/chunks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {

const ast::Expression& buffer_of(const ast::Expression& region) {
    using Kind = ast::Expression::Kind;
    return region.kind == Kind::index || region.kind == Kind::slice ? region.args[0] : region;
}

Chunks chunks_of(const ast::Expression& region, const Evaluator& evaluator, Rank size) {
    using Kind = ast::Expression::Kind;
    const ast::Expression& base = buffer_of(region);
    const Value buffer = evaluator.evaluate(base);
    const auto* reference = std::get_if<ViewRef>(&buffer);
    if (!reference)
        throw DiagnosticError(
            base.span, fmt::format("expected a buffer here, but this is {}", kind_of(buffer)),
            "write x, x[chunk], x[first ..< end] or x[block(i, n)]; a part has a name first: "
            "let y = x.part(0 of 2)");
    const ViewId view = reference->view;
    if (&base == &region) return {view, 0, size};
    if (region.kind == Kind::slice) {
        const std::int64_t first = evaluator.integer(region.args[1]),
                           last = evaluator.integer(region.args[2]);
        if (first >= last)
            throw DiagnosticError(region.span, fmt::format("the slice {} ..< {} is empty", first, last),
                                  "its end is not in a slice: x[i ..< i + 1] is one chunk");
        std::int64_t length = 0;
        if (__builtin_sub_overflow(last, first, &length) || length > size)
            throw DiagnosticError(
                region.span,
                fmt::format("the slice {} ..< {} names chunks twice: this group has {}", first, last, size),
                "a slice goes on at chunk 0 after the last one, and has at most as many chunks as the group "
                "has "
                "members: x[i ..< i + min(n, g.size)]");
        const auto begin = static_cast<Rank>(wrap(first, size));
        return {view, begin, begin + static_cast<Rank>(length)};
    }
    const ast::Expression& index = region.args[1];
    if (index.kind == Kind::call && index.text == "block") {
        if (index.args.size() != 2)
            throw DiagnosticError(index.span, "block takes 2 arguments: block(chunk, chunks in a block)");
        const std::int64_t chunk = wrap(evaluator.integer(index.args[0]), size),
                           length = evaluator.integer(index.args[1]);
        if (length < 1)
            throw DiagnosticError(index.span, fmt::format("a block of {} chunks", length),
                                  "a block has at least one");
        const std::int64_t first = chunk / length * length;
        return {view, static_cast<Rank>(first),
                static_cast<Rank>(std::min<std::int64_t>(first + length, size))};
    }
    const auto chunk = static_cast<Rank>(wrap(evaluator.integer(index), size));
    return {view, chunk, chunk + 1};
}

}  // namespace hocket::dsl
