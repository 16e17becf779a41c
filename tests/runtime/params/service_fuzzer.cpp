// Sends notes and messages, most of them correct, in any order to running servers and workers. A seed
// determines them.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/runtime/params/peer.hpp"
#include "tests/runtime/params/training.hpp"

using namespace hocket;
using namespace hocket::params;
using namespace hocket::test;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

class Stranger {
  public:
    Stranger(std::uint64_t seed, Job job, std::string run, Epoch now)
        : random_(seed),
          job_(std::move(job)),
          run_(std::move(run)),
          now_(now),
          number_(below(8) == 0 ? number() : 100 + below(3)) {}

    // Talks to a server or a worker. A server may already count the peer among its workers.
    void talk(Peer& peer) {
        if (below(2) == 0) come(peer);
        for (std::size_t i = 0, count = 1 + below(12); i < count; ++i) {
            switch (below(8)) {
                case 0:
                    noise(peer);
                    break;
                case 1:
                case 2:
                case 3:
                    say_message(peer);
                    break;
                default:
                    peer.say(mutated(note()));
            }
            if (below(3) == 0) peer.take_in();
        }
    }

  private:
    std::size_t below(std::size_t limit) { return random_() % limit; }
    template <typename Choice>
    Choice any(std::initializer_list<Choice> choices) {
        return choices.begin()[below(choices.size())];
    }

    // Never the number of a real worker: a peer that takes another worker's place is answered in its place.
    std::uint64_t number() {
        return any<std::uint64_t>({3, 7, 100, 101, UINT32_MAX, UINT64_MAX, random_() | 8});
    }
    Clock clock() { return below(4) == 0 ? number() : below(12); }
    Worker worker() { return static_cast<Worker>(below(4) == 0 ? number() : 100 + below(3)); }

    void come(Peer& peer) {
        Json note = this->note();
        note["say"] = "reserve";
        note["number"] = 100;
        peer.say(note);
        const auto reserved = peer.note("reserved");
        if (!reserved) return;
        note["say"] = "join";
        note["first"] = reserved->at("first");
        peer.say(note);
        if (const auto told = peer.announcement(Layout(job_, 1).chunks())) now_ = told->epoch;
    }

    Json note() {
        Json note{{"say", any<const char*>({"reserve", "reserve", "join", "join", "resume", "goodbye",
                                            "flush", "checkpoint", "stats", "open", "serve", "leaving",
                                            "child", "child", "places", "servers", "begin", "give_weights"})},
                  {"number", number_},
                  {"at", "127.0.0.1:9"},
                  {"process", any<const char*>({"a", "b", ""})},
                  {"rack", any<const char*>({"even", "odd", ""})},
                  {"has_weights", below(2) == 0},
                  {"first", clock()},
                  {"covered", clock()},
                  {"incarnation", below(2)},
                  {"members", {{number_, clock()}, {worker(), clock()}}},
                  {"departed", {{worker(), clock(), clock()}}},
                  {"seen", clock()},
                  {"pushed", clock()},
                  {"clock", clock()},
                  {"job", encode(job_)},
                  {"run", run_},
                  {"is_restored", below(2) == 0},
                  {"server", below(3)}};
        if (note.at("say") == "serve") note["index"] = 1 + below(3);
        return note;
    }

    Json mutated(Json note) {
        if (below(3) != 0) return note;
        std::vector<std::string> keys;
        for (const auto& [key, value] : note.items()) keys.push_back(key);
        const std::string& key = keys[below(keys.size())];
        if (below(2) == 0)
            note.erase(key);
        else
            note[key] = any<Json>({Json(), Json(number()), Json(-1), Json(0.5), Json("x"), Json::array(),
                                   Json::object(), Json(true)});
        return note;
    }

    Epoch epoch() {
        const Epoch other{static_cast<std::uint32_t>(below(2)), static_cast<std::uint32_t>(number())};
        return below(4) == 0 ? other
                             : Epoch{now_.incarnation, now_.number + static_cast<std::uint32_t>(below(20))};
    }

    void say_message(Peer& peer) {
        const Layout layout(job_, 1);
        const auto chunk = static_cast<Chunk>(below(layout.chunks() + (below(8) == 0 ? 2 : 0)));
        std::vector<Worker> workers{static_cast<Worker>(number_)};
        if (below(3) == 0) workers.push_back(worker());
        const std::vector<Clock> clocks(layout.chunks() - (below(8) == 0 ? 1 : 0), clock());
        const auto bytes =
            static_cast<std::size_t>(chunk < layout.chunks() ? layout.place(chunk).bytes() : 8);
        const std::string value(below(8) == 0 ? below(bytes) : bytes, '\0');
        const auto elements =
            any<Peer::Elements>({Peer::Elements::none, Peer::Elements::dense, Peer::Elements::sparse});
        const bool has_value = elements != Peer::Elements::none;
        switch (below(8)) {
            case 0:
                return peer.say(Announcement{epoch(), {{worker(), the_server, clock()}}, clocks});
            case 1:
                return peer.say(Covered{epoch(), clock()});
            case 2:
                return peer.say(ParentLost{epoch()});
            case 3:
                return peer.say(Weights{epoch(), chunk, clock(), nullptr}, has_value ? value : "", elements);
            case 4:
            case 5:
                return peer.say(Want{epoch(), chunk, clock()});
            default:
                return peer.say(Sum{epoch(), chunk, clock(), workers, nullptr}, has_value ? value : "",
                                elements);
        }
    }

    void noise(Peer& peer) {
        std::string bytes(1 + below(64), '\0');
        for (char& byte : bytes) byte = static_cast<char>(below(2) == 0 ? random_() : below(5));
        switch (below(3)) {
            case 0:
                return peer.bytes(bytes);
            case 1:
                return peer.frame(static_cast<std::uint8_t>(1 + below(4)), bytes);
            default:
                return peer.raw(
                    {.kind = static_cast<std::uint8_t>(1 + below(4)),
                     .elements = static_cast<std::uint8_t>(below(3)),
                     .is_lent = static_cast<std::uint8_t>(below(2)),
                     .body_bytes = static_cast<std::uint32_t>(below(2) == 0 ? bytes.size() : random_()),
                     .value_bytes = number(),
                     .place = number(),
                     .number = number()},
                    bytes);
        }
    }

    std::mt19937_64 random_;
    const Job job_;
    const std::string run_;
    Epoch now_;
    const std::uint64_t number_;
};

// HOCKET_PARAMS_FUZZ: the number of connections.
std::uint64_t connections() {
    const char* const said = std::getenv("HOCKET_PARAMS_FUZZ");
    return said ? std::strtoull(said, nullptr, 10) : 300;
}

}  // namespace

TEST_CASE("whatever is said to servers and workers, those who work go on") {
    const auto servers = start_servers(1, [](ServerOptions& options) { options.terms.death = 5ms; });
    Job job = small_job(3);
    job.tree = GENERATE("direct", "degree 1");
    job.staleness = 2;
    Team team(*servers[0], job);
    Peer visitor(servers[0]->endpoint());
    visitor.say({{"say", "open"}, {"job", encode(job)}, {"has_weights", false}});
    const std::string run = visitor.note("opened").value().at("run");
    for (std::uint64_t seed = 0; seed < connections() / 2; ++seed) {
        INFO("seed " << seed << ", tree " << job.tree);
        const Json stats = Json::parse(servers[0]->stats());
        std::vector<transport::Endpoint> places(3, servers[0]->endpoint());
        for (const Json& worker : stats.at("workers"))
            if (worker.at("number") < 3)
                places.push_back(transport::Endpoint::parse(worker.at("at").get<std::string>()).value());
        Stranger stranger(seed, job, run, {0, stats.at("epochs").get<std::uint32_t>()});
        Peer peer(places[seed % places.size()]);
        stranger.talk(peer);
        peer.close();
        if (seed % 4 == 0) team.agree();
    }
}
