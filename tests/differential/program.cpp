#include "tests/differential/program.hpp"

#include <fmt/format.h>

namespace hocket::differential {
namespace {

void print(const Statements& statements, const std::string& indent, std::string& out) {
    for (const Statement& statement : statements) {
        out += indent + statement.text;
        if (statement.has_block) {
            out += statement.text.empty() ? "{\n" : " {\n";
            print(statement.body, indent + "    ", out);
            out += indent + "}";
        }
        out += "\n";
    }
}

void collect(Statements& statements, std::vector<Statements*>& lists) {
    lists.push_back(&statements);
    for (Statement& statement : statements)
        if (statement.has_block) collect(statement.body, lists);
}

}  // namespace

std::int64_t Program::ranks() const {
    std::int64_t ranks = 1;
    for (const reference::Level& level : levels) ranks *= level.size;
    return ranks;
}

std::string Program::text() const {
    std::string text;
    print(definitions, "", text);
    return text;
}

std::string Program::headline() const {
    std::string sizes;
    for (const reference::Level& level : levels)
        sizes += fmt::format("{}{}[{}]", sizes.empty() ? "" : " ", level.name, level.size);
    return fmt::format("seed {}: {} {} '{}' on {} ({}), root {}, {} mutations", seed, family, collective,
                       schedule, topology, sizes, root, mutations);
}

std::vector<Statements*> lists_of(Statements& statements) {
    std::vector<Statements*> lists;
    collect(statements, lists);
    return lists;
}

}  // namespace hocket::differential
