#include "tools/schedc/lsp/symbols.hpp"

#include <algorithm>

#include "dsl/base/collective.hpp"
#include "dsl/syntax/words.hpp"

namespace hocket::tools::lsp {
namespace {

using dsl::Token;
using Kind = Symbol::Kind;

constexpr std::string_view kind_names[] = {"algorithm", "schedule", "topology", "operator",  "update",
                                           "buffer",    "root",     "group",    "parameter", "loop variable",
                                           "value",     "function", "state",    "level"};

bool is_name(const Token& token) {
    return token.kind == Token::Kind::word && !dsl::is_reserved(token.text);
}

bool is_collective(std::string_view text) {
    return std::any_of(std::begin(dsl::contracts), std::end(dsl::contracts),
                       [&](const dsl::Contract& contract) { return contract.name == text; });
}

// Finds the names in a text's tokens.
class Finder {
  public:
    Finder(const dsl::SourceFile& file, const std::vector<Token>& tokens, std::vector<Symbol>& all)
        : file_(file), tokens_(tokens), all_(all), end_(static_cast<std::uint32_t>(file.text.size())) {
        for (std::size_t i = 0; i < tokens_.size();) {
            const std::size_t next = std::min(next_definition(i + 1), tokens_.size());
            if (begins_definition(i)) definition(i, next);
            i = next;
        }
    }

  private:
    const Token& at(std::size_t i) const {
        static const Token none;
        return i < tokens_.size() ? tokens_[i] : none;
    }
    std::uint32_t offset(std::size_t i) const { return i < tokens_.size() ? tokens_[i].begin : end_; }

    // `update` is no reserved word: as a definition it stands where a line begins, with a name behind it.
    bool begins_definition(std::size_t i) const {
        for (const std::string_view word : {"algorithm", "schedule", "topology", "operator"})
            if (at(i).is(word)) return true;
        if (!at(i).is("update") || !is_name(at(i + 1))) return false;
        return at(i).begin == 0 || file_.text[at(i).begin - 1] == '\n';
    }
    std::size_t next_definition(std::size_t i) const {
        while (i < tokens_.size() && !begins_definition(i)) ++i;
        return i;
    }

    // Returns what makes a name, on one line: to the brace, or to the end of the line.
    std::string text_from(std::size_t i, std::size_t last) const {
        std::size_t j = i;
        while (j < last && !at(j).is("{")) ++j;
        return dsl::folded_text({&file_, offset(i), j > i ? at(j - 1).end : at(i).end});
    }
    std::string line_from(std::size_t i) const {
        const std::size_t end = std::min(file_.text.find('\n', at(i).begin), file_.text.size());
        const std::size_t comment = std::min(file_.text.find('#', at(i).begin), end);
        return dsl::folded_text({&file_, at(i).begin, static_cast<std::uint32_t>(comment)});
    }

    void add(Kind kind, std::size_t name, std::uint32_t to, std::string text) {
        if (!is_name(at(name))) return;
        all_.push_back(
            {kind, std::string(at(name).text), "", at(name).begin, at(name).begin, to, std::move(text)});
    }

    void definition(std::size_t first, std::size_t last) {
        const std::string_view word = at(first).text;
        const Kind kind = word == "algorithm"  ? Kind::algorithm
                          : word == "schedule" ? Kind::schedule
                          : word == "topology" ? Kind::topology
                          : word == "operator" ? Kind::combination
                                               : Kind::update;
        if (!is_name(at(first + 1)) || first + 1 >= last) return;
        std::uint32_t end = last > first ? at(last - 1).end : end_;
        add(kind, first + 1, end, text_from(first, last));
        Symbol& made = all_.back();
        made.from = at(first).begin;
        std::size_t i = first + 2;
        if (is_collective(at(i).text)) made.collective = at(i++).text;
        end = offset(last);  // inside, text may still be written behind the last token
        body(header(kind, made.collective, i, last, end), last, end);
    }

    // Returns the token behind the header.
    std::size_t header(Kind kind, std::string_view collective, std::size_t i, std::size_t last,
                       std::uint32_t end) {
        const bool has_buffers =
            kind == Kind::algorithm || kind == Kind::schedule || kind == Kind::combination;
        if (at(i).is("(")) i = parameters(i, last, end, has_buffers, collective == "all_to_all");
        for (; i < last && !at(i).is("{") && !at(i).is("="); ++i) {
            if (at(i).is("over")) add(Kind::group, i + 1, end, "over " + std::string(at(i + 1).text));
            if (at(i).is("with") || (is_given_ && at(i).is(","))) {
                is_given_ = true;
                add(Kind::buffer, i + 1, end, "with " + std::string(at(i + 1).text));
            }
            if (at(i).is("where")) is_given_ = false;
        }
        is_given_ = false;
        return i;
    }

    std::size_t parameters(std::size_t i, std::size_t last, std::uint32_t end, bool has_buffers,
                           bool exchanges) {
        int depth = 0, place = 0;  // place: of the buffer, of the root
        bool in_parameters = !has_buffers;
        for (; i < last; ++i) {
            depth += at(i).is("(") ? 1 : at(i).is(")") ? -1 : 0;
            if (depth == 0) return i + 1;
            if (depth > 1 || !(at(i).is("(") || at(i).is(",") || at(i).is(";"))) continue;
            if (at(i).is(";")) in_parameters = true;
            if (in_parameters) {
                std::size_t j = i + 1;
                while (j < last && !at(j).is(",") && !(at(j).is(")"))) ++j;
                add(Kind::parameter, i + 1, end, dsl::folded_text({&file_, offset(i + 1), at(j - 1).end}));
            } else {
                add(place == 0 || exchanges ? Kind::buffer : Kind::root, i + 1, end,
                    std::string(at(i + 1).text));
                ++place;
            }
        }
        return i;
    }

    void body(std::size_t i, std::size_t last, std::uint32_t end) {
        std::vector<std::uint32_t> ends{end};  // of the blocks around a token
        for (; i < last; ++i) {
            if (at(i).is("{")) ends.push_back(end_of_block(i, last, ends.back()));
            if (at(i).is("}") && ends.size() > 1) ends.pop_back();
            const std::uint32_t to = ends.back();
            if (at(i).is("for") || at(i).is("parallel") || at(i).is("each")) bindings(i, last, to);
            if (at(i).is("let")) let(i, last, to);
            if (at(i).is("state")) add(Kind::state, i + 1, to, line_from(i));
            if (at(i).is("level")) add(Kind::level, i + 1, end, line_from(i));
        }
    }

    std::uint32_t end_of_block(std::size_t i, std::size_t last, std::uint32_t outer) const {
        int depth = 0;
        for (; i < last; ++i) {
            depth += at(i).is("{") ? 1 : at(i).is("}") ? -1 : 0;
            if (depth == 0) return at(i).begin;
        }
        return outer;
    }

    // The variables of a loop: each stands before an `in`.
    void bindings(std::size_t i, std::size_t last, std::uint32_t to) {
        const std::string text = line_from(i);
        add(Kind::variable, i + 1, to, text);
        if (!at(i).is("each")) return;
        int depth = 0;
        for (++i; i < last && !at(i).is("{") && !at(i).is("where") && !at(i).is("let"); ++i) {
            depth += at(i).is("(") || at(i).is("[") ? 1 : at(i).is(")") || at(i).is("]") ? -1 : 0;
            if (at(i).is(":") || at(i).is("each")) return;
            if (depth == 0 && at(i).is(",") && at(i + 2).is("in")) add(Kind::variable, i + 1, to, text);
        }
    }

    void let(std::size_t i, std::size_t last, std::uint32_t to) {
        const bool is_function = at(i + 2).is("(");
        add(is_function ? Kind::function : Kind::value, i + 1, to, line_from(i));
        if (!is_function) return;
        const auto line_end =
            static_cast<std::uint32_t>(std::min(file_.text.find('\n', at(i).begin), file_.text.size()));
        for (i += 2; i < last && !at(i).is(")"); ++i)
            if (at(i).is("(") || at(i).is(",")) add(Kind::parameter, i + 1, line_end, "of a function");
    }

    const dsl::SourceFile& file_;
    const std::vector<Token>& tokens_;
    std::vector<Symbol>& all_;
    const std::uint32_t end_;
    bool is_given_ = false;
};

}  // namespace

bool is_definition(Symbol::Kind kind) {
    return kind <= Kind::update;
}

std::string_view name_of(Symbol::Kind kind) {
    return kind_names[static_cast<std::size_t>(kind)];
}

Symbols::Symbols(const dsl::SourceFile& file) {
    for (const Token& token : dsl::tokens_of(file))
        if (token.kind != Token::Kind::comment) tokens_.push_back(token);
    const Finder finder(file, tokens_, all_);
}

std::optional<Token> Symbols::word_at(std::size_t offset) const {
    const auto found =
        std::find_if(tokens_.begin(), tokens_.end(), [&](const Token& token) { return token.end >= offset; });
    // At the border of two tokens, the word is meant.
    for (auto token = found; token != tokens_.end() && token->begin <= offset; ++token)
        if (token->kind == Token::Kind::word) return *token;
    return std::nullopt;
}

Token Symbols::before(const Token& token) const {
    const auto found = std::find_if(tokens_.begin(), tokens_.end(),
                                    [&](const Token& other) { return other.begin >= token.begin; });
    return found == tokens_.begin() ? Token{} : *std::prev(found);
}

std::string_view Symbols::collective_used_at(std::size_t offset) const {
    bool is_used = false;
    std::string_view collective;
    for (const Token& token : tokens_) {
        if (token.begin >= offset) break;
        if (token.is("using")) is_used = true;
        if (is_collective(token.text)) collective = token.text, is_used = false;
        if (token.is("{") || token.is("}")) is_used = false;
    }
    return is_used ? collective : "";
}

std::vector<const Symbol*> Symbols::meant_at(std::string_view name, std::size_t offset) const {
    std::vector<const Symbol*> meant;
    for (const Symbol* symbol : known_at(offset))
        if (symbol->name == name) meant = {symbol};  // the last one is the innermost
    if (!meant.empty()) return meant;
    for (const Symbol& symbol : all_)
        if (is_definition(symbol.kind) && symbol.name == name) meant.push_back(&symbol);
    const std::string_view collective = collective_used_at(offset);
    if (collective.empty()) return meant;
    std::erase_if(meant, [&](const Symbol* symbol) {
        return symbol->kind != Kind::algorithm || symbol->collective != collective;
    });
    return meant;
}

std::vector<const Symbol*> Symbols::known_at(std::size_t offset) const {
    std::vector<const Symbol*> known;
    for (const Symbol& symbol : all_)
        if (!is_definition(symbol.kind) && symbol.from <= offset && offset <= symbol.to)
            known.push_back(&symbol);
    return known;
}

}  // namespace hocket::tools::lsp
