#include "tools/schedc/lsp/answers.hpp"

#include <fmt/format.h>

#include <set>

#include "dsl/base/collective.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/base/readable.hpp"
#include "dsl/syntax/format.hpp"
#include "dsl/syntax/tokens.hpp"
#include "tools/schedc/lsp/meanings.hpp"

namespace hocket::tools::lsp {
namespace {

// Numbers of the protocol.
enum SymbolKind { class_symbol = 5, function_symbol = 12, operator_symbol = 25, struct_symbol = 23 };
enum CompletionKind {
    function_item = 3,
    variable_item = 6,
    property_item = 10,
    keyword_item = 14,
    module_item = 9
};

Json markdown(const std::string& form, const std::string& text) {
    return {
        {"contents", {{"kind", "markdown"}, {"value", fmt::format("```sched\n{}\n```\n{}", form, text)}}}};
}

void add_line(std::string& text, const std::string& line) {
    if (!text.empty()) text += '\n';
    text += line;
}

// A definition of another file.
struct Foreign {
    std::string kind;  // "algorithm"
    const dsl::ast::Name* name;
    dsl::Span header;
};

// The folders, and what the document imports, also while the document cannot be parsed.
struct Elsewhere {
    dsl::Library library;
    dsl::Span here;  // a place that sees the imports that are right; empty if there are none

    Elsewhere(const Document& document, const dsl::Library& folders) : library(folders) {
        std::string imports;
        const std::vector<dsl::Token> tokens = dsl::tokens_of(document.source());
        for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
            if (!tokens[i].is("import")) continue;
            const std::string more = fmt::format("{}import {}\n", imports, tokens[i + 1].text);
            try {
                dsl::Library with = folders;
                here = with.add(document.source().path, more).imports.at(0).span;
                library = std::move(with);
                imports = more;
            } catch (const std::exception&) {
                // The diagnostics say that it is wrong.
            }
        }
    }
};

// Returns the definitions of the name; only algorithms of the collective, if one is given.
std::vector<Foreign> foreign(const Elsewhere& elsewhere, const std::string& name,
                             std::string_view collective) {
    const auto& [library, here] = elsewhere;
    std::vector<Foreign> found;
    const auto add = [&](const char* kind, const auto* definition) {
        if (definition) found.push_back({kind, &definition->name, definition->span});
    };
    try {
        for (const dsl::Collective one : dsl::all_collectives) {
            if (!collective.empty() && collective != name_of(one)) continue;
            add("algorithm", library.find_algorithm(name, one, here));
            if (collective.empty()) add("schedule", library.find_schedule(name, one));
        }
        if (!found.empty() || !collective.empty()) return found;
        add("topology", library.find_topology(name));
        add("operator", library.find_operator(name));
        add("update", library.find_update(name));
    } catch (const dsl::DiagnosticError&) {
        // Two files define it, which the diagnostics say.
    }
    return found;
}

Json hover_of(const Document& document, const std::vector<const Symbol*>& meant) {
    std::string forms;
    for (const Symbol* symbol : meant) add_line(forms, dsl::readable(symbol->text));
    const std::size_t line =
        static_cast<std::size_t>(dsl::position_of(document.source(), meant[0]->begin).line);
    return markdown(forms, fmt::format("{}, line {}", name_of(meant[0]->kind), line));
}

bool is_member(const Document& document, const dsl::Token& word) {
    return document.symbols().before(word).is(".");
}

Json meaning_of(const Meaning& meaning) {
    return markdown(std::string(meaning.form), std::string(meaning.text));
}

}  // namespace

Json hover(const Document& document, std::size_t offset, const dsl::Library& folders) {
    const std::optional<dsl::Token> word = document.symbols().word_at(offset);
    if (!word) return nullptr;
    if (is_member(document, *word)) {
        const Meaning* meaning = find_meaning(members(), word->text);
        return meaning ? meaning_of(*meaning) : Json(nullptr);
    }
    const auto meant = document.symbols().meant_at(word->text, word->begin);
    if (!meant.empty()) return hover_of(document, meant);
    if (const std::string contract = contract_text(word->text); !contract.empty())
        return markdown(std::string(word->text), contract);
    const std::string_view collective = document.symbols().collective_used_at(word->begin);
    if (const Meaning* meaning = collective.empty() ? find_meaning(meanings(), word->text) : nullptr)
        return meaning_of(*meaning);
    const Elsewhere elsewhere(document, folders);
    const auto others = foreign(elsewhere, std::string(word->text), collective);
    if (others.empty()) return nullptr;
    std::string forms;
    for (const Foreign& one : others) add_line(forms, folded_text(one.header));
    return markdown(forms, location_of(others[0].name->span));
}

Json definition(const Document& document, std::size_t offset, const dsl::Library& folders) {
    const std::optional<dsl::Token> word = document.symbols().word_at(offset);
    if (!word || is_member(document, *word)) return nullptr;
    Json places = Json::array();
    for (const Symbol* symbol : document.symbols().meant_at(word->text, word->begin))
        places.push_back({{"uri", document.uri()},
                          {"range", document.range(symbol->begin, symbol->begin + symbol->name.size())}});
    if (!places.empty()) return places;
    const std::string_view collective = document.symbols().collective_used_at(word->begin);
    const Elsewhere elsewhere(document, folders);
    for (const Foreign& one : foreign(elsewhere, std::string(word->text), collective)) {
        const Document other(uri_of(one.name->span.file->path), one.name->span.file->text);
        places.push_back(
            {{"uri", other.uri()}, {"range", other.range(one.name->span.begin, one.name->span.end)}});
    }
    return places.empty() ? Json(nullptr) : places;
}

namespace {

// Items of one label each; what is added first stays.
class Items {
  public:
    void add(std::string_view label, int kind, std::string_view detail) {
        if (known_.insert(std::string(label)).second)
            items_.push_back({{"label", label}, {"kind", kind}, {"detail", dsl::readable(detail)}});
    }
    void add(std::span<const Meaning> all, int kind) {
        for (const Meaning& meaning : all) add(meaning.word, kind, meaning.form);
    }
    Json take() { return std::move(items_); }

  private:
    Json items_ = Json::array();
    std::set<std::string> known_;
};

void add_algorithms(Items& items, const Document& document, std::string_view collective,
                    const dsl::Library& folders) {
    for (const Symbol& symbol : document.symbols().all())
        if (symbol.kind == Symbol::Kind::algorithm && symbol.collective == collective)
            items.add(symbol.name, function_item, symbol.text);
    const auto [library, here] = Elsewhere(document, folders);
    for (const dsl::Collective one : dsl::all_collectives)
        if (name_of(one) == collective)
            for (const auto* algorithm : library.algorithms_at(here, one))
                items.add(algorithm->name.text, function_item, folded_text(algorithm->span));
}

}  // namespace

Json completion(const Document& document, std::size_t offset, const dsl::Library& library) {
    // The word that is being written is no name yet.
    const std::optional<dsl::Token> word = document.symbols().word_at(offset);
    const std::size_t begin = word && word->end >= offset ? word->begin : offset;
    dsl::Token here;
    here.begin = static_cast<std::uint32_t>(begin);
    Items items;
    if (document.symbols().before(here).is(".")) {
        items.add(members(), property_item);
        return items.take();
    }
    const std::string_view collective = document.symbols().collective_used_at(begin);
    if (!collective.empty() && document.symbols().before(here).is("using")) {
        for (const Symbol* symbol : document.symbols().known_at(begin))
            if (symbol->kind == Symbol::Kind::parameter) items.add(symbol->name, variable_item, symbol->text);
        add_algorithms(items, document, collective, library);
        return items.take();
    }
    for (const Symbol* symbol : document.symbols().known_at(begin))
        if (symbol->begin != begin)
            items.add(symbol->name, symbol->kind == Symbol::Kind::function ? function_item : variable_item,
                      symbol->text);
    for (const dsl::Collective one : dsl::all_collectives)
        items.add(name_of(one), module_item, contract_text(name_of(one)));
    items.add(meanings(), keyword_item);
    return items.take();
}

Json document_symbols(const Document& document) {
    Json symbols = Json::array();
    for (const Symbol& symbol : document.symbols().all()) {
        if (!is_definition(symbol.kind)) continue;
        const int kind = symbol.kind == Symbol::Kind::topology      ? struct_symbol
                         : symbol.kind == Symbol::Kind::combination ? operator_symbol
                         : symbol.kind == Symbol::Kind::schedule    ? class_symbol
                                                                    : function_symbol;
        symbols.push_back(
            {{"name", symbol.name},
             {"detail", fmt::format("{}{}{}", name_of(symbol.kind), symbol.collective.empty() ? "" : " ",
                                    symbol.collective)},
             {"kind", kind},
             {"range", document.range(symbol.from, symbol.to)},
             {"selectionRange", document.range(symbol.begin, symbol.begin + symbol.name.size())}});
    }
    return symbols;
}

Json formatting(const Document& document) {
    try {
        const std::string text = dsl::formatted(document.source());
        if (text == document.source().text) return Json::array();
        return Json::array({{{"range", document.whole_range()}, {"newText", text}}});
    } catch (const dsl::DiagnosticError&) {
        return nullptr;  // the diagnostics say why
    }
}

}  // namespace hocket::tools::lsp
