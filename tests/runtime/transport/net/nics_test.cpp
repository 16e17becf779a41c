// Which NICs of two hosts are connected, and how hosts tell each other of them.
#include <fmt/format.h>

#include <random>

#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/handshake.hpp"
#include "runtime/transport/net/nics.hpp"
#include "runtime/transport/streams/mesh_address.hpp"
#include "tests/support/test.hpp"

using namespace hocket::transport;

namespace {

// "10.0.1.1/24 (eth1)", and what else matters.
Nic nic(const std::string& address, int prefix, const std::string& name, bool is_hardware = true,
        int megabits = -1) {
    Nic made;
    made.name = name;
    made.address = address;
    made.prefix = prefix;
    made.is_hardware = is_hardware;
    made.megabits = megabits;
    return made;
}

// "eth1 > 10.0.1.2, > 10.0.2.2": the NIC here, none where the kernel chooses, and the address there.
std::string rails(const std::vector<Nic>& here, const std::vector<Nic>& there, const char* wanted = "") {
    std::string text;
    for (const Rail& rail : rails_between(here, there, wanted))
        text += fmt::format("{}{} > {}", text.empty() ? "" : ", ", rail.here ? rail.here->name : "",
                            rail.there.address);
    return text;
}

}  // namespace

TEST_CASE("two hosts connect over the subnet that they share, else as packets are routed") {
    const std::vector<Nic> a{nic("10.0.0.1", 24, "n0"), nic("10.1.0.1", 24, "n1")};
    const std::vector<Nic> b{nic("10.0.0.2", 24, "n0"), nic("10.1.1.1", 24, "n1")};
    const std::vector<Nic> c{nic("10.0.1.1", 24, "n0"), nic("10.1.0.2", 24, "n1")};
    CHECK(rails(a, b) == "n0 > 10.0.0.2,  > 10.1.1.1");
    CHECK(rails(a, c) == "n1 > 10.1.0.2,  > 10.0.1.1");
    CHECK(rails(b, c) == " > 10.0.1.1,  > 10.1.0.2");
}

TEST_CASE("of the subnets that two hosts share the fastest between hardware comes first") {
    const auto host = [](int number) {
        const std::string end = std::to_string(number);
        return std::vector{nic("fd00::" + end, 64, "quick", true, 100000),
                           nic("10.0.0." + end, 24, "slow", true, 1000),
                           nic("10.1.0." + end, 24, "quick", true, number == 1 ? 100000 : 10000),
                           nic("10.2.0." + end, 24, "bridge", false, 400000)};
    };
    CHECK(rails(host(1), host(2)) == "quick > 10.1.0.2, slow > 10.0.0.2, quick > fd00::2, bridge > 10.2.0.2");
}

TEST_CASE("of equal subnets that two hosts share the one with fewer ranks comes first") {
    std::vector<Nic> here{nic("10.9.0.1", 16, "control"), nic("10.0.0.1", 24, "n0")};
    const std::vector<Nic> there{nic("10.9.0.2", 16, "control"), nic("10.0.0.2", 24, "n0")};
    here[0].sharers = 9;
    here[1].sharers = 3;
    CHECK(rails(here, there) == "n0 > 10.0.0.2, control > 10.9.0.2");
    here[1].sharers = 10;
    CHECK(rails(here, there) == "control > 10.9.0.2, n0 > 10.0.0.2");
}

TEST_CASE("an address that both hosts have is tried last, unless they are one host") {
    const Nic bridge = nic("172.17.0.1", 16, "docker0", false);
    const std::vector<Nic> a{nic("10.0.0.1", 24, "eth0"), bridge}, b{nic("10.0.0.2", 24, "eth0"), bridge};
    CHECK(rails(a, b) == "eth0 > 10.0.0.2,  > 172.17.0.1");
    CHECK(rails({bridge}, {bridge}) == " > 172.17.0.1");
    CHECK(rails(a, {bridge}) == " > 172.17.0.1");
}

TEST_CASE("a NIC that is named counts alone, on both hosts") {
    const std::vector<Nic> a{nic("10.0.0.1", 24, "n0"), nic("10.1.0.1", 24, "n1"), nic("fd01::1", 64, "n1")};
    const std::vector<Nic> b{nic("10.0.0.2", 24, "n0"), nic("10.1.9.2", 24, "n1"), nic("fd01::2", 64, "n1")};
    CHECK(rails(a, b, "n0") == "n0 > 10.0.0.2");
    CHECK(rails(a, b, "n1") == "n1 > fd01::2, n1 > 10.1.9.2");
    CHECK(rails(a, b, "10.1.0.0/16") == "n1 > 10.1.9.2");
    CHECK(rails(a, b, "fd00::/15") == "n1 > fd01::2");
    CHECK(rails(a, b, "10.1.0.0/24").empty());
    CHECK(rails(a, b, "n").empty());
    CHECK(rails(a, b, "10.1.0.0/64").empty());
}

TEST_CASE("subnets are compared bit by bit") {
    const Nic odd = nic("10.0.5.1", 23, "n0");
    CHECK(is_in_subnet("10.0.4.255", odd));
    CHECK_FALSE(is_in_subnet("10.0.6.1", odd));
    CHECK_FALSE(is_in_subnet("fd00::1", odd));
    CHECK_FALSE(is_in_subnet("fe80::2%n0", nic("fe80::1%n0", 64, "n0")));
    CHECK_FALSE(is_in_subnet("127.0.0.1", nic("127.0.0.1", 0, "")));
}

TEST_CASE("what a rank tells of its NICs is read as it was, and nothing else is read") {
    MeshAddress told;
    told.port = 40000;
    told.key = std::string(nonce_size, 'k');
    told.nics = {nic("10.0.0.1", 24, "eth0", true, 25000), nic("fe80::1%eth1", 64, "eth1", false)};
    const std::string text = told.encode();
    const MeshAddress read = MeshAddress::decode(text);
    CHECK(read.encode() == text);
    CHECK(read.text() == "10.0.0.1:40000, [fe80::1%eth1]:40000");
    CHECK(read.nics[0].megabits == 25000);
    CHECK(read.nics[1].megabits == -1);
    CHECK_FALSE(read.nics[1].is_hardware);
    for (std::size_t size = 0; size < text.size(); ++size)
        CHECK_THROWS_AS(MeshAddress::decode(text.substr(0, size)), ProtocolError);
    CHECK_THROWS_AS(MeshAddress::decode(text + "x"), ProtocolError);
    told.nics.assign(most_nics + 1, nic("10.0.0.1", 24, "eth0"));
    CHECK_THROWS_AS(MeshAddress::decode(told.encode()), ProtocolError);
    for (const Nic& wrong : {nic("10.0.0.1", 33, "eth0"), nic("host", 0, "eth0"), nic("", 0, "eth0"),
                             nic("10.0.0.1", 24, "a name of 17 bytes")}) {
        told.nics = {wrong};
        CHECK_THROWS_AS(MeshAddress::decode(told.encode()), ProtocolError);
    }
    told.nics.clear();
    CHECK_THROWS_AS(MeshAddress::decode(told.encode()), ProtocolError);
}

TEST_CASE("any bytes are an address within its bounds, or none") {
    std::mt19937 random(1);
    MeshAddress told;
    told.key = std::string(nonce_size, 'k');
    told.nics = {nic("10.0.0.1", 24, "eth0"), nic("fd00::1", 64, "eth1")};
    int addresses = 0;
    for (int round = 0; round < 20000; ++round) {
        std::string text = told.encode();
        for (std::size_t i = 1 + random() % 3; i-- > 0;)
            text[random() % text.size()] = static_cast<char>(random());
        try {
            const MeshAddress read = MeshAddress::decode(text);
            ++addresses;
            REQUIRE(read.nics.size() <= most_nics);
            REQUIRE(rails_between(read.nics, told.nics).size() <= most_nics * most_nics);
        } catch (const ProtocolError&) {
        }
    }
    CHECK(addresses > 100);
}
