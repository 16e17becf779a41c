#include "runtime/engine/reports/notice.hpp"

#include <random>

#include "tests/support/test.hpp"

using namespace hocket;
using engine::decode_notice;
using engine::encode;
using engine::Notice;

TEST_CASE("a notice comes out as it went in, and cut short it loses the end of its text only") {
    const Notice notice{Status::mismatch, 12, "barrier #12 (3 ranks)", "ring in ring.sched",
                        "what is wrong\n  and where"};
    const std::string encoded = encode(notice);
    const Notice whole = decode_notice(encoded);
    CHECK(whole.status == Status::mismatch);
    CHECK(whole.number == 12);
    CHECK(whole.operation == notice.operation);
    CHECK(whole.details == notice.details);
    CHECK(whole.text == notice.text);
    CHECK(decode_notice(encoded.substr(0, encoded.size() - 5)).text == "what is wrong\n  and ");
    CHECK(decode_notice(encoded.substr(0, encoded.size() - 5)).operation == notice.operation);
    const Notice odd =
        decode_notice(encode({Status::timeout, -1, "two\nlines" + std::string(5000, 'x'), "", ""}));
    CHECK(odd.number == -1);
    CHECK(odd.operation.substr(0, 11) == "two linesxx");
    CHECK(odd.operation.size() == 512);
    CHECK(odd.text.empty());
    for (const Status status : {Status::invalid_argument, Status::io, Status::limit})
        CHECK(decode_notice(encode({status, 1, "op", "", "why"})).status == status);
}

TEST_CASE("what is no notice is an internal error, with its text") {
    const std::string below_all = std::to_string(lowest_status - 1) + "\n1\nop\n";
    const std::string texts[] = {"",   "x",    "0\n1\nop\ntext", "1\n1\nop\ntext", below_all,
                                 "-8", "-8\n", "-8\nx\nop\n",    "-8 \n1\nop\n",   "99999999999\n1\n\n"};
    for (const std::string& text : texts) {
        const Notice notice = decode_notice(text);
        INFO(text);
        CHECK(notice.status == Status::internal);
        CHECK_THAT(notice.text, Catch::EndsWith(text));
    }
}
