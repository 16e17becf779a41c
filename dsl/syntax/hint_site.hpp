// The place where a text stops being right, for hints in errors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/syntax/tokens.hpp"

namespace hocket::dsl {

// The place where a text stops being right: its tokens without comments, and the one that is there.
class Site {
  public:
    Site(const SourceFile& file, std::uint32_t offset, const std::string& expected)
        : expected_(expected), offset_(offset) {
        for (const Token& token : tokens_of(file))
            if (token.kind != Token::Kind::comment) tokens_.push_back(token);
        // A mark of two characters may be wrong from its second one on.
        at_ = static_cast<std::size_t>(
            std::find_if(tokens_.begin(), tokens_.end(), [&](const Token& t) { return t.end > offset; }) -
            tokens_.begin());
    }

    bool expects(std::string_view what) const { return expected_.find(what) != expected_.npos; }
    std::size_t at() const { return at_; }
    const std::vector<Token>& tokens() const { return tokens_; }

    // The token that stands so many behind the place; an empty one beyond the text.
    Token token(int distance = 0) const {
        const std::ptrdiff_t i = static_cast<std::ptrdiff_t>(at_) + distance;
        return i < 0 || i >= std::ssize(tokens_) ? Token{} : tokens_[static_cast<std::size_t>(i)];
    }
    std::string_view text(int distance = 0) const { return token(distance).text; }
    bool touches(int distance) const { return token(distance - 1).end == token(distance).begin; }
    // Returns how far back the '(', '[' or '{' stands that is open at the place; 0 if none is.
    int opened() const {
        int depth = 0;
        for (int back = -1; !text(back).empty(); --back) {
            if (is_one_of(text(back), {")", "]", "}"})) ++depth;
            if (is_one_of(text(back), {"(", "[", "{"}) && depth-- == 0) return back;
        }
        return 0;
    }
    static bool is_one_of(std::string_view text, std::initializer_list<std::string_view> others) {
        return std::find(others.begin(), others.end(), text) != others.end();
    }
    // These marks stand here, or just behind, without a space between them.
    bool has_marks(std::string_view first, std::string_view second) const {
        for (const int from : {-1, 0, 1})
            if (text(from) == first && text(from + 1) == second && touches(from + 1)) return true;
        return false;
    }

  private:
    std::string expected_;
    std::uint32_t offset_;
    std::vector<Token> tokens_;
    std::size_t at_;
};

}  // namespace hocket::dsl
