#include "tests/differential/reference/lexer.hpp"

#include <array>
#include <string_view>

namespace hocket::reference {
namespace {

// The longer ones come before those that they begin with.
constexpr std::array<std::string_view, 30> symbols = {
    "..<", ">..", "<<", ">>", "|", "&", "**", "->", "+>", "==", "!=", "<=", ">=", "(", ")",
    "[",   "]",   "{",  "}",  ",", ";", ":",  "=",  "<",  ">",  "+",  "-",  "*",  "/", ".",
};

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

class Lexer {
  public:
    explicit Lexer(std::string_view text) : text_(text) {}

    std::vector<Token> all() {
        std::vector<Token> tokens;
        do {
            skip_space_and_comments();
            tokens.push_back(next());
        } while (tokens.back().form != Token::Form::end);
        return tokens;
    }

  private:
    bool ended() const { return offset_ == text_.size(); }

    void advance() {
        if (text_[offset_] == '\n') {
            ++at_.line;
            at_.column = 1;
        } else {
            ++at_.column;
        }
        ++offset_;
    }

    void skip_space_and_comments() {
        while (!ended() && (is_space(text_[offset_]) || text_[offset_] == '#')) {
            if (text_[offset_] == '#') {
                while (!ended() && text_[offset_] != '\n') advance();
            } else {
                advance();
            }
        }
    }

    Token take(Token::Form form, std::size_t length) {
        Token token{form, std::string(text_.substr(offset_, length)), at_};
        for (std::size_t i = 0; i < length; ++i) advance();
        return token;
    }

    template <typename Predicate>
    std::size_t length_while(Predicate belongs) const {
        std::size_t length = 0;
        while (offset_ + length < text_.size() && belongs(text_[offset_ + length])) ++length;
        return length;
    }

    Token next() {
        if (ended()) return take(Token::Form::end, 0);
        const char c = text_[offset_];
        if (is_digit(c)) return take(Token::Form::number, length_while(is_digit));
        if (is_letter(c)) {
            return take(Token::Form::word, length_while([](char d) { return is_letter(d) || is_digit(d); }));
        }
        for (const std::string_view symbol : symbols) {
            if (text_.substr(offset_, symbol.size()) == symbol) {
                return take(Token::Form::symbol, symbol.size());
            }
        }
        refuse(at_, "a character that the language does not have");
    }

    std::string_view text_;
    std::size_t offset_ = 0;
    Position at_;
};

}  // namespace

std::vector<Token> tokens_of(const std::string& text) {
    return Lexer(text).all();
}

}  // namespace hocket::reference
