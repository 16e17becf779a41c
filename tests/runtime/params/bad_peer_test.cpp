// Processes that know the secret, and send messages that no correct process sends. They must not disturb
// correct processes, and break only their own connections.
#include <catch2/catch.hpp>

#include <algorithm>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/params/protocol/wire.hpp"
#include "runtime/transport/net/listening.hpp"
#include "tests/runtime/params/notes.hpp"
#include "tests/runtime/params/peer.hpp"
#include "tests/runtime/params/training.hpp"
#include "tests/support/long_form.hpp"

using namespace hocket;
using namespace hocket::params;
using namespace hocket::test;
using namespace std::chrono_literals;
using Json = nlohmann::json;
using Catch::Contains;

namespace {

Json reserved_note(Json first, Json kept_rounds) {
    return {{"say", "reserved"},   {"first", first}, {"kept_rounds", kept_rounds},
            {"is_accepted", true}, {"round", 0},     {"whole_rounds", Json::array()}};
}

Json with(Json note, const char* key, const Json& value) {
    note[key] = value;
    return note;
}

Json without(Json note, const char* key) {
    note.erase(key);
    return note;
}

// w = w + g, for any rounds; or without room for it.
class Summing final : public Calculator {
  public:
    enum class Lacks { nothing, room_for_sums, room_for_round_3 };
    explicit Summing(Lacks lacks) : lacks_(lacks) {}
    void sum(DataType type, std::span<const std::byte* const> parts, std::uint64_t count,
             std::byte* to) const override {
        if (lacks_ == Lacks::room_for_sums) throw Error(Status::out_of_memory, "there is no room for a sum");
        kernels::combine(type, ReduceOp::sum, {{to}}, parts, count);
    }
    std::size_t states() const override { return 0; }
    std::uint64_t state_bytes(DataType) const override { return 0; }
    void update(DataType type, std::span<const std::byte* const> before, const std::byte* gradient,
                std::uint64_t count, std::span<const std::uint64_t>, Round round,
                std::span<std::byte* const> after) const override {
        if (lacks_ == Lacks::room_for_round_3 && round.number == 3)
            throw Error(Status::out_of_memory, "there is no room for an update");
        const std::byte* const operands[] = {before[0], gradient};
        kernels::combine(type, ReduceOp::sum, after, operands, count);
    }

  private:
    const Lacks lacks_;
};

MakeCalculator summing(Summing::Lacks lacks = Summing::Lacks::nothing) {
    return [lacks](const Job&) { return std::make_shared<Summing>(lacks); };
}

// The server removes a worker as soon as its connection has ended.
void forget_quickly(ServerOptions& options) {
    options.terms.death = 10ms;
}

// Of notes that are very long.
const int very_many = in_long_form(1 << 20, 1 << 17);

// Input that is no message, neither to a server nor to a worker.
using Script = std::function<void(Peer&)>;
std::map<std::string, Script> nonsense() {
    return {
        {"no kind", [](Peer& peer) { peer.raw({.kind = 0}); }},
        {"an unknown kind", [](Peer& peer) { peer.raw({.kind = 9, .body_bytes = 1}, "x"); }},
        {"an empty note", [](Peer& peer) { peer.raw({.kind = 1}); }},
        {"a note that is no JSON", [](Peer& peer) { peer.text("{\"say\": \"ope"); }},
        {"a note that is no text", [](Peer& peer) { peer.text("{\"say\": \"\xff\xfe\"}"); }},
        {"a number", [](Peer& peer) { peer.text("7"); }},
        {"a list", [](Peer& peer) { peer.text("[\"say\"]"); }},
        {"a deep list", [](Peer& peer) { peer.text(std::string(very_many, '[')); }},
        {"no say",
         [](Peer& peer) {
             peer.say({{"at", "127.0.0.1:9"}});
         }},
        {"a say that is no text",
         [](Peer& peer) {
             peer.say({{"say", 7}});
         }},
        {"an unknown say",
         [](Peer& peer) {
             peer.say({{"say", "so"}});
         }},
        {"memory without a name",
         [](Peer& peer) {
             peer.say({{"memory", "offered"}});
         }},
        {"a note of very many values",
         [](Peer& peer) {
             std::string text = "{\"say\": [0";
             for (int i = 0; i < very_many; ++i) text += ",0";
             peer.text(text + "]}");
         }},
        {"a note that is too long", [](Peer& peer) { peer.raw({.kind = 1, .body_bytes = UINT32_MAX}); }},
        {"a message that is cut off", [](Peer& peer) { peer.frame(2, "abc"); }},
        {"an unknown message", [](Peer& peer) { peer.frame(2, std::string(12, '\x7f')); }},
        {"a sum",
         [](Peer& peer) {
             peer.say(Sum{{0, 1}, 0, 0, {0}, nullptr});
         }},
        {"weights",
         [](Peer& peer) {
             peer.say(Weights{{0, 1}, 0, 0, nullptr});
         }},
        {"an announcement",
         [](Peer& peer) {
             peer.say(Announcement{{0, 1 << 20}, {{0, the_server, 0}}, {}});
         }},
    };
}

// Input that does no harm: offers of memory that does not exist, which are not taken, and connections that
// end early.
std::map<std::string, Script> harmless() {
    return {
        {"nothing", [](Peer&) {}},
        {"a heartbeat", [](Peer& peer) { peer.raw({.kind = 3}); }},
        {"what was not lent", [](Peer& peer) { peer.raw({.kind = 4, .number = 12}); }},
        {"half a header", [](Peer& peer) { peer.bytes("\x01\x00"); }},
        {"half a note", [](Peer& peer) { peer.raw({.kind = 1, .body_bytes = 64 << 20}, "{"); }},
        {"others' memory",
         [](Peer& peer) {
             peer.say({{"memory", "offered"},
                       {"process", 1},
                       {"descriptor", 0},
                       {"bytes", UINT64_MAX},
                       {"token", 0},
                       {"lease_place", UINT64_MAX},
                       {"lease", 0}});
         }},
        {"memory is taken",
         [](Peer& peer) {
             peer.say({{"memory", "taken"}});
         }},
    };
}

// Messages of bad workers, to a server.
std::map<std::string, Script> bad_workers(const std::string& run = "") {
    std::map<std::string, Script> scripts;
    const auto add = [&](const std::string& name, const std::vector<Json>& notes) {
        scripts.emplace(name, [notes](Peer& peer) {
            for (const Json& note : notes) peer.say(note);
        });
    };
    for (const char* key : {"number", "at", "rack", "has_weights"})
        add(std::string("reserves without ") + key, {without(reserve_note(stranger, run), key)});
    for (const Json& number : {Json(-1), Json("0"), Json(1.5), Json(UINT32_MAX), Json(UINT32_MAX - 1),
                               Json(std::uint64_t{1} << 32), Json(UINT64_MAX), Json()})
        add("reserves as " + number.dump(), {reserve_note(number, run)});
    add("reserves at no place", {with(reserve_note(stranger, run), "at", "nowhere")});
    add("reserves in a long rack", {with(reserve_note(stranger, run), "rack", std::string(1 << 20, 'x'))});
    add("is of another run", {reserve_note(0, "another")});
    for (const Json& server : std::vector<Json>{1, -1, "0", UINT64_MAX}) {
        add("reserves at server " + server.dump(), {with(reserve_note(stranger, run), "server", server)});
        add("resumes at server " + server.dump(), {with(resume_note(run), "server", server)});
    }
    add("is two workers", {reserve_note(stranger, run), reserve_note(stranger + 1, run)});
    add("is another worker when it resumes",
        {reserve_note(stranger, run), with(resume_note(run), "number", stranger + 1)});
    add("joins without a number", {join_note(0)});
    for (const Json& first : {Json(-1), Json(UINT64_MAX), Json(std::uint64_t{1} << 59), Json("0"), Json(0)})
        add("joins at " + first.dump(), {reserve_note(stranger, run), join_note(first)});
    const Json resume = resume_note(run);
    for (const auto& [key, value] : resume.items())
        if (key != "say") add("resumes without " + key, {without(resume_note(run), key.c_str())});
    add("resumes with others that cannot be", {with(resume_note(run), "members", {{1, 2}, {-1, 3}})});
    add("resumes with departed that cannot be", {with(resume_note(run), "departed", {{1, 2}, {-1, 2, 3}})});
    add("leaves after a round that cannot be",
        {reserve_note(stranger, run), {{"say", "flush"}, {"clock", -1}}});
    add("leaves before it has said who it is", {{{"say", "flush"}, {"clock", 0}}});
    const Json padded{{"say", "flush"}, {"clock", 0}, {"pad", std::string(60'000, 'x')}};
    add("says much", [&] {
        std::vector<Json> notes(400, padded);
        notes.insert(notes.begin(), reserve_note(stranger, run));
        return notes;
    }());
    add("asks for a checkpoint before it has said who it is", {{{"say", "checkpoint"}}});
    add("opens without a job", {{{"say", "open"}, {"has_weights", false}}});
    add("opens what is no job", {{{"say", "open"}, {"job", "{}"}, {"has_weights", false}}});
    add("opens for too many chunks", [] {
        Json job = Json::parse(encode(small_job(1)));
        job["tensors"][0][2] = std::uint64_t{1} << 39;
        return std::vector<Json>{{{"say", "open"}, {"job", job.dump()}, {"has_weights", false}}};
    }());
    add("serves nowhere",
        {{{"say", "serve"}, {"at", "x"}, {"rack", ""}, {"process", "p"}, {"is_restored", false}}});
    add("serves as a server that cannot be", {{{"say", "serve"},
                                               {"at", "127.0.0.1:9"},
                                               {"rack", ""},
                                               {"process", "p"},
                                               {"is_restored", true},
                                               {"index", UINT64_MAX}}});
    add("serves in a rack whose name is too long", {{{"say", "serve"},
                                                     {"at", "127.0.0.1:9"},
                                                     {"rack", std::string(2000, 'r')},
                                                     {"process", "p"},
                                                     {"is_restored", false}}});
    add("leaves, and is no server", {{{"say", "leaving"}}});
    add("goes before it has come", {{{"say", "goodbye"}}});
    add("asks for the state as a worker", {reserve_note(stranger, run), {{"say", "stats"}}});
    scripts.emplace("a sum without elements that has some", [run](Peer& peer) {
        peer.say(reserve_note(stranger, run));
        peer.say(Want{{0, 1}, 0, 0}, "12345678", Peer::Elements::dense);
    });
    scripts.emplace("lends what it did not offer", [run](Peer& peer) {
        peer.say(reserve_note(stranger, run));
        const std::string body(24, '\0');
        peer.raw({.kind = 2, .elements = 1, .is_lent = 1, .body_bytes = 24, .value_bytes = 4096}, body);
    });
    return scripts;
}

// Runs each script, closes its connection, and then runs `work`.
void run_and_leave(const std::map<std::string, Script>& scripts, const transport::Endpoint& to,
                   const std::function<void()>& work) {
    for (const auto& [name, script] : scripts) {
        INFO(name);
        Peer peer(to);
        script(peer);
        peer.close();
        work();
    }
}

// Runs each script, expects that the other side closes the connection, and then runs `work`.
void run_and_be_closed(const std::map<std::string, Script>& scripts, const transport::Endpoint& to,
                       const std::function<void()>& work) {
    for (const auto& [name, script] : scripts) {
        INFO(name);
        Peer peer(to);
        script(peer);
        CHECK(peer.is_closed());
        work();
    }
}

// The name of the job's run, which ends with its servers.
std::string run_of(const Server& server, const Job& job) {
    Peer peer(server.endpoint());
    peer.say(open_note(job));
    return peer.note("opened").value().at("run");
}

transport::Endpoint place_of_worker(const Server& server, Worker number) {
    const Json stats = Json::parse(server.stats());
    for (const Json& worker : stats.at("workers"))
        if (worker.at("number") == number)
            return transport::Endpoint::parse(worker.at("at").get<std::string>()).value();
    throw std::runtime_error("no such worker");
}

std::string dense(const Job& job, Chunk chunk) {
    return std::string(Layout(job, 1).place(chunk).bytes(), '\1');
}

}  // namespace

TEST_CASE("a server lives with workers that say what none says, while others train") {
    const auto servers = start_servers(1, forget_quickly);
    Team team(*servers[0], small_job(2));
    const auto train = [&] { team.train(); };
    run_and_be_closed(nonsense(), servers[0]->endpoint(), train);
    run_and_be_closed(bad_workers(run_of(*servers[0], small_job(2))), servers[0]->endpoint(), train);
    run_and_leave(harmless(), servers[0]->endpoint(), train);
}

TEST_CASE("a worker may push as far ahead as it may keep updates, and no further") {
    const auto servers = start_servers(1, [](ServerOptions& options) { options.checkpoints.every = 3; });
    const Job job = small_job(1);
    Peer peer(servers[0]->endpoint());
    peer.say(open_note(job));
    const Json opened = peer.note("opened").value();
    peer.say(reserve_note(opened.at("number").get<Worker>(), opened.at("run")));
    peer.say(join_note(peer.note("reserved").value().at("first")));
    const Worker number = opened.at("number");
    const Epoch now = peer.announcement(Layout(job, 1).chunks()).value().epoch;
    // A worker may keep 2 rounds and two intervals, be that far ahead of the covered round, and that of
    // others.
    constexpr Clock furthest = 2 * (2 + 2 * 3) + 1;
    peer.say(Sum{now, 0, furthest, {number}, nullptr});
    const auto pushed = [&] { return Json::parse(servers[0]->stats()).at("workers").at(0).at("pushed"); };
    const auto until = transport::Clock::now() + 100s;
    while (pushed() != furthest + 1 && transport::Clock::now() < until) std::this_thread::sleep_for(1ms);
    CHECK(pushed() == furthest + 1);
    peer.say(Sum{now, 0, furthest + 1, {number}, nullptr});
    CHECK(peer.is_closed());
}

TEST_CASE("a server lives with workers that say what none says before the job has begun") {
    const auto servers = start_servers(2, forget_quickly);
    std::list<Peer> peers;  // that stay; messages that come too early are read when the job begins
    for (const auto& scripts : {nonsense(), bad_workers(), harmless()})
        for (const auto& [name, script] : scripts)
            for (const auto& server : servers) script(peers.emplace_back(server->endpoint()));
    // The second note on a connection that the first one has ended.
    for (const auto& server : servers) {
        Peer& peer = peers.emplace_back(server->endpoint());
        for (const Json& note : {without(reserve_note(), "rack"), reserve_note()}) peer.say(note);
    }
    for (Peer& peer : peers) peer.take_in();
    {
        Peer& flood = peers.emplace_back(servers[1]->endpoint());
        for (int i = 0; i < 100; ++i) flood.say(reserve_note(i));
        CHECK(flood.is_closed());
    }
    const Job job = small_job(2);
    {
        Peer& twice = peers.emplace_back(servers[0]->endpoint());
        for (int i = 0; i < 2; ++i) twice.say(open_note(job));
        CHECK(twice.is_closed());
        Peer& curious = peers.emplace_back(servers[0]->endpoint());
        curious.say(open_note(job));
        curious.say({{"say", "stats"}});
        CHECK(curious.note("stats"));
    }
    while (!peers.empty()) peers.pop_front();
    Team team(*servers[0], job);
    for (int round = 0; round < 3; ++round) team.train();
}

TEST_CASE("a server waits for the first weights, whatever others say meanwhile") {
    const auto servers = start_servers(1, [](ServerOptions& options) {
        forget_quickly(options);
        options.make_calculator = summing();
    });
    const transport::Endpoint at = servers[0]->endpoint();
    const Job job = small_job(1);
    Peer founder(at);
    founder.say(with(open_note(job), "has_weights", true));
    const auto opened = founder.note("opened");
    REQUIRE(opened);
    const std::string run = opened->at("run");
    const auto nothing = [] {};
    run_and_be_closed(nonsense(), at, nothing);
    run_and_leave(bad_workers(run), at, nothing);
    run_and_be_closed({{"asks for a checkpoint",
                        [&](Peer& peer) {
                            peer.say(reserve_note(stranger, run));
                            peer.say({{"say", "checkpoint"}});
                        }},
                       {"gives weights unasked",
                        [&](Peer& peer) {
                            peer.say(reserve_note(stranger, run));
                            peer.say(Weights{{}, 0, 0, nullptr}, dense(job, 0), Peer::Elements::dense);
                        }},
                       {"pushes",
                        [&](Peer& peer) {
                            peer.say(reserve_note(stranger, run));
                            peer.say(Sum{{0, 1}, 0, 0, {stranger}, nullptr});
                        }}},
                      at, nothing);
    founder.say(reserve_note(0, run));
    founder.close();
    Buffers zeros;
    const auto pointers = zeros.pointers();
    Team team(*servers[0], job, [&](WorkerOptions& options) {
        options.first_weights = {pointers.begin(), pointers.end()};
    });
    for (int round = 0; round < 3; ++round) team.train();
}

TEST_CASE("all servers ask one worker for the first weights, in whatever order workers come to them") {
    std::mt19937 random(20261201);
    for (int i = 0; i < 8; ++i) {
        const auto servers = start_servers(2, forget_quickly);
        const Job job = small_job(3);
        std::vector<Worker> numbers = {0, 1, 2};
        const Worker giver = static_cast<Worker>(random() % 3);
        const auto has_weights = [&](Worker number) { return number >= giver; };
        std::list<Peer> founders;
        for (const Worker number : numbers)
            founders.emplace_back(servers[0]->endpoint())
                .say(with(with(open_note(job), "number", number), "has_weights", has_weights(number)));
        const std::string run = founders.front().note("opened").value().at("run");
        std::list<Peer> peers;
        for (std::size_t server = 0; server < 2; ++server) {
            std::shuffle(numbers.begin(), numbers.end(), random);
            INFO("server " << server << ", giver " << giver << ", order " << Json(numbers).dump());
            Peer* asked = nullptr;
            for (const Worker number : numbers) {
                Peer& peer = peers.emplace_back(servers[server]->endpoint());
                peer.say(with(with(reserve_note(number, run), "server", server), "has_weights",
                              has_weights(number)));
                REQUIRE(peer.note("terms"));  // the server knows it
                if (number == giver) asked = &peer;
            }
            CHECK(Json::parse(servers[server]->stats()).at("waits_for") ==
                  "worker " + std::to_string(giver) + " has not sent all of the first weights");
            CHECK(asked->note("give_weights"));
        }
    }
}

TEST_CASE("no first weights stay of a worker that is gone before a server has all of them") {
    std::mt19937 random(20261201);
    const Job job = small_job(2);
    const std::size_t chunks = Layout(job, 1).chunks();
    for (int i = 0; i < 4; ++i) {
        const auto servers = start_servers(1, forget_quickly);
        Peer dying(servers[0]->endpoint());
        dying.say(with(with(open_note(job), "number", 0), "has_weights", true));
        Buffers given, pulled;
        given.fill(1000);
        std::unique_ptr<Client> staying;
        std::string error;
        std::thread thread([&] {
            try {
                WorkerOptions options = worker_options(servers[0]->endpoint(), job);
                options.number = 1;
                const auto pointers = given.pointers();
                options.first_weights = {pointers.begin(), pointers.end()};
                staying = std::make_unique<Client>(std::move(options));
            } catch (const std::exception& caught) {
                error = caught.what();
            }
        });
        const auto opened = dying.note("opened");
        if (opened) {
            dying.say(with(reserve_note(0, opened->at("run")), "has_weights", true));
            dying.note("give_weights");
            for (std::size_t left = 1 + random() % (chunks - 1); left > 0; --left) {
                const auto chunk = static_cast<Chunk>(random() % chunks);
                dying.say(Weights{{}, chunk, 0, nullptr}, dense(job, chunk), Peer::Elements::dense);
            }
        }
        dying.close();
        thread.join();
        CHECK(opened);
        REQUIRE(error == "");
        pull(*staying, pulled, 0);
        CHECK((pulled.a == given.a && pulled.b == given.b && pulled.c == given.c));
    }
}

TEST_CASE("a worker lives with others that say what none below it says") {
    const auto servers = start_servers(1, forget_quickly);
    Job job = small_job(3);
    job.tree = "degree 1";
    Team team(*servers[0], job);
    const auto train = [&] { team.train(); };
    train();
    const Epoch now{0, Json::parse(servers[0]->stats()).at("epochs").get<std::uint32_t>()};
    const Epoch later{0, now.number + 100};
    Worker host = 0;  // that peers talk to
    const auto child_note = [&host](const Json& number = stranger, const Json& server = 0) {
        return Json{{"say", "child"}, {"number", number}, {"server", server}, {"parent", host}};
    };
    std::map<std::string, Script> scripts;
    for (const Json& note : {without(child_note(), "number"), without(child_note(), "server"), child_note(-1),
                             child_note(UINT32_MAX), child_note(std::uint64_t{1} << 32), child_note("0"),
                             child_note(0, 1), child_note(0, UINT64_MAX)})
        scripts.emplace(note.dump(), [note, &host](Peer& peer) { peer.say(with(note, "parent", host)); });
    for (const Json& parent : std::vector<Json>{-1, "0", 76, UINT64_MAX})
        scripts.emplace("is a child of " + parent.dump(),
                        [=](Peer& peer) { peer.say(with(child_note(), "parent", parent)); });
    scripts.emplace("is nobody's child", [=](Peer& peer) { peer.say(without(child_note(), "parent")); });
    scripts.emplace("is another's child",
                    [=, &host](Peer& peer) { peer.say(with(child_note(), "parent", (host + 1) % 3)); });
    const auto add = [&](const std::string& name, const Message& message, const std::string& value = "",
                         Peer::Elements elements = Peer::Elements::none) {
        scripts.emplace(name, [=](Peer& peer) {
            peer.say(child_note());
            peer.say(message, value, elements);
        });
    };
    const std::vector<Clock> clocks(Layout(job, 1).chunks());
    add("announces",
        Announcement{later, {{0, the_server, 0}, {1, the_server, 0}, {2, the_server, 0}}, clocks});
    add("covers", Covered{now, 1000});
    add("gives weights", Weights{now, 0, 1000, nullptr}, dense(job, 0), Peer::Elements::dense);
    add("has lost it", ParentLost{now});
    add("pushes what is far away", Sum{now, 0, 1000, {stranger}, nullptr});
    add("pulls what is far away", Want{now, 0, 100000});
    add("pushes a round that nobody gets to", Sum{now, 0, UINT64_MAX, {stranger}, nullptr});
    add("pushes too little", Sum{now, 0, 0, {stranger}, nullptr}, "123", Peer::Elements::dense);
    scripts.emplace("talks", [&](Peer& peer) {
        for (int i = 0; i < 2; ++i) peer.say(child_note());
    });
    scripts.emplace("floods", [&](Peer& peer) {
        peer.say(child_note());
        for (int i = 0; i < 100000; ++i) peer.say(Sum{later, 0, 0, {stranger}, nullptr});
    });
    scripts.erase(child_note(0, 1).dump());  // see below
    for (Worker number = 0; number < 3; ++number) {
        const transport::Endpoint at = place_of_worker(*servers[0], number);
        host = number;
        run_and_be_closed(nonsense(), at, train);
        run_and_be_closed(scripts, at, train);
        run_and_be_closed({{"itself", [&](Peer& peer) { peer.say(child_note(number)); }},
                           {"of another server", [&](Peer& peer) { peer.say(child_note(stranger, 1)); }}},
                          at, train);
        run_and_leave(harmless(), at, train);
        // A peer that claims another worker's number keeps the place until that worker learns of it.
        run_and_leave({{"another", [&](Peer& peer) { peer.say(child_note((number + 1) % 3)); }}}, at, train);
    }
}

TEST_CASE("a worker of another run of the job is refused, also before it has joined") {
    const auto servers = start_servers(1, forget_quickly);
    Team team(*servers[0], small_job(2));
    for (const Json& note : {reserve_note(0, "another"), resume_note("another")}) {
        Peer peer(servers[0]->endpoint());
        peer.say(note);
        const auto answer = peer.note();
        REQUIRE(answer);
        CHECK(answer->at("say") == "refused");
    }
    for (int round = 0; round < 3; ++round) team.train();
}

TEST_CASE("a server does not go on reading from who does not read its answers") {
    const auto servers = start_servers(1, forget_quickly);
    Team team(*servers[0], small_job(2));
    const Json note = reserve_note(stranger, run_of(*servers[0], small_job(2)));
    {
        Peer peer(servers[0]->endpoint());
        bool is_heard = true;
        for (int i = 0; i < 300000 && is_heard; ++i) is_heard = peer.can_say(note);
        CHECK_FALSE(is_heard);
    }
    for (int round = 0; round < 3; ++round) team.train();
}

// ---- Bad servers -----------------------------------------------------------------------------------------

namespace {

struct Listener {
    transport::Socket socket = transport::listen_on({"127.0.0.1", 0}, transport::Clock::now() + 10s, "");
    transport::Endpoint at = transport::bound_to(socket).value();
    Peer next() const { return Peer(socket.fd()); }
};

// A worker of a bad server, on a thread of its own while it joins.
class Victim {
  public:
    explicit Victim(const transport::Endpoint& server, Job job = small_job(1),
                    std::chrono::milliseconds timeout = 20s)
        : thread_([this, server, job, timeout] {
              WorkerOptions options = worker_options(server, job);
              options.timeout = timeout;
              try {
                  client_ = std::make_unique<Client>(std::move(options));
              } catch (const Error& error) {
                  error_ = error.what();
              }
          }) {}
    ~Victim() {
        if (thread_.joinable()) thread_.join();
    }
    // The reason why it could not join; "": it has joined.
    std::string error() {
        if (thread_.joinable()) thread_.join();
        return error_;
    }
    Client& client() { return *client_; }

  private:
    std::unique_ptr<Client> client_;
    std::string error_;
    std::thread thread_;
};

// Sends all messages of a server until a worker takes part.
void bring_in(Peer& peer, const Listener& server, const Job& job) {
    REQUIRE(peer.note("open"));
    peer.say({{"say", "opened"}, {"number", 0}, {"run", "r"}, {"servers", {server.at.text()}}});
    REQUIRE(peer.note("reserve"));
    peer.say(reserved_note(0, 0));
    REQUIRE(peer.note("join"));
    const std::vector<Clock> clocks(Layout(job, 1).chunks());
    peer.say(Announcement{{1, 1}, {{0, the_server, 0}}, clocks});
}

}  // namespace

TEST_CASE("a worker gives a server up that says what none says when it comes") {
    const Listener server;
    const Json opened{{"say", "opened"}, {"number", 0}, {"run", "r"}, {"servers", {server.at.text()}}};
    std::map<std::string, Script> scripts = nonsense();
    const std::vector<Json> notes = {
        without(opened, "number"),
        without(opened, "run"),
        without(opened, "servers"),
        with(opened, "number", -1),
        with(opened, "number", UINT32_MAX),
        with(opened, "servers", Json::array()),
        with(opened, "servers", {"x"}),
        with(opened, "servers", {7}),
        with(opened, "servers", std::vector<std::string>(1000, server.at.text())),
        {{"say", "refused"}},
        {{"say", "refused"}, {"why", "no"}},
        {{"say", "child"}, {"number", 1}, {"server", 0}}};
    for (const Json& note : notes) scripts.emplace(note.dump(), [note](Peer& peer) { peer.say(note); });
    for (const auto& [name, script] : scripts) {
        INFO(name);
        Victim victim(server.at);
        Peer peer = server.next();
        REQUIRE(peer.note("open"));
        script(peer);
        CHECK(peer.is_closed());
        CHECK(victim.error() != "");
    }
}

TEST_CASE("a worker ends a connection on which its server says what none says, and makes another one") {
    const Listener server;
    Job job = small_job(1);
    job.staleness = GENERATE(Staleness(0), Staleness());
    const std::vector<Clock> clocks(Layout(job, 1).chunks());
    const Epoch epoch{1, 1};
    std::map<std::string, Script> scripts = nonsense();
    scripts.erase("an announcement");  // of no chunks; there are some here
    const std::vector<Json> notes = {{{"say", "give_weights"}},
                                     {{"say", "places"}},
                                     {{"say", "places"}, {"at", {{0}}}},
                                     {{"say", "places"}, {"at", {{-1, "x"}}}},
                                     {{"say", "servers"}, {"at", {"x"}}},
                                     reserved_note(-1, 0),
                                     reserved_note(0, UINT64_MAX),
                                     {{"say", "checkpointed"}},
                                     {{"say", "opened"}}};
    for (const Json& note : notes) scripts.emplace(note.dump(), [note](Peer& peer) { peer.say(note); });
    const auto add = [&](const std::string& name, const Message& message, const std::string& value = "",
                         Peer::Elements elements = Peer::Elements::none) {
        scripts.emplace(name, [=](Peer& peer) { peer.say(message, value, elements); });
    };
    add("weights without elements", Weights{epoch, 0, 1, nullptr});
    add("sparse weights", Weights{epoch, 0, 1, nullptr}, std::string(12, '\0'), Peer::Elements::sparse);
    add("too few weights", Weights{epoch, 0, 1, nullptr}, "12345678", Peer::Elements::dense);
    add("weights of no chunk", Weights{epoch, 1000, 1, nullptr}, dense(job, 0), Peer::Elements::dense);
    add("a push", Sum{epoch, 0, 0, {0}, nullptr});
    add("a pull", Want{epoch, 0, 0});
    add("a lost parent", ParentLost{epoch});
    add("no tree", Announcement{{1, 2}, {{0, 1, 0}, {1, 0, 0}}, clocks});
    add("too few clocks", Announcement{{1, 2}, {{0, the_server, 0}}, {0}});
    for (const auto& [name, script] : scripts) {
        INFO(name);
        Victim victim(server.at, job);
        Peer peer = server.next();
        bring_in(peer, server, job);
        REQUIRE(victim.error() == "");
        script(peer);
        CHECK(peer.is_closed());
        Peer again = server.next();
        CHECK(again.note("resume"));
    }
}

TEST_CASE("weights that were not lent any more when they were read are asked for again") {
    const Listener server;
    Job job;
    job.tensors = {{"a", DataType::int64, 512}};
    job.chunk_bytes = 4096;
    const auto weights_of = [](std::int64_t value) { return std::vector<std::int64_t>(512, value); };
    const std::vector<std::int64_t> wrong = weights_of(7), right = weights_of(9);
    Victim victim(server.at, job);
    Peer first = server.next();
    bring_in(first, server, job);
    REQUIRE(victim.error() == "");
    std::vector<std::int64_t> got(512);
    const std::vector<std::byte*> places = {reinterpret_cast<std::byte*>(got.data())};
    ParameterRequest* const request = victim.client().pull(0, places, 0);

    const auto memory = Memory::make();
    const Block block = memory->allocate(4096);
    std::memcpy(block.get(), wrong.data(), 4096);
    auto lease = std::make_optional<Memory::Lease>(*memory);
    REQUIRE(first.lend(*memory, *lease));
    lease.reset();
    const std::string body = encode(Weights{{1, 1}, 0, 0, nullptr});
    first.raw({.kind = 2,
               .elements = 1,
               .is_lent = 1,
               .body_bytes = static_cast<std::uint32_t>(body.size()),
               .value_bytes = 4096,
               .place = memory->offset_of(block.get()),
               .number = 1},
              body);
    CHECK(first.is_closed());
    CHECK_FALSE(victim.client().wait(request, transport::Clock::now()));

    Peer second = server.next();
    REQUIRE(second.note("resume"));
    second.say(Announcement{{1, 2}, {{0, the_server, 0}}, {0}});
    second.say(Weights{{1, 2}, 0, 0, nullptr}, {reinterpret_cast<const char*>(right.data()), 4096},
               Peer::Elements::dense);
    REQUIRE(victim.client().wait(request, transport::Clock::now() + 20s));
    CHECK(got == right);
}

TEST_CASE("a worker that has first weights gives them once, and as long as it comes") {
    const Listener server;
    const Job job = small_job(1);
    Buffers buffers;
    const auto pointers = buffers.pointers();
    const auto come = [&](std::unique_ptr<Client>& client) {
        WorkerOptions options = worker_options(server.at, job);
        options.first_weights = {pointers.begin(), pointers.end()};
        client = std::make_unique<Client>(std::move(options));
    };
    std::unique_ptr<Client> client;
    std::thread thread([&] { come(client); });
    Peer peer = server.next();
    bring_in(peer, server, job);
    thread.join();
    peer.say({{"say", "give_weights"}});
    CHECK(peer.is_closed());
    server.next().note("resume");
}

TEST_CASE("a server that begins what cannot be is not believed; a silent first server is called again") {
    const Listener first;
    const auto join_first = [&](ServerOptions& options) {
        options.join = first.at;
        options.terms.silence = 300ms;
    };
    const auto servers = start_servers(1, join_first);
    const Job job = small_job(1);
    const auto begin = [&](std::uint64_t count, const Json& founders) {
        return Json{{"say", "begin"}, {"job", encode(job)},   {"servers", count},        {"all_servers", 2},
                    {"run", "r"},     {"founders", founders}, {"givers", Json::array()}, {"every", 1}};
    };
    const auto begin_every = [&](Json rounds) {
        Json note = begin(2, Json::array());
        note["every"] = std::move(rounds);
        return note;
    };
    const Json serving{{"say", "serving"}, {"index", 1}};
    for (const std::vector<Json>& notes :
         std::vector<std::vector<Json>>{{{{"say", "serving"}, {"index", -1}}},
                                        {serving, begin(0, Json::array())},
                                        {serving, begin(1, Json::array())},
                                        {serving, begin(1000, Json::array())},
                                        {serving, begin(2, {-1})},
                                        {serving, with(begin(2, {0}), "givers", {1})},
                                        {serving, with(begin(2, {0}), "givers", {-1})},
                                        {serving, without(begin(2, {0}), "givers")},
                                        {serving, begin_every(0)},
                                        {serving, begin_every(-1)},
                                        {serving, {{"say", "begin"}}}}) {
        Peer peer = first.next();
        REQUIRE(peer.note("serve"));
        for (const Json& note : notes) peer.say(note);
        CHECK(peer.is_closed());
    }
    const Peer silent = first.next();
    CHECK(first.next().note("serve"));
}

TEST_CASE("a server whose connection breaks as the job begins is told again, and no other one is") {
    const auto servers = start_servers(1, [](ServerOptions& options) { options.servers = 2; });
    const auto serve = [](const std::string& process) {
        return Json{{"say", "serve"},
                    {"at", "127.0.0.1:9"},
                    {"rack", "r"},
                    {"process", process},
                    {"is_restored", false}};
    };
    std::optional<Peer> second(std::in_place, servers[0]->endpoint());
    second->say(serve("this one"));
    REQUIRE(second->note("serving"));
    Peer worker(servers[0]->endpoint());
    worker.say(open_note(small_job(1)));
    const auto begun = second->note("begin");
    REQUIRE(begun);
    second.emplace(servers[0]->endpoint());
    second->say(serve("this one"));
    CHECK(second->note("begin") == begun);
    Peer other(servers[0]->endpoint());
    other.say(serve("another one"));
    CHECK(other.note("refused"));
}

TEST_CASE("a server that is refused for its secret says so at once") {
    const auto servers = start_servers(1);
    const auto strangers = start_servers(1, [&](ServerOptions& options) {
        options.join = servers[0]->endpoint();
        options.secret = "another secret";
        options.timeout = 10 * long_enough;
    });
    CHECK_THROWS_WITH(strangers[0]->wait(transport::Clock::now() + long_enough), Contains("wrong secret"));
    CHECK(Json::parse(strangers[0]->stats()).contains("at"));
}

// ---- Own trouble -----------------------------------------------------------------------------------------

TEST_CASE("a server that cannot go on says why, and does not take it for its workers' fault") {
    const auto servers = start_servers(1, [](ServerOptions& options) {
        options.make_calculator = summing(Summing::Lacks::room_for_round_3);
    });
    Team team(*servers[0], small_job(1), [](WorkerOptions& options) { options.timeout = 2s; });
    for (int round = 0; round < 2; ++round) team.train();
    Buffers buffers;
    const auto pointers = buffers.pointers();
    push(team.worker(0), buffers);
    team.worker(0).tick();
    CHECK_THROWS_WITH(
        team.worker(0).wait(team.worker(0).pull(0, pointers, 0), transport::Clock::now() + long_enough),
        Contains("gone"));
    CHECK_THROWS_WITH(servers[0]->wait(transport::Clock::now() + long_enough),
                      Contains("no room for an update"));
}

TEST_CASE("a worker that cannot sum fails itself, and the one below it goes on") {
    const auto servers = start_servers(1, forget_quickly);
    Job job = small_job(2);
    job.tree = "degree 1";
    Team team(*servers[0], job, [](WorkerOptions& options) {
        options.make_calculator = summing(Summing::Lacks::room_for_sums);
    });
    Buffers buffers;
    for (const std::size_t number : {0, 1}) {
        push(team.worker(number), buffers);
        team.worker(number).tick();
    }
    pull(team.worker(1), buffers, 0);
    const auto pointers = buffers.pointers();
    CHECK_THROWS_WITH(
        team.worker(0).wait(team.worker(0).pull(0, pointers, 0), transport::Clock::now() + long_enough),
        Contains("no room for a sum"));
}
