#include "dsl/syntax/format.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "dsl/syntax/outline.hpp"
#include "dsl/syntax/parse.hpp"
#include "dsl/syntax/spacing.hpp"
#include "dsl/syntax/tokens.hpp"

namespace hocket::dsl {
namespace {

constexpr std::size_t indent_width = 4;
// What goes on in another line is indented further than a body, so that it does not look like one.
constexpr std::size_t head_continuation = 8, statement_continuation = 6;

// What one pass over the tokens needs to know, and does not change.
struct Text {
    std::vector<Token> tokens;
    std::vector<OutlineItem> passages;
    std::vector<std::size_t> breaks;  // by token: the line breaks before it
    std::vector<std::size_t> gaps;    // by token: the spaces before it, if there is nothing else
    std::vector<bool> is_inline;      // by token: a '{' whose block is on one line
};

Text text_of(const SourceFile& file) {
    Text text{tokens_of(file), outline_of(parse(file), file), {}, {}, {}};
    std::size_t end = 0;
    for (const Token& token : text.tokens) {
        const std::string_view between = std::string_view(file.text).substr(end, token.begin - end);
        text.breaks.push_back(static_cast<std::size_t>(std::count(between.begin(), between.end(), '\n')));
        text.gaps.push_back(between.find_first_not_of(' ') == between.npos ? between.size() : 0);
        end = token.end;
    }
    text.is_inline.resize(text.tokens.size());
    std::vector<std::size_t> open, breaks;  // of each open brace: its token, the line breaks up to it
    std::size_t all = 0;
    for (std::size_t i = 0; i < text.tokens.size(); ++i) {
        all += text.breaks[i];
        if (text.tokens[i].is("{")) {
            open.push_back(i);
            breaks.push_back(all);
        } else if (text.tokens[i].is("}")) {
            const bool is_empty = text.tokens[i - 1].is("{");
            text.is_inline[open.back()] = is_empty || all == breaks.back();
            open.pop_back();
            breaks.pop_back();
        }
    }
    return text;
}

// One pass: writes all tokens. A gap that `kept` names stays as wide as it is.
class Layout {
  public:
    Layout(const Text& text, const std::vector<bool>& kept)
        : text_(text), kept_(kept), indents_(text.passages.size()) {
        for (std::size_t i = 0; i < text_.tokens.size(); ++i) place(i);
        if (!out_.empty()) out_ += '\n';
    }

    const std::string& out() const { return out_; }

    // Returns the gaps that are wider than needed, and that make a column with another line.
    std::vector<bool> columns() const {
        std::map<std::pair<std::string_view, std::size_t>, std::pair<std::size_t, bool>> lines;
        for (const Mark& mark : marks_) {
            const auto [known, is_new] = lines.try_emplace({mark.role, mark.column}, mark.line, false);
            if (!is_new && known->second.first != mark.line) known->second.second = true;
        }
        std::vector<bool> columns(text_.tokens.size());
        for (const Mark& mark : marks_)
            columns[mark.token] = mark.is_wide && lines.at({mark.role, mark.column}).second;
        return columns;
    }

  private:
    struct Brace {
        std::size_t owner;
        bool is_inline;
    };
    struct Parenthesis {
        std::size_t column;  // of what stands in it, where it begins a line
        bool hangs;          // nothing stands behind it on its own line
    };
    // A token that may stand in a column with others of its role.
    struct Mark {
        std::size_t token, line, column;
        std::string_view role;
        bool is_wide;
    };

    const Token& at(std::size_t i) const { return text_.tokens[i]; }
    static bool opens_parenthesis(const Token& token) { return token.is("(") || token.is("["); }
    bool is_comment(std::size_t i) const { return at(i).kind == Token::Kind::comment; }
    bool starts(std::size_t i) const {
        return next_ < text_.passages.size() && text_.passages[next_].begin == at(i).begin;
    }
    std::size_t top() const { return open_.empty() ? OutlineItem::none : open_.back(); }
    std::size_t indent_of_top() const { return open_.empty() ? 0 : indents_[open_.back()]; }

    // The `else` of a statement, not that of an expression.
    bool is_else(std::size_t i) const {
        if (!at(i).is("else") || open_.empty()) return false;
        const OutlineItem& passage = text_.passages[top()];
        return passage.head_end > 0 && at(i).begin >= passage.head_end;
    }

    void close_before(std::size_t i) {
        while (!open_.empty() && text_.passages[open_.back()].end <= at(i).begin) open_.pop_back();
    }

    bool breaks_before(std::size_t i) const {
        if (i == 0) return false;
        if (is_comment(i)) return text_.breaks[i] > 0;
        if (is_comment(i - 1)) return true;
        const bool in_lines = !braces_.empty() && !braces_.back().is_inline;
        if (at(i).is("}")) return in_lines;
        if (starts(i)) {
            const std::size_t parent = text_.passages[next_].parent;
            if (parent == OutlineItem::none || (in_lines && braces_.back().owner == parent)) return true;
        } else if (at(i).is("{") || (is_else(i) && at(i - 1).is("}"))) {
            return false;
        }
        return text_.breaks[i] > 0;
    }

    // Of a token that begins a line.
    std::size_t indent(std::size_t i) const {
        if (starts(i)) {
            const std::size_t parent = text_.passages[next_].parent;
            return parent == OutlineItem::none ? 0 : indents_[parent] + indent_width;
        }
        if (at(i).is("}") || at(i).is("{") || is_else(i)) return indent_of_top();
        if (!parentheses_.empty()) {
            const bool closes = at(i).is(")") || at(i).is("]");
            const Parenthesis& inner = parentheses_.back();
            return inner.column - (closes ? inner.hangs ? indent_width : 1 : 0);
        }
        if (open_.empty()) return 0;
        return indent_of_top() +
               (text_.passages[top()].has_body ? head_continuation : statement_continuation);
    }

    // A comment on a line of its own belongs to what follows it; at the end of a block, to what is in it.
    std::size_t indent_of_comment(std::size_t i) {
        while (i < text_.tokens.size() && is_comment(i)) ++i;
        if (i == text_.tokens.size()) return 0;
        close_before(i);
        return indent(i) + (at(i).is("}") ? indent_width : 0);
    }

    std::size_t spaces_before(std::size_t i) {
        const bool starts_here = starts(i);
        const bool is_property = starts_here && text_.passages[next_].is_property;
        std::size_t least = 2;
        if (!is_comment(i) && (!is_property || at(i - 1).is("{")))
            least = spacing_.between(at(i - 1), at(i), starts_here);
        // A body on its head's line may be set apart.
        if (starts_here && least == 1) least = std::clamp<std::size_t>(text_.gaps[i], 1, 2);
        const std::string_view role = role_of(i, starts_here);
        const bool is_wide = least > 0 && text_.gaps[i] > least && !role.empty();
        const std::size_t spaces = is_wide && kept_[i] ? text_.gaps[i] : least;
        if (least > 0 && !role.empty())
            marks_.push_back({i, line_, out_.size() - line_begin_ + spaces, role, is_wide && kept_[i]});
        return spaces;
    }

    std::string_view role_of(std::size_t i, bool starts_here) const {
        if (is_comment(i)) return "#";
        if (starts_here && !text_.passages[next_].is_property) return "statement";
        if (spacing_.is_after_collective()) return "operand";
        return makes_columns(at(i)) ? at(i).text : "";
    }

    void begin_line(std::size_t i, std::size_t indentation) {
        out_.append(text_.breaks[i] > 1 ? 2 : 1, '\n');
        ++line_;
        line_begin_ = out_.size();
        line_indent_ = indentation;
        out_.append(indentation, ' ');
    }

    void place(std::size_t i) {
        if (!is_comment(i)) close_before(i);
        const bool breaks = breaks_before(i);
        if (breaks)
            begin_line(i, is_comment(i) ? indent_of_comment(i) : indent(i));
        else if (i > 0)
            out_.append(spaces_before(i), ' ');
        if (!breaks && !is_comment(i) && i > 0 && opens_parenthesis(at(i - 1)))
            parentheses_.back() = {out_.size() - line_begin_, false};
        out_ += at(i).text;
        if (is_comment(i)) return;
        spacing_.pass(at(i), starts(i));
        if (starts(i)) open_next();
        follow(i);
    }

    void open_next() {
        indents_[next_] = line_indent_;
        open_.push_back(next_++);
    }

    void follow(std::size_t i) {
        if (at(i).is("{")) braces_.push_back({top(), text_.is_inline[i]});
        if (at(i).is("}")) braces_.pop_back();
        if (opens_parenthesis(at(i))) parentheses_.push_back({line_indent_ + indent_width, true});
        if (at(i).is(")") || at(i).is("]")) parentheses_.pop_back();
    }

    const Text& text_;
    const std::vector<bool>& kept_;
    std::string out_;
    std::size_t line_ = 0, line_begin_ = 0, line_indent_ = 0;
    std::vector<std::size_t> indents_;  // by passage: of the line that it begins in
    std::size_t next_ = 0;              // the passage that begins next
    std::vector<std::size_t> open_;     // the passages around a token
    std::vector<Brace> braces_;
    std::vector<Parenthesis> parentheses_;
    Spacing spacing_;
    std::vector<Mark> marks_;
};

// The program must stay what it was, so that formatting is safe whatever is wrong with it.
void compare_tokens(const std::vector<Token>& before, const SourceFile& after) {
    const auto is_same = [](const Token& a, const Token& b) { return a.text == b.text && a.kind == b.kind; };
    if (!std::ranges::equal(before, tokens_of(after), is_same))
        throw std::logic_error(after.path + ": formatting would change the program; this is a defect");
}

}  // namespace

std::string formatted(const SourceFile& file) {
    // Leaving out one gap can move others out of their columns; more rounds than that are a text that is
    // made to take them.
    constexpr int most_rounds = 8;
    const Text text = text_of(file);
    std::vector<bool> kept(text.tokens.size(), true);
    for (int round = 0;; ++round) {
        const Layout layout(text, kept);
        std::vector<bool> columns = layout.columns();
        if (columns == kept || round > most_rounds) {
            compare_tokens(text.tokens, {file.path, layout.out()});
            return layout.out();
        }
        kept = round < most_rounds ? std::move(columns) : std::vector<bool>(text.tokens.size());
    }
}

}  // namespace hocket::dsl
