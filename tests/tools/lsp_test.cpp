// The parts of the language server that need no editor. tests/tools/schedc_lsp_test.py talks to it.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/syntax/names.hpp"
#include "dsl/syntax/words.hpp"
#include "tests/support/test.hpp"
#include "tools/schedc/lsp/document.hpp"
#include "tools/schedc/lsp/framing.hpp"
#include "tools/schedc/lsp/meanings.hpp"

using namespace hocket::tools::lsp;
using hocket::dsl::is_language_function;

namespace {

// All messages of a stream that comes in pieces of at most so many bytes.
std::vector<std::string> read_all(std::string_view stream, std::size_t most, std::mt19937& random) {
    MessageReader reader;
    std::vector<std::string> messages;
    while (!stream.empty()) {
        const std::size_t count = std::min<std::size_t>(1 + random() % most, stream.size());
        reader.feed(stream.substr(0, count));
        stream.remove_prefix(count);
        while (auto message = reader.next()) messages.push_back(*message);
    }
    return messages;
}

}  // namespace

TEST_CASE("messages are the same in whatever pieces they come") {
    std::mt19937 random(1);
    for (int round = 0; round < 300; ++round) {
        std::vector<std::string> messages(1 + random() % 5);
        std::string stream;
        for (std::string& message : messages) {
            for (std::size_t i = random() % 300; i-- > 0;) message += static_cast<char>(random());
            stream += framed(message);
        }
        CHECK(read_all(stream, 1 + random() % 100, random) == messages);
    }
}

TEST_CASE("any bytes are read as messages, or refused") {
    std::mt19937 random(2);
    const std::vector<std::string> words{"Content-Length: ",
                                         "\r\n",
                                         "\r\n\r\n",
                                         "5",
                                         "{}",
                                         ":",
                                         "18446744073709551616",
                                         "Content-Type: x\r\n",
                                         "\n",
                                         "-1",
                                         " ",
                                         "x",
                                         std::string(1, '\0')};
    int read = 0, refused = 0;
    for (int round = 0; round < 20000; ++round) {
        std::string stream = round % 2 ? framed("12345") : "";
        for (std::size_t i = random() % 8; i-- > 0;)
            stream.insert(stream.empty() ? 0 : random() % stream.size(), words[random() % words.size()]);
        try {
            read += static_cast<int>(read_all(stream, 7, random).size());
        } catch (const FramingError&) {
            ++refused;
        }
    }
    CHECK(read > 100);
    CHECK(refused > 1000);
}

TEST_CASE("places of editors and offsets in the text are the same places") {
    const std::string text = "a\xc3\xa4\xf0\x9d\x84\x9e z\r\n\n\xff\xc3 x\ry";
    const LineIndex lines(text);
    CHECK(lines.lines() == 4);
    CHECK(lines.position_of(text, 7) == EditorPosition{0, 4});  // a, a with dots, two units of a clef
    CHECK(lines.position_of(text, 11) == EditorPosition{1, 0});
    CHECK(lines.offset_of(text, {0, 3}) == 3);   // in the middle of the clef
    CHECK(lines.offset_of(text, {0, 99}) == 9);  // before the line break
    CHECK(lines.offset_of(text, {99, 0}) == text.size());
    for (std::size_t offset = 0; offset <= text.size(); ++offset) {
        const bool is_inside =
            offset < text.size() && (static_cast<unsigned char>(text[offset]) & 0xc0) == 0x80;
        const bool is_line_break = offset < text.size() && (text[offset] == '\n' || text[offset] == '\r');
        if (is_inside || is_line_break) continue;
        INFO(offset);
        CHECK(lines.offset_of(text, lines.position_of(text, offset)) == offset);
    }
}

TEST_CASE("paths and URIs are two forms of one name") {
    for (const std::string path : {"/a/b.sched", "/a b/%41\xc3\xa9#?.sched", "/"})
        CHECK(path_of(uri_of(path)) == path);
    CHECK(uri_of("/a b") == "file:///a%20b");
    CHECK(path_of("file://host/a%2") == "/a%2");
    CHECK(path_of("untitled:Untitled-1") == "");
}

TEST_CASE("every word, function and collective of the language has a meaning") {
    for (const std::string_view word : hocket::dsl::reserved) {
        INFO(word);
        CHECK(find_meaning(meanings(), word));
    }
    for (const std::string_view function : hocket::dsl::language_functions()) {
        INFO(function);
        CHECK(find_meaning(meanings(), function));
    }
    for (const std::string_view name : hocket::dsl::language_names()) CHECK(find_meaning(meanings(), name));
    for (const auto collective : hocket::dsl::all_collectives)
        CHECK(contract_text(name_of(collective)) != "");
    CHECK(contract_text("ring") == "");
}

TEST_CASE("any text has names, whatever is asked about it") {
    std::mt19937 random(3);
    const std::vector<std::string> words{"algorithm ", "schedule ", "a ",    "all_gather", "(",  ")",
                                         "{",          "}",         "x",     "over ",      "g ", "let ",
                                         "each ",      "for ",      " in ",  ",",          "\n", "update ",
                                         "= ",         "using ",    "with ", "level ",     ";",  "state "};
    std::size_t symbols = 0;
    for (int round = 0; round < 3000; ++round) {
        std::string text;
        for (std::size_t i = random() % 40; i-- > 0;) text += words[random() % words.size()];
        const Document document("file:///t.sched", text);
        symbols += document.symbols().all().size();
        for (std::size_t offset = 0; offset <= text.size(); offset += 3) {
            document.symbols().word_at(offset);
            for (const Symbol* symbol : document.symbols().known_at(offset)) CHECK(symbol->to <= text.size());
        }
    }
    CHECK(symbols > 1000);
}
