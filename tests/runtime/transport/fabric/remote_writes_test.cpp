// Long messages that are written into the receiver's memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <thread>

#include "runtime/base/error.hpp"
#include "tests/runtime/transport/bootstrap/exchange.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;

namespace {

const std::vector<std::string> rma_providers = {
    "net by RMA",
    "ofi+tcp by RMA",
    "sockets by RMA",
    "ofi+tcp that demands rma,sent=16384,card,local,virt_addr,prov_key,again=3,late=20",
    "net that demands rma,sent=16384,card,local,endpoint,late=9,segments=2",
    "ofi+tcp that demands rma,sent=16384,rx_cq_data,card,local,again=4,late=20",
    "cxi that demands cxi,tag_bits=48,rma,sent=16384,card,endpoint,live=300,prov_key,segments=1,late=9",
    "ofi+tcp that demands no_data,rma,sent=16388,card,prov_key,again=4,late=20",
    "net that demands no_data,rma,sent=16388,card,local,endpoint,segments=1,late=9",
};

}  // namespace

TEST_CASE("the reason for a provider says how long messages go") {
    const auto why = [](const std::string& provider, const char* rma = "") {
        Processes processes;
        processes.start([&] {
            const std::string name = prepare_provider(provider);
            setenv("HOCKET_RMA", rma, 1);
            return engine::open_fabric(name, "127.0.0.1")->why();
        });
        return processes.wait().front().text;
    };
    CHECK_THAT(why("ofi+tcp"), Catch::Contains("no RMA, which this provider leaves to the processor"));
    CHECK_THAT(why("ofi+tcp", "on"), Catch::Contains("RMA, told with immediate data"));
    CHECK_THAT(why("ofi+tcp that demands rma,card,local"), Catch::Contains("RMA, told with immediate data"));
    CHECK_THAT(why("ofi+tcp that demands rma,rx_cq_data,card,local"),
               Catch::Contains("RMA, told by messages"));
    CHECK_THAT(why("cxi that demands cxi,rma,card,endpoint"), Catch::Contains("RMA, told by messages"));
    CHECK_THAT(why("ofi+tcp that demands no_data,rma,card,local"),
               Catch::Contains("RMA, told by messages; checksums go ahead of messages"));
    CHECK_THAT(why("ofi+tcp that demands no_data,no_delivery,rma,card,local"),
               Catch::Contains("no RMA, whose end this provider does not tell; checksums"));
    CHECK_THAT(why("sockets that demands no_delivery,rma,rx_cq_data,card,local"),
               Catch::EndsWith("no RMA, whose end this provider does not tell"));
    CHECK_THAT(why("ofi+tcp that demands rma,card,local", "off"), Catch::Contains("no RMA (HOCKET_RMA=off)"));
    CHECK_THAT(why("ofi+tcp that demands rma,local"), Catch::Contains("leaves to the processor"));
    CHECK_THAT(why("ofi+tcp that demands card,local"), Catch::Contains("does not offer"));
    CHECK_THAT(why("ofi+tcp", "yes"), Catch::Contains("status -1") && Catch::Contains("HOCKET_RMA is 'yes'"));
}

TEST_CASE("the port that was found is the one that is opened, with RMA and without") {
    const std::string rma = GENERATE("", "off");
    const bool is_named = GENERATE(false, true);
    Processes processes;
    processes.start([&]() -> std::string {
        prepare_provider("net that demands down_first,rma,card,local");
        setenv("HOCKET_RMA", rma.c_str(), 1);
        const auto card = is_named ? engine::open_fabric("net") : engine::open_network_card({});
        expect(card != nullptr, "a card");
        return card->why();
    });
    const auto outcomes = processes.wait();
    require_success(outcomes);
    CHECK_THAT(outcomes[0].text,
               Catch::Contains(is_named ? "asked for by name; " : "the network card of all ranks' hosts; ") &&
                   Catch::Contains(rma == "off" ? "no RMA" : "long messages by RMA"));
}

TEST_CASE("a warning says if long messages are sent where RMA is asked for, and none otherwise") {
    const auto logged = [](const std::string& provider, const char* rma) {
        Processes processes;
        processes.start([&]() -> std::string {
            const std::string name = prepare_provider(provider);
            setenv("HOCKET_RMA", rma, 1);
            std::string lines;
            {
                const TemporaryFolder folder;
                const std::string file = folder.path() + "/log";
                expect(freopen(file.c_str(), "w", stderr) != nullptr, "a file for the log");
                engine::open_fabric(name, "127.0.0.1");
                engine::open_fabric(name, "127.0.0.1");
                std::fflush(stderr);
                std::ifstream log(file);
                for (std::string line; std::getline(log, line);) lines += line + "\n";
            }
            return lines;
        });
        return processes.wait().front().text;
    };
    const std::string warning =
        "hocket: warning: libfabric's provider 'sockets' sends long messages, and does not write them to "
        "where they are received: no RMA, whose end this provider does not tell; HOCKET_RMA=off asks for no "
        "RMA\n";
    CHECK(logged("sockets that demands no_data,no_delivery,rma,card,prov_key", "") == warning);
    CHECK(logged("sockets that demands no_data,no_delivery,rma,card,prov_key", "on") == warning);
    CHECK(logged("sockets that demands no_data,no_delivery,rma,card,prov_key", "off") == "");
    CHECK(logged("sockets that demands no_data,no_delivery,rma", "") == "");
    CHECK(logged("sockets that demands no_data,rma,card,prov_key", "") == "");
}

TEST_CASE("ranks of which one alone carries data beside messages are told, and do not begin") {
    const auto outcomes = run_job(2, [&](Rank rank) -> std::string {
        const std::string name =
            prepare_provider(rank.rank == 0 ? "sockets that demands no_data" : "sockets that demands late=2");
        const auto fabric = engine::open_fabric(name, "127.0.0.1");
        const auto addresses = rank.job.all_gather(fabric->local_address(), 5s);
        try {
            fabric->connect(addresses, for_seconds(5));
        } catch (const Error& error) {
            return error.what();
        }
        return "connected";
    });
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
        CHECK_THAT(outcomes[rank].text,
                   Catch::Contains(fmt::format("on this rank or on rank {}, and not on both", 1 - rank)));
}

TEST_CASE("registrations end with their messages, though they are bound to the endpoint") {
    require_success(run_job(2, [&](Rank rank) {
        const auto fabric = open_connected(rank, "net that demands rma,card,local,endpoint,live=12,late=3");
        for (int i = 0; i < 40; ++i) {
            const auto mine = pattern(20011, i + rank.rank);
            std::vector<char> theirs(mine.size());
            Flow flow(*fabric);
            flow.receive(1 - rank.rank, 1, theirs);
            flow.send(1 - rank.rank, 1, 2, mine);
            for (const Completion& completion : flow.finish()) expect(completion.ok, completion.error);
            expect(theirs == pattern(mine.size(), i + 1 - rank.rank), "the peer's bytes");
        }
        wait_for_all(rank, *fabric, 10s);
        return std::string();
    }));
}

TEST_CASE("a provider with shorter tags than Hocket's is refused, with both lengths") {
    Processes processes;
    processes.start([]() -> std::string {
        const std::string name = prepare_provider("net that demands tag_bits=40");
        try {
            engine::open_fabric(name, "127.0.0.1");
        } catch (const Error& error) {
            return error.what();
        }
        return "it was opened";
    });
    CHECK_THAT(processes.wait()[0].text, Catch::Contains("takes tags of 40 bits, and Hocket needs 47"));
}

TEST_CASE("messages around the length from which they are written fill unaligned memory exactly") {
    const std::string provider = GENERATE(from_range(loaded(rma_providers, 0)));
    INFO(provider);
    require_success(run_job(2, [&](Rank rank) {
        const auto fabric = open_connected(rank, provider);
        std::uint64_t tag = 0;
        for (const std::size_t bytes : {16383u, 16384u, 16385u, 16386u, 65537u, (1u << 20) + 1})
            for (const std::size_t shift : {0u, 1u, 7u}) {
                Flow flow(*fabric);
                std::vector<char> out(bytes + 16, 'o'), in(bytes + 16, 'i');
                const auto mine = pattern(bytes, rank.rank), theirs = pattern(bytes, 1 - rank.rank);
                std::copy(mine.begin(), mine.end(), out.begin() + shift);
                if (rank.rank == static_cast<int>(tag % 2)) std::this_thread::sleep_for(1ms);
                flow.send(1 - rank.rank, tag, 3, {segment(&out[shift], bytes)});
                flow.receive(1 - rank.rank, tag++, in, {segment(&in[shift + 1], bytes)});
                for (const Completion& completion : flow.finish()) {
                    expect(completion.ok, completion.error);
                    if (completion.message->user) expect(completion.bytes == bytes, "the length");
                }
                expect(std::equal(theirs.begin(), theirs.end(), in.begin() + shift + 1), "the peer's bytes");
                expect(std::count(in.begin(), in.begin() + shift + 1, 'i') == static_cast<long>(shift) + 1 &&
                           std::count(in.begin() + shift + 1 + bytes, in.end(), 'i') ==
                               static_cast<long>(15 - shift),
                       "nothing beside the buffer");
            }
        wait_for_all(rank, *fabric, 10s);
        return std::string();
    }));
}

TEST_CASE("a written message fills all pieces of its receive before it ends") {
    const std::string provider = GENERATE(from_range(loaded(rma_providers, 1)));
    INFO(provider);
    require_success(run_job(2, [&](Rank rank) {
        const auto fabric = open_connected(rank, provider);
        constexpr std::size_t bytes = 100003;
        for (std::uint64_t tag = 0; tag < 20; ++tag) {
            const std::size_t pieces = 1 + tag % 4;
            const auto mine = pattern(bytes, static_cast<int>(tag) + rank.rank);
            std::vector<char> theirs(bytes);
            const auto in = backwards(theirs, {bytes / pieces + 1});
            Flow flow(*fabric);
            flow.receive(1 - rank.rank, tag, theirs, in);
            flow.send(1 - rank.rank, tag, 9, backwards(mine, {30011}));
            for (const Completion& completion : flow.finish()) expect(completion.ok, completion.error);
            const auto sent = pattern(bytes, static_cast<int>(tag) + 1 - rank.rank);
            expect(bytes_of(in) == bytes_of(backwards(sent, {30011})),
                   fmt::format("the peer's bytes in {} pieces", pieces));
        }
        wait_for_all(rank, *fabric, 10s);
        return std::string();
    }));
}

TEST_CASE("many written messages are in flight, unexpected and out of order") {
    const std::string provider = GENERATE(from_range(loaded(rma_providers, 0)));
    INFO(provider);
    require_success(run_job(
        2,
        [&](Rank rank) {
            const auto fabric = open_connected(rank, provider);
            constexpr int count = 250;
            constexpr std::size_t bytes = 20011;
            Flow flow(*fabric);
            std::deque<std::vector<char>> sent, received;
            for (int i = 0; i < count; ++i)
                flow.send(1 - rank.rank, i, i, sent.emplace_back(pattern(bytes, i)));
            std::this_thread::sleep_for(50ms);
            for (int i = count; i-- > 0;) flow.receive(1 - rank.rank, i, received.emplace_back(bytes));
            for (const Completion& completion : flow.finish()) {
                expect(completion.ok, completion.error);
                if (!completion.message->user) continue;
                const auto& data = *static_cast<std::vector<char>*>(completion.message->user);
                expect(data == pattern(bytes, static_cast<int>(completion.checksum)), "each under its tag");
            }
            wait_for_all(rank, *fabric, 10s);
            return std::string();
        },
        60));
}

// The receiver cannot know whether a message will be written: its receives may be longer.
TEST_CASE("written and sent messages of one tag match in order") {
    const std::string provider = GENERATE(from_range(loaded(rma_providers, 1)));
    INFO(provider);
    require_success(run_job(2, [&](Rank rank) {
        const auto fabric = open_connected(rank, provider);
        const std::vector<std::size_t> lengths = {20000, 5, 100000, 16384, 1, 16385, 40000, 3};
        Flow flow(*fabric);
        std::deque<std::vector<char>> texts;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            const int seed = static_cast<int>(i);
            if (rank.rank == 0)
                flow.send(1, 7, static_cast<std::uint32_t>(i), texts.emplace_back(pattern(lengths[i], seed)));
            else
                flow.receive(0, 7, texts.emplace_back(120000, 'x'));
        }
        for (const Completion& completion : flow.finish()) {
            expect(completion.ok, completion.error);
            if (rank.rank == 0) continue;
            const auto is_it = [&](const auto& one) { return &one == completion.message->user; };
            const auto at = std::find_if(texts.begin(), texts.end(), is_it) - texts.begin();
            const std::size_t length = lengths[static_cast<std::size_t>(at)];
            expect(completion.bytes == length && completion.checksum == at,
                   fmt::format("message {} of {} bytes, got message {} of {}", at, length,
                               completion.checksum, completion.bytes));
            auto& text = texts[static_cast<std::size_t>(at)];
            expect(std::count(text.begin() + static_cast<long>(length), text.end(), 'x') ==
                       static_cast<long>(text.size() - length),
                   "nothing behind the message");
            text.resize(length);
            expect(text == pattern(length, static_cast<int>(at)), "the sender's bytes");
        }
        wait_for_all(rank, *fabric, 10s);
        return std::string();
    }));
}

TEST_CASE("a receive that is too short for a written message is truncated, and the next one is not") {
    const std::string provider = GENERATE(from_range(loaded(rma_providers, 0)));
    const std::size_t room = GENERATE(16u, 1000u, 29999u);
    INFO(provider << ", " << room << " bytes of room");
    require_success(run_job(2, [&](Rank rank) {
        const auto fabric = open_connected(rank, provider);
        const auto first = pattern(30000, 1), second = pattern(30000, 2);
        std::vector<char> truncated(room), whole(30000);
        Flow flow(*fabric), next(*fabric);
        if (rank.rank == 0) {
            flow.send(1, 5, 77, first);
            flow.send(1, 6, 78, second);
            for (const Completion& completion : flow.finish()) expect(completion.ok, completion.error);
        } else {
            flow.receive(0, 5, truncated);
            const Completion completion = flow.finish().front();
            expect(!completion.ok && completion.truncated && completion.bytes == 30000,
                   fmt::format("truncation, got {} bytes: {}", completion.bytes, completion.error));
            next.receive(0, 6, whole);
            expect(next.finish().front().ok && whole == second, "the second message");
        }
        wait_for_all(rank, *fabric, 10s);
        return std::string();
    }));
}

// Nobody answers it; what comes next is the provider's matter.
TEST_CASE("a receive that is too short for an offer is truncated") {
    const std::string provider = GENERATE(from_range(loaded(rma_providers, 1)));
    INFO(provider);
    require_success(run_job(2, [&](Rank rank) {
        const auto fabric = open_connected(rank, provider);
        std::vector<char> data(rank.rank == 0 ? 30000 : 15);
        Flow flow(*fabric);
        if (rank.rank == 0) {
            flow.send(1, 5, 77, data);
        } else {
            flow.receive(0, 5, data);
            expect(flow.finish().front().truncated, "truncation");
        }
        wait_for_all(rank, *fabric, 10s);
        return std::string();
    }));
}

// Rank 1 has answered the offer when it gives up; rank 0 writes after that.
TEST_CASE("a write that comes after abandon() reaches nothing") {
    const std::string provider = GENERATE(from_range(loaded(rma_providers, 0)));
    INFO(provider);
    require_success(run_job(2, [&](Rank rank) {
        const auto fabric = open_connected(rank, provider);
        std::vector<char> first(1), data(8 << 20, rank.rank == 0 ? 'w' : 'r');
        Flow connecting(*fabric), flow(*fabric);
        connecting.receive(1 - rank.rank, 1, first);
        connecting.send(1 - rank.rank, 1, 0, first);
        connecting.finish();
        const auto poll_for = [&](std::chrono::milliseconds time) {
            for (const auto until = Clock::now() + time; Clock::now() < until;)
                if (!flow.progress()) fabric->wait({}, 1ms);
        };
        if (rank.rank == 0) {
            flow.send(1, 5, 77, data);
            rank.job.all_gather("sent", 5s);
            poll_for(20ms);
            rank.job.all_gather("offered", 5s);
            rank.job.all_gather("given up", 5s);
            try {
                poll_for(200ms);
            } catch (const Error&) {  // the peer has gone
            }
        } else {
            flow.receive(0, 5, data);
            rank.job.all_gather("sent", 5s);
            poll_for(20ms);
            rank.job.all_gather("offered", 5s);
            for (int i = 0; i < 3; ++i) flow.progress();
            fabric->abandon();
            std::fill(data.begin(), data.end(), 'r');
            rank.job.all_gather("given up", 5s);
            std::this_thread::sleep_for(300ms);
            expect(std::count(data.begin(), data.end(), 'w') == 0, "memory that is the caller's again");
        }
        rank.job.all_gather("done", 10s);  // an abandoned endpoint cannot be polled
        return std::string();
    }));
}
