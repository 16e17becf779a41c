// What the workers of a server hear from the one that has replaced it.
#include <catch2/catch.hpp>

#include <list>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/runtime/params/notes.hpp"
#include "tests/runtime/params/peer.hpp"
#include "tests/runtime/params/training.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace hocket;
using namespace hocket::params;
using namespace hocket::test;
using Json = nlohmann::json;
using Catch::Contains;

namespace {

// A server that goes on for as long as the test runs without workers that are silent: only what others say
// moves it.
std::vector<std::unique_ptr<Server>> start_patient_server(const TemporaryFolder& folder, bool is_restored) {
    return start_servers(1, [&](ServerOptions& options) {
        options.terms = {.silence = 2 * long_enough, .return_for = 2 * long_enough};
        options.checkpoints.folder = folder.path();
        options.checkpoints.restore = is_restored;
    });
}

// Begins a job of two workers, numbers 0 and 1, and ends its server in order. Returns the name of the run.
// rounds: without rounds in common, those of each worker whose updates the server has.
std::string leave_checkpoint(const Job& job, const TemporaryFolder& folder,
                             const std::vector<Clock>& rounds = {0, 0}) {
    const std::size_t chunks = Layout(job, 1).chunks();
    const auto servers = start_patient_server(folder, false);
    std::list<Peer> workers;
    for (int i = 0; i < 2; ++i) workers.emplace_back(servers[0]->endpoint()).say(open_note(job));
    std::string run;
    std::vector<Worker> numbers;
    for (Peer& worker : workers) {
        const Json opened = worker.note("opened").value();
        run = opened.at("run");
        numbers.push_back(opened.at("number"));
        worker.say(reserve_note(opened.at("number"), run));
        worker.say(join_note(worker.note("reserved").value().at("first")));
    }
    auto number = numbers.begin();
    for (Peer& worker : workers) {
        auto told = worker.announcement(chunks).value();
        while (told.members.size() < workers.size()) told = worker.announcement(chunks).value();
        for (Clock round = 0; round < rounds[*number]; ++round)
            for (Chunk chunk = 0; chunk < chunks; ++chunk)
                worker.say(Sum{told.epoch, chunk, round, {*number}, nullptr},
                           std::string(Layout(job, 1).place(chunk).bytes(), '\0'), Peer::Elements::dense);
        ++number;
    }
    const auto clock = [&] { return Json::parse(servers[0]->stats()).at("clock").get<Clock>(); };
    REQUIRE(eventually([&] { return clock() == rounds[0] + rounds[1]; }));
    servers[0]->finish();
    return run;
}

Json resume_note(const std::string& run, Worker number, const Json& members, const Json& departed) {
    Json note = test::resume_note(run);
    note["number"] = number;
    note["incarnation"] = 0;
    note["members"] = members;
    note["departed"] = departed;
    return note;
}

}  // namespace

// The server expects worker 1 until it hears from a worker that it refuses, and nothing else tells the
// others.
TEST_CASE("what a refused worker says about others is told to those who stay") {
    const TemporaryFolder folder;
    const Job job = small_job(2);
    const std::size_t chunks = Layout(job, 1).chunks();
    const std::string run = leave_checkpoint(job, folder);
    const auto servers = start_patient_server(folder, true);

    Peer staying(servers[0]->endpoint());
    staying.say(resume_note(run, 0, {{0, 0}, {1, 0}}, Json::array()));
    CHECK(staying.announcement(chunks).value().expected == std::vector<Expected>{{1, 0}});

    Peer refused(servers[0]->endpoint());
    refused.say(resume_note(run, stranger, Json::array(), {{stranger, 0, 0}, {1, 0, 3}}));
    REQUIRE(refused.note("refused"));

    // The server has taken care of it before it answers; otherwise the others would wait for nothing.
    REQUIRE(Json::parse(servers[0]->stats()).at("lost").size() == 1);
    CHECK_THAT(staying.note("lost").value().at("what"), Contains("worker 1 of rounds 0 to 2"));
    CHECK(staying.announcement(chunks).value().expected.empty());
}

// Otherwise all that the worker pushes from then on would be ignored: its next round would never come.
TEST_CASE("without rounds in common, no worker is taken back by a server that lacks what it has not kept") {
    std::mt19937 random(20261201);
    for (int i = 0; i < 4; ++i) {
        const TemporaryFolder folder;
        Job job = small_job(2);
        job.staleness = std::nullopt;
        const std::vector<Clock> rounds = {random() % 3, 1 + random() % 3};
        INFO("rounds of worker 0: " << rounds[0] << ", of worker 1: " << rounds[1]);
        const std::string run = leave_checkpoint(job, folder, rounds);
        const auto servers = start_patient_server(folder, true);
        for (const Worker number : {0, 1})
            for (const Clock lacks : {1, 0}) {
                Peer worker(servers[0]->endpoint());
                Json note = resume_note(run, number, {{0, 0}, {1, 0}}, Json::array());
                note["covered"] = rounds[number] + lacks;
                worker.say(note);
                INFO("worker " << number << " has not kept rounds below " << note["covered"]);
                if (lacks == 0)
                    CHECK(worker.announcement(Layout(job, 1).chunks()));
                else
                    CHECK_THAT(worker.note("refused").value().at("why"), Contains("another checkpoint"));
            }
    }
}

TEST_CASE("what nobody can have seen of the server before does not move the round of new workers") {
    const TemporaryFolder folder;
    const Job job = small_job(2);
    const std::string run = leave_checkpoint(job, folder);
    const auto servers = start_patient_server(folder, true);
    std::mt19937_64 random(20261201);
    const auto members = [](Clock first) { return Json{{0, 0}, {1, first}}; };
    for (int i = 0; i < 40; ++i) {
        const Clock impossible = (Clock{1} << (21 + random() % 38)) + random() % 1000;
        Json note = resume_note(run, 1, members(0), Json::array());
        switch (random() % 5) {
            case 0:
                note["pushed"] = impossible;
                break;
            case 1:
                note["seen"] = impossible;
                break;
            case 2:
                note["members"] = members(impossible);
                break;
            case 3:
                note["departed"] = Json::array({{7, impossible, impossible}});
                break;
            default:
                note["departed"] = Json::array({{7, 0, impossible}});
        }
        Peer liar(servers[0]->endpoint());
        liar.say(note);
        INFO(note.dump());
        CHECK(liar.is_closed());
    }
    for (const std::uint32_t later : {2U, 1000U, UINT32_MAX}) {
        Peer liar(servers[0]->endpoint());
        Json note = resume_note(run, 1, members(0), Json::array());
        note["incarnation"] = later;
        liar.say(note);
        CHECK_THAT(liar.note("refused").value().at("why"), Contains("a later server"));
    }

    // As far as a worker can be that keeps its updates of two intervals.
    constexpr Clock possible = 2 + 2 * 10;
    Peer staying(servers[0]->endpoint());
    Json note = resume_note(run, 0, members(0), Json::array());
    note["pushed"] = possible;
    staying.say(note);
    REQUIRE(staying.announcement(Layout(job, 1).chunks()));
    Peer fresh(servers[0]->endpoint());
    fresh.say(reserve_note(stranger, run));
    CHECK(fresh.note("reserved").value().at("first") == possible + 1);
}
