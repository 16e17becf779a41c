#include "runtime/transport/net/mailbox.hpp"

#include <catch2/catch.hpp>

#include <stdexcept>
#include <string>

using hocket::transport::Mailbox;

TEST_CASE("calls behind one that throws are made the next time") {
    Mailbox mailbox;
    std::string made;
    mailbox.post([&] { made += "a"; });
    mailbox.post([&] {
        mailbox.post([&] { made += "d"; });
        throw std::runtime_error("b");
    });
    mailbox.post([&] { made += "c"; });
    CHECK_THROWS_WITH(mailbox.empty(), "b");
    CHECK(made == "a");
    CHECK_FALSE(mailbox.is_empty());
    mailbox.empty();
    CHECK(made == "acd");
    CHECK(mailbox.close());
}
