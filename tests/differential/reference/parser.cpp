#include "tests/differential/reference/parser.hpp"

#include <utility>

#include "tests/differential/reference/tokens.hpp"

namespace hocket::reference {
namespace {

class Parser {
  public:
    explicit Parser(const std::string& text) : tokens_(tokens_of(text)), expressions_(tokens_) {}

    std::vector<Definition> file();
    Call call();

  private:
    Definition algorithm();
    Definition schedule();
    void skip_topology();
    Call name_with_arguments();
    void collective_and_buffer(Definition& definition);
    std::vector<Parameter> parameters();
    std::optional<Expression> where();

    std::vector<Statement> block();
    std::vector<Statement> body();
    Statement statement();
    Statement loop(Statement::Form form);
    Statement choice(bool in_each);
    std::vector<Statement> simple_body();
    Statement each();
    Statement simple_statement();
    Statement let();
    Statement transfer();
    Statement collective();
    bool is_region_ahead() const;
    bool is_target_ahead() const;
    Loop loop_variable();
    Range range();
    Region region();
    void region_index(Region& region);

    Expression expression() { return expressions_.expression(); }
    Statement start(Statement::Form form) const {
        Statement statement;
        statement.form = form;
        statement.at = tokens_.here().at;
        return statement;
    }

    TokenReader tokens_;
    ExpressionParser expressions_;
    bool in_schedule_ = false;
    int depth_ = 0;
};

std::vector<Definition> Parser::file() {
    std::vector<Definition> definitions;
    while (!tokens_.ended()) {
        if (tokens_.at("algorithm")) {
            definitions.push_back(algorithm());
        } else if (tokens_.at("schedule")) {
            definitions.push_back(schedule());
        } else if (tokens_.at("topology")) {
            skip_topology();
        } else {
            tokens_.fail("an algorithm, a schedule or a topology");
        }
    }
    return definitions;
}

Call Parser::name_with_arguments() {
    Call result;
    result.name = tokens_.expect_name().text;
    if (!tokens_.accept("(")) return result;
    do {
        const bool is_labelled = tokens_.ahead(1).text == "=";
        result.labels.push_back(is_labelled ? tokens_.expect_name().text : "");
        if (is_labelled) tokens_.expect("=");
        result.arguments.push_back(expression());
    } while (tokens_.accept(","));
    tokens_.expect(")");
    return result;
}

Call Parser::call() {
    Call result = name_with_arguments();
    if (!tokens_.ended()) tokens_.fail("the end of what is asked for");
    return result;
}

void Parser::collective_and_buffer(Definition& definition) {
    definition.name = tokens_.expect_name().text;
    if (!find_collective(tokens_.here().text)) tokens_.fail("a collective");
    definition.collective = tokens_.take().text;
    tokens_.expect("(");
    definition.buffer = tokens_.expect_name().text;
    if (collective_of(definition.collective).has_root()) {
        tokens_.expect(",");
        definition.root = tokens_.expect_name().text;
    }
}

std::optional<Expression> Parser::where() {
    if (!tokens_.accept("where")) return std::nullopt;
    return expression();
}

Definition Parser::algorithm() {
    Definition result;
    result.at = tokens_.take().at;
    collective_and_buffer(result);
    if (collective_of(result.collective).exchanges && tokens_.accept(",")) {
        result.second = tokens_.expect_name().text;
    }
    if (tokens_.accept(";")) result.parameters = parameters();
    tokens_.expect(")");
    tokens_.expect("over");
    result.group = tokens_.expect_name().text;
    result.where = where();
    in_schedule_ = false;
    result.body = block();
    return result;
}

Definition Parser::schedule() {
    Definition result;
    result.is_schedule = true;
    result.at = tokens_.take().at;
    collective_and_buffer(result);
    if (tokens_.accept(";")) result.parameters = parameters();
    tokens_.expect(")");
    result.where = where();
    in_schedule_ = true;
    result.body = block();
    return result;
}

std::vector<Parameter> Parser::parameters() {
    std::vector<Parameter> result;
    do {
        const Token name = tokens_.expect_name();
        tokens_.expect("=");
        result.push_back({name.text, name.at, expression()});
    } while (tokens_.accept(","));
    return result;
}

// The levels come with the request, so that nothing here has a use for a topology.
void Parser::skip_topology() {
    while (!tokens_.ended() && !tokens_.at("{")) tokens_.take();
    int open = 0;
    do {
        if (tokens_.ended()) tokens_.fail("'}'");
        const Token token = tokens_.take();
        if (token.text == "{") ++open;
        if (token.text == "}") --open;
    } while (open > 0);
}

std::vector<Statement> Parser::block() {
    std::vector<Statement> statements;
    tokens_.expect("{");
    while (!tokens_.accept("}")) statements.push_back(statement());
    return statements;
}

// A block, or one statement, which then is a block of its own.
std::vector<Statement> Parser::body() {
    if (tokens_.at("{")) return block();
    std::vector<Statement> statements;
    statements.push_back(statement());
    return statements;
}

Statement Parser::statement() {
    const Nesting nesting(depth_, tokens_.here().at);
    if (tokens_.at("each")) return each();
    if (tokens_.at("if")) return choice(false);
    if (tokens_.at("for")) return loop(Statement::Form::repeat);
    if (tokens_.at("parallel")) return loop(Statement::Form::parallel);
    if (tokens_.at("{")) {
        Statement result = start(Statement::Form::block);
        result.body = block();
        return result;
    }
    if (in_schedule_ && find_collective(tokens_.here().text) && !is_region_ahead()) return collective();
    return simple_statement();
}

// A collective's name may be a buffer's, too.
bool Parser::is_region_ahead() const {
    const std::string& next = tokens_.ahead(1).text;
    return next == ":" || next == "[" || next == ".";
}

Statement Parser::loop(Statement::Form form) {
    Statement result = start(form);
    tokens_.take();
    result.loops.push_back(loop_variable());
    result.body = body();
    return result;
}

Statement Parser::each() {
    Statement result = start(Statement::Form::each);
    tokens_.take();
    do result.loops.push_back(loop_variable());
    while (tokens_.accept(","));
    while (tokens_.at("let")) result.lets.push_back(let());
    result.where = where();
    if (tokens_.at("let")) tokens_.fail("a transfer, 'if' or a block");
    result.body = simple_body();
    return result;
}

std::vector<Statement> Parser::simple_body() {
    std::vector<Statement> statements;
    if (tokens_.accept("{")) {
        while (!tokens_.accept("}")) statements.push_back(simple_statement());
    } else {
        statements.push_back(simple_statement());
    }
    return statements;
}

Statement Parser::choice(bool in_each) {
    const Nesting nesting(depth_, tokens_.here().at);
    Statement result = start(Statement::Form::choice);
    tokens_.take();
    result.where = expression();
    result.body = in_each ? simple_body() : body();
    if (tokens_.accept("else")) result.otherwise = in_each ? simple_body() : body();
    return result;
}

// The statements that an `each` may contain.
Statement Parser::simple_statement() {
    if (tokens_.at("if")) return choice(true);
    return tokens_.at("let") ? let() : transfer();
}

Loop Parser::loop_variable() {
    const Token name = tokens_.expect_name();
    tokens_.expect("in");
    return {name.text, name.at, range()};
}

Range Parser::range() {
    Range result;
    result.first = expression();
    if (tokens_.at("..<") || tokens_.at(">..")) {
        result.form = tokens_.take().text == "..<" ? Range::Form::up : Range::Form::down;
        result.second = expression();
    }
    return result;
}

Statement Parser::let() {
    Statement result = start(Statement::Form::let);
    tokens_.take();
    result.name = tokens_.expect_name().text;
    if (tokens_.accept("(")) {
        result.form = Statement::Form::function;
        do result.variables.push_back(tokens_.expect_name().text);
        while (tokens_.accept(","));
        tokens_.expect(")");
        tokens_.expect("=");
        result.value = expression();
        return result;
    }
    tokens_.expect("=");
    const bool is_part = tokens_.ahead(1).text == "." && tokens_.ahead(2).text == "part";
    if (!is_part) {
        result.value = expression();
        return result;
    }
    const Token buffer = tokens_.expect_name();
    result.value.form = Form::name;
    result.value.at = buffer.at;
    result.value.name = buffer.text;
    tokens_.expect(".");
    tokens_.expect("part");
    tokens_.expect("(");
    result.part = expression();
    tokens_.expect("of");
    result.parts = expression();
    tokens_.expect(")");
    return result;
}

Statement Parser::transfer() {
    Statement result = start(Statement::Form::transfer);
    result.region = region();
    tokens_.expect(":");
    result.from = expression();
    if (!tokens_.at("->") && !tokens_.at("+>")) tokens_.fail("'->' or '+>'");
    result.combines = tokens_.take().text == "+>";
    if (is_target_ahead()) {
        result.target = region();
        tokens_.expect(":");
    }
    result.to = expression();
    return result;
}

// After the arrow: a region, with a colon behind it, or a member.
bool Parser::is_target_ahead() const {
    std::size_t distance = 1;
    if (tokens_.ahead(1).text == "[") {
        int open = 0;
        do {
            const Token& token = tokens_.ahead(distance++);
            if (token.form == Token::Form::end) return false;
            if (token.text == "[") ++open;
            if (token.text == "]") --open;
        } while (open > 0);
    }
    return tokens_.ahead(distance).text == ":";
}

Region Parser::region() {
    Region result;
    result.at = tokens_.here().at;
    result.buffer = tokens_.expect_name().text;
    if (tokens_.accept("[")) {
        region_index(result);
        tokens_.expect("]");
    }
    return result;
}

void Parser::region_index(Region& region) {
    if (tokens_.at("block") && tokens_.ahead(1).text == "(") {
        tokens_.take();
        tokens_.expect("(");
        region.form = Region::Form::block;
        region.first = expression();
        tokens_.expect(",");
        region.second = expression();
        tokens_.expect(")");
        return;
    }
    region.form = Region::Form::chunk;
    region.first = expression();
    if (tokens_.accept("..<")) {
        region.form = Region::Form::slice;
        region.second = expression();
    }
}

Statement Parser::collective() {
    Statement result = start(Statement::Form::collective);
    result.collective = tokens_.take().text;
    result.buffer = tokens_.expect_name().text;
    tokens_.expect("over");
    result.group = expressions_.postfix();
    const Collective& collective = collective_of(result.collective);
    if (collective.has_root()) {
        tokens_.expect(collective.comes_from_root() ? "from" : "to");
        result.root = expression();
    }
    if (tokens_.accept("using")) result.algorithm = name_with_arguments();
    return result;
}

}  // namespace

std::vector<Definition> parse_file(const std::string& text) {
    return Parser(text).file();
}

Call parse_call(const std::string& text) {
    return Parser(text).call();
}

}  // namespace hocket::reference
