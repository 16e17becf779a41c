// Which provider carries messages between hosts if a network card is asked for: one that all have, else tcp.
// The ranks are processes of this machine that count as hosts; the cards are those of
// support/demanding_fabric.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "runtime/engine/communicator.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using engine::Communicator;
using test::expect;
using test::run_ranks;

namespace {

constexpr const char* card = "rma,card,local,prov_key,tag_bits=48";

// The environment of a rank.
using Variables = std::map<std::string, std::string>;

const Variables with_card = {{"HOCKET_LIBFABRIC", HOCKET_DEMANDING_LIBFABRIC}, {"HOCKET_DEMANDS", card}};

Variables with_card_and(const std::string& name, const std::string& value) {
    Variables environment = with_card;
    environment[name] = value;
    return environment;
}

// Joins ranks on hosts of their own, each with its environment, and has them combine numbers by long
// messages. Each must have the provider, and each of the texts in the reasons for it.
void check_choice(const std::vector<Variables>& ranks, const std::string& provider,
                  const std::vector<std::string>& reasons) {
    const int size = static_cast<int>(ranks.size());
    const auto outcomes = run_ranks({size}, [&](int rank) {
        for (const auto& [name, value] : ranks[static_cast<std::size_t>(rank)])
            setenv(name.c_str(), value.c_str(), 1);
        setenv("HOCKET_PROVIDER", "card", 0);
        setenv("HOCKET_HOST_ID", std::to_string(rank).c_str(), 1);
        const auto comm = Communicator::create(engine::resolve({}));
        expect(comm->connections().provider() == provider,
               fmt::format("provider {}, got {}", provider, comm->connections().provider()));
        const std::string& why = comm->connections().provider_why();
        for (const std::string& reason : reasons)
            expect(why.find(reason) != std::string::npos, fmt::format("\"{}\" is not in: {}", reason, why));
        constexpr std::uint64_t count = 100'000;
        std::vector<float> numbers(count, static_cast<float>(rank + 1));
        const auto& plan = comm->plans().cached_plan({}, count);
        comm->progress().wait(comm->start(plan, numbers.data(), numbers.data(), count));
        const float sum = static_cast<float>(size * (size + 1) / 2);
        expect(std::count(numbers.begin(), numbers.end(), sum) == count, "the sum of all ranks");
    });
    CHECK(test::problems(outcomes) == "");
}

}  // namespace

TEST_CASE("a network card that all hosts have carries the messages between them, if it is asked for") {
    check_choice({with_card, with_card, with_card}, "tcp;ofi_rxm",
                 {"the network card of all ranks' hosts", "long messages by RMA"});
}

TEST_CASE("a card carries messages that has what is known of cxi") {
    const Variables cxi =
        with_card_and("HOCKET_DEMANDS", "cxi,tag_bits=48,rma,card,endpoint,prov_key,segments=1,down_first");
    check_choice({cxi, cxi}, "cxi", {"the network card of all ranks' hosts", "told by messages"});
}

TEST_CASE("where one host has no such network card, tcp carries the messages of all, which say why") {
    const std::string because = "not by the network card of rank 0's host (tcp;ofi_rxm), because rank 1 has ";
    SECTION("no card") {
        check_choice({with_card, {}, with_card}, "tcp", {because + "none", "straight over TCP"});
    }
    SECTION("a card without RMA") {
        check_choice({with_card, with_card_and("HOCKET_DEMANDS", "card,local")}, "tcp", {because + "none"});
    }
    SECTION("one that is used as sockets are") {
        check_choice({with_card, with_card_and("HOCKET_DEMANDS", "rma,card")}, "tcp", {because + "none"});
    }
    SECTION("a library that cannot be loaded") {
        check_choice({with_card, with_card_and("HOCKET_LIBFABRIC", "/nowhere/libfabric.so")}, "tcp",
                     {because + "none"});
    }
    SECTION("another card") {
        check_choice({with_card, with_card_and("FI_PROVIDER", "sockets")}, "tcp",
                     {because + "another one (sockets)"});
    }
    SECTION("no card on the first host") {
        check_choice({{}, with_card}, "tcp",
                     {"not by the network card of rank 1's host (tcp;ofi_rxm), because rank 0 has none"});
    }
}

TEST_CASE(
    "a network card is left alone where another provider is named, or only tcp can do what is asked for") {
    const auto check_tcp = [](const char* name, const char* value, const char* provider) {
        const Variables environment = with_card_and(name, value);
        check_choice({environment, environment}, provider, {"straight over TCP"});
    };
    check_tcp("HOCKET_PROVIDER", "tcp", "tcp");
    check_tcp("HOCKET_PROVIDER", "", "tcp");
    check_tcp("HOCKET_PROVIDER_FOR_ALL", "tcp", "tcp");
    check_tcp("HOCKET_ENCRYPTION", "on", "encrypted tcp");
}
