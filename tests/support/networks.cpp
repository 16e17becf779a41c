#include "tests/support/networks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/support/restrictions.hpp"
#include "tests/support/test.hpp"

namespace hocket::test {

bool ip(const std::string& arguments) {
    return std::system(fmt::format("PATH=$PATH:/usr/sbin:/sbin ip {} 2>/dev/null", arguments).c_str()) == 0;
}

bool plug_in(const std::string& end) {
    return ip(fmt::format("link set {} addrgenmode none", end)) && ip(fmt::format("link set {} up", end));
}

bool lay_cable(const std::string& end, const std::string& other_end) {
    return ip(fmt::format("link add {} type veth peer name {}", end, other_end)) && plug_in(end);
}

void in_own_network(const std::function<std::string()>& body) {
    Processes world(60);
    world.start([&]() -> std::string {
        if (!enter_loopback_only_network() || !lay_cable("probe", "eborp")) return "skip";
        ip("link del probe");
        return body();
    });
    const auto outcomes = world.wait();
    if (outcomes[0].text == "skip")
        HOCKET_SKIP("making networks needs a privilege, or ip(8), that is missing here");
    require_success(outcomes);
}

std::string Lan::address(int host) {
    return fmt::format("10.77.0.{}", host + 1);
}

Lan::Lan(int hosts, const std::function<std::string(int)>& body, unsigned deadline_seconds)
    : processes_(deadline_seconds) {
    expect(ip("link add switch type bridge") && plug_in("switch"), "a switch");
    for (int host = 0; host < hosts; ++host) {
        processes_.start([&, host] {
            expect(enter_loopback_only_network(), "a network of its own");
            arrived_.add();
            plugged_.await(1);
            expect(plug_in("cable"), "the cable to be plugged in");
            expect(ip(fmt::format("addr add {}/24 dev cable", address(host))), "an address");
            return body(host);
        });
        arrived_.await(host + 1);
        expect(lay_cable(fmt::format("port{}", host), fmt::format("cable netns {}", processes_.pid(host))),
               "a cable");
        restore(host);
    }
    plugged_.add();
}

void Lan::cut_off(int host) const {
    expect(ip(fmt::format("link set port{} nomaster", host)), "a host to be cut off");
}

void Lan::restore(int host) const {
    expect(ip(fmt::format("link set port{} master switch", host)), "a host to be at the switch");
}

}  // namespace hocket::test
