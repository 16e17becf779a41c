#include "dsl/syntax/tokens.hpp"

#include <algorithm>
#include <string>

namespace hocket::dsl {
namespace {

constexpr std::string_view longer_marks[] = {
    "..<", ">..", "->", "+>", "**", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", ".."};

// Of ASCII alone, as the grammar's classes are.
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_word_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}
bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_value_character(char c) {
    return is_word_character(c) || std::string_view("._:/+-").find(c) != std::string_view::npos;
}

class Lexer {
  public:
    explicit Lexer(const SourceFile& file) : text_(file.text) {}

    std::vector<Token> run() {
        while (true) {
            while (at_ < text_.size() && is_space(text_[at_])) ++at_;
            if (at_ >= text_.size()) return std::move(tokens_);
            const Token token = next();
            follow(token);
            tokens_.push_back(token);
            at_ = token.end;
        }
    }

  private:
    Token next() const {
        const char c = text_[at_];
        if (c == '#') return comment();
        if (path_follows_ && c == '"') return path();
        if (value_follows_ && is_value_character(c)) return run_of(Token::Kind::value, is_value_character);
        if (is_digit(c)) return number();
        if (is_word_character(c)) return run_of(Token::Kind::word, is_word_character);
        for (const std::string_view mark : longer_marks)
            if (text_.substr(at_).starts_with(mark)) return token(Token::Kind::mark, at_ + mark.size());
        return token(Token::Kind::mark, at_ + 1);
    }

    Token comment() const {
        std::size_t end = std::min(text_.find('\n', at_), text_.size());
        while (is_space(text_[end - 1])) --end;
        return token(Token::Kind::comment, end);
    }

    // A path whose quotes are not closed on its line is none.
    Token path() const {
        const std::size_t end = text_.find_first_of("\"\n", at_ + 1);
        if (end == text_.npos || text_[end] == '\n') return token(Token::Kind::mark, at_ + 1);
        return token(Token::Kind::value, end + 1);
    }

    // 0.5e-6; a point without a digit after it belongs to a range or a member. Letters that follow are no
    // number's, but are not another word either.
    Token number() const {
        std::size_t end = after(at_, is_digit);
        if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1]))
            end = after(end + 1, is_digit);
        if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
            std::size_t digits = end + 1;
            if (digits < text_.size() && (text_[digits] == '+' || text_[digits] == '-')) ++digits;
            if (digits < text_.size() && is_digit(text_[digits])) end = digits;
        }
        return token(Token::Kind::number, after(end, is_word_character));
    }

    template <typename Class>
    std::size_t after(std::size_t from, Class is_of_class) const {
        while (from < text_.size() && is_of_class(text_[from])) ++from;
        return from;
    }
    template <typename Class>
    Token run_of(Token::Kind kind, Class is_of_class) const {
        return token(kind, after(at_, is_of_class));
    }
    Token token(Token::Kind kind, std::size_t end) const {
        return {kind, static_cast<std::uint32_t>(at_), static_cast<std::uint32_t>(end),
                text_.substr(at_, end - at_)};
    }

    // Where a level's braces are open, three words have values after them that are no expressions. These
    // words may be names elsewhere, and names of media and levels.
    void follow(const Token& token) {
        if (token.kind == Token::Kind::comment) return;
        path_follows_ = token.is("import");
        const bool is_property = token.is("latency") || token.is("bandwidth") || token.is("nic");
        value_follows_ = in_properties_ && is_property && !is_name_;
        is_name_ = token.is("medium") || token.is("by");
        if (token.is("level")) level_is_open_ = true;
        if (token.is("}")) in_properties_ = false;
        if (token.is("{")) {
            in_properties_ = level_is_open_;
            level_is_open_ = false;
        }
    }

    const std::string_view text_;
    std::size_t at_ = 0;
    bool level_is_open_ = false, in_properties_ = false, value_follows_ = false, is_name_ = false,
         path_follows_ = false;
    std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(const SourceFile& file) {
    return Lexer(file).run();
}

}  // namespace hocket::dsl
