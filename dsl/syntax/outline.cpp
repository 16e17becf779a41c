#include "dsl/syntax/outline.hpp"

#include <algorithm>

namespace hocket::dsl {
namespace {

class Outliner {
  public:
    std::vector<OutlineItem> passages;

    template <typename Definition>
    void definition(const Definition& definition) {
        const std::size_t parent = add(definition.span, OutlineItem::none, true);
        if constexpr (requires { definition.body; }) list(definition.body, parent);
    }

    void import(const ast::Import& import) { add(import.span, OutlineItem::none, false); }

    void definition(const ast::CollectiveDefinition& definition, const SourceFile& source) {
        const std::size_t parent = add(definition.span, OutlineItem::none, true);
        for (const ast::Let& let : definition.lets) {
            const std::size_t word = source.text.rfind("let", let.name.span.begin);
            add({&source, static_cast<std::uint32_t>(word), let.value.span.end}, parent, false);
        }
        for (const ast::Clause& clause : definition.clauses) {
            const std::size_t self = add(clause.span, parent, true);
            for (const ast::Claim& claim : clause.claims) add(claim.span, self, false);
        }
    }

  private:
    std::size_t add(Span span, std::size_t parent, bool has_body) {
        passages.push_back({span.begin, span.end, parent, has_body});
        return passages.size() - 1;
    }

    template <typename Statement>
    void list(const std::vector<Statement>& statements, std::size_t parent) {
        for (const Statement& statement : statements)
            std::visit([&](const auto& node) { visit(node, statement.span, parent); }, statement.node);
    }

    template <typename Node>
    void visit(const Node& node, Span span, std::size_t parent) {
        constexpr bool has_body = requires {
            node.body;
        };
        const std::size_t self = add(span, parent, has_body);
        if constexpr (requires { node.condition; }) passages[self].head_end = node.condition.span.end;
        if constexpr (has_body) list(node.body, self);
        if constexpr (requires { node.otherwise; }) list(node.otherwise, self);
        if constexpr (requires { node.properties; }) {
            passages[self].has_body = true;
            for (const ast::Property& property : node.properties)
                passages[add(property.span, self, false)].is_property = true;
        }
    }
};

// A definition's span is that of its header: it goes on to the next definition.
void extend_definitions(std::vector<OutlineItem>& passages, std::uint32_t end) {
    for (std::size_t i = passages.size(); i-- > 0;)
        if (passages[i].parent == OutlineItem::none) {
            passages[i].end = end;
            end = passages[i].begin;
        }
}

// The tree has definitions by kind; the text has them in any order.
std::vector<OutlineItem> in_text_order(const std::vector<OutlineItem>& passages) {
    std::vector<std::size_t> order(passages.size()), place(passages.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return passages[a].begin < passages[b].begin; });
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    std::vector<OutlineItem> sorted;
    for (const std::size_t i : order) {
        sorted.push_back(passages[i]);
        if (sorted.back().parent != OutlineItem::none) sorted.back().parent = place[sorted.back().parent];
    }
    return sorted;
}

}  // namespace

std::vector<OutlineItem> outline_of(const ast::File& file, const SourceFile& source) {
    Outliner outliner;
    for (const ast::Import& import : file.imports) outliner.import(import);
    for (const auto& definition : file.collectives) outliner.definition(definition, source);
    for (const auto& definition : file.operators) outliner.definition(definition);
    for (const auto& definition : file.updates) outliner.definition(definition);
    for (const auto& definition : file.algorithms) outliner.definition(definition);
    for (const auto& definition : file.schedules) outliner.definition(definition);
    for (const auto& definition : file.topologies) outliner.definition(definition);
    std::vector<OutlineItem> passages = in_text_order(outliner.passages);
    extend_definitions(passages, static_cast<std::uint32_t>(source.text.size()));
    return passages;
}

}  // namespace hocket::dsl
