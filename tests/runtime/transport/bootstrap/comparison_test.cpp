// Rank 0's comparison of the operations that the others report.
#include "runtime/transport/bootstrap/comparison.hpp"

#include "runtime/transport/net/frame.hpp"
#include "tests/support/test.hpp"

using namespace hocket::transport;
using namespace std::chrono_literals;

namespace {

constexpr Comparison::Clock::time_point start{};

// The account of a rank whose checksums equal all others' until `differs`, and are its own from there on.
Account account(std::uint64_t number, std::uint64_t differs, std::uint64_t known = most_checksums) {
    Account made;
    made.asked = made.number = number;
    for (std::uint64_t which = number + 1 - std::min(known, number + 1); which <= number; ++which)
        made.checksums.push_back(static_cast<std::uint32_t>(which < differs ? which : which + 1'000'000));
    made.operation = number < differs ? "this" : "that";
    return made;
}

constexpr std::uint64_t never = UINT64_MAX;

}  // namespace

TEST_CASE("accounts and differences come out as they went in, and other bytes are refused") {
    Account sent = account(70, never);
    sent.details = "a file", sent.idleness = {Idleness::Kind::not_attended, true, "a reason"};
    const Account came = decode_account(encode(sent));
    CHECK(came.number == 70);
    CHECK(came.first() == 7);
    CHECK(came.checksums == sent.checksums);
    CHECK((came.operation == "this" && came.details == "a file" && came.idleness.waits_elsewhere &&
           came.idleness.kind == sent.idleness.kind && came.idleness.why == "a reason"));
    const Difference known{UINT64_MAX - 1, true, {{{0, 2}, "this", "by one"}, {{1}, "that", ""}}};
    const Difference told = decode_difference(encode(known), 3);
    CHECK((told.number == known.number && told.may_be_earlier && told.started.size() == 2));
    CHECK((told.started[0].ranks == std::vector{0, 2} && told.started[0].details == "by one"));
    CHECK((told.started[1].ranks == std::vector{1} && told.started[1].operation == "that"));
    CHECK_THROWS_AS(decode_difference(encode(known), 2), ProtocolError);  // there is no rank 2
    const std::string account_bytes = encode(sent), difference_bytes = encode(known);
    for (std::size_t length = 0; length < account_bytes.size(); ++length) {
        INFO(length);
        CHECK_THROWS_AS(decode_account(account_bytes.substr(0, length)), ProtocolError);
    }
    for (std::size_t length = 0; length < difference_bytes.size(); ++length) {
        INFO(length);
        CHECK_THROWS_AS(decode_difference(difference_bytes.substr(0, length), 3), ProtocolError);
    }
    Account impossible = account(3, never);
    impossible.checksums.push_back(0);  // five operations up to the fourth
    CHECK_THROWS_AS(decode_account(encode(impossible)), ProtocolError);
    impossible.checksums.clear();
    CHECK_THROWS_AS(decode_account(encode(impossible)), ProtocolError);
    Account behind = account(3, never);
    behind.asked = 7;
    CHECK(decode_account(encode(behind)).asked == 7);
    behind.asked = 2;  // and its account reaches the fourth
    CHECK_THROWS_AS(decode_account(encode(behind)), ProtocolError);
    Account none;
    none.asked = 7;
    CHECK(decode_account(encode(none)).checksums.empty());
    none.idleness.kind = static_cast<Idleness::Kind>(3);
    CHECK_THROWS_AS(decode_account(encode(none)), ProtocolError);
}

TEST_CASE("ranks that have started the same, or have not come so far, do not differ") {
    Comparison comparison;
    CHECK(comparison.note_wait(5, start));
    CHECK_FALSE(comparison.note_wait(5, start + 10ms));  // many ranks wait
    CHECK(comparison.note_wait(5, start + 1s));
    CHECK_FALSE(comparison.note(0, account(5, never), start));
    CHECK_FALSE(comparison.note(2, account(5, never, 3), start));
    CHECK_FALSE(comparison.note(1, account(9, 0), start));  // no rank has asked about that
    CHECK_FALSE(comparison.due());
    CHECK_FALSE(comparison.difference());
}

TEST_CASE("the first operation that differs is found, however long ago it was") {
    for (const std::uint64_t first : {500, 499, 440, 437, 436, 100, 0}) {
        Comparison comparison;
        INFO(first);
        REQUIRE(comparison.note_wait(500, start));
        std::uint64_t number = 500;
        for (int questions = 0; !comparison.due() && questions < 20; ++questions) {
            std::uint64_t next = number;
            for (const auto& [rank, differs] :
                 {std::pair(0, never), std::pair(1, first), std::pair(2, never)})
                if (const auto asked = comparison.note(rank, account(number, differs), start)) next = *asked;
            number = next;
        }
        REQUIRE(comparison.due());
        CHECK(*comparison.due() > start);
        const auto difference = comparison.difference();
        REQUIRE(difference);
        CHECK(difference->number == first);
        CHECK_FALSE(difference->may_be_earlier);
        REQUIRE(difference->started.size() == 2);
        CHECK(difference->started[0].ranks == std::vector{0, 2});  // most ranks first
        CHECK(difference->started[0].operation == "this");
        CHECK(difference->started[1].ranks == std::vector{1});
        CHECK(difference->started[1].operation == "that");
    }
}

TEST_CASE("where ranks differ as far back as one remembers, it is said so") {
    Comparison comparison;
    REQUIRE(comparison.note_wait(500, start));
    comparison.note(0, account(500, never), start);
    CHECK(comparison.note(1, account(500, 3, 2), start) == 499);
    comparison.note(0, account(499, never), start);
    comparison.note(1, account(499, 3, 1), start);
    REQUIRE(comparison.difference());
    CHECK(comparison.difference()->number == 499);
    CHECK(comparison.difference()->may_be_earlier);
}

TEST_CASE("a rank that has not come so far differs by what it started before") {
    for (const bool late_is_first : {false, true}) {
        INFO(late_is_first);
        Comparison comparison;
        REQUIRE(comparison.note_wait(9, start));
        const auto tell = [&](bool late, Comparison::Clock::time_point now) {
            return comparison.note(late, account(late ? 7 : 9, late ? 6 : never), now);
        };
        CHECK_FALSE(tell(late_is_first, start));
        CHECK(tell(!late_is_first, start) == 6);
        CHECK_FALSE(tell(true, start + 10ms));  // the answers are on their way
        CHECK(tell(true, start + 1s) == 6);
        comparison.note(1, account(6, 6), start + 1s);
        CHECK_FALSE(comparison.due());
        comparison.note(0, account(6, never), start + 1s);
        REQUIRE(comparison.difference());
        CHECK(comparison.difference()->number == 6);
        CHECK_FALSE(comparison.difference()->may_be_earlier);
    }
}

TEST_CASE("ranks are asked again about an operation that one of them had not come to") {
    Comparison comparison;
    REQUIRE(comparison.note_wait(5, start));
    CHECK_FALSE(comparison.note(0, account(5, never), start));
    REQUIRE(comparison.note_wait(6, start + 1s));
    CHECK_FALSE(comparison.note(0, account(6, never), start + 1s));
    CHECK(comparison.note(1, account(6, 5), start + 1s) == 5);
    CHECK_FALSE(comparison.note(0, account(5, never), start + 1s));
    CHECK_FALSE(comparison.note(1, account(5, 5), start + 1s));
    REQUIRE(comparison.difference());
    CHECK(comparison.difference()->number == 5);
}
