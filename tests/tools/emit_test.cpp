// Compares the output about a program with the program itself.
#include "tools/schedc/emit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/dsl/cases.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Op;
using nlohmann::json;

namespace {

std::vector<dsl::RankProgram> programs_of(const dsl::CheckedSchedule& checked) {
    std::vector<dsl::RankProgram> programs;
    for (dsl::Rank rank = 0; rank < checked.levels().ranks(); ++rank)
        programs.push_back(checked.project(rank));
    return programs;
}

const std::map<std::string, Op::Kind> kinds = {{"send", Op::Kind::send},       {"receive", Op::Kind::receive},
                                               {"combine", Op::Kind::combine}, {"copy", Op::Kind::copy},
                                               {"signal", Op::Kind::signal},   {"await", Op::Kind::await}};

// "input", "work of 3", "scratch2".
dsl::AreaId area_of(const std::string& text, const dsl::RankProgram& program) {
    if (text.starts_with("scratch")) return program.first_scratch() + std::stoul(text.substr(7));
    const std::string name = text.substr(0, text.find(' '));
    const dsl::AreaId area = name == "input"    ? dsl::input_area
                             : name == "output" ? dsl::output_area
                                                : dsl::work_area;
    const std::size_t of = text.find(" of ");
    if (of == std::string::npos) return area;
    const auto owner =
        std::find(program.local_peers.begin(), program.local_peers.end(), std::stoi(text.substr(of + 4)));
    return dsl::RankProgram::local_peer_area(static_cast<std::size_t>(owner - program.local_peers.begin()),
                                             area);
}

// "input at 1/2 for 5/6" names the memory of a shifted area, and the position that is read at another one.
void check_areas(const json& names, const std::vector<dsl::AreaId>& areas, const dsl::RankProgram& program) {
    REQUIRE(names.size() == areas.size());
    for (std::size_t i = 0; i < areas.size(); ++i) {
        const std::string name = names[i];
        CHECK(area_of(name.substr(0, name.find(" at ")), program) == program.memory_of(areas[i]));
        if (areas[i] < program.first_shifted()) {
            CHECK(name.find(" at ") == name.npos);
            continue;
        }
        const dsl::ShiftedArea& shifted = program.shifted[areas[i] - program.first_shifted()];
        CHECK(name.ends_with(fmt::format(" at {} for {}", program.boundaries[shifted.from].text(),
                                         program.boundaries[shifted.at].text())));
    }
}

void check_same(const json& told, const Op& op, const dsl::RankProgram& program) {
    CHECK(kinds.at(told["kind"]) == op.kind);
    CHECK(told["begin"] == program.boundaries[op.begin].text());
    CHECK(told["end"] == program.boundaries[op.end].text());
    CHECK(area_of(told["area"], program) == op.area);
    const json further = told.value("further", json::array());
    REQUIRE(further.size() == op.further.size());
    for (std::size_t i = 0; i < further.size(); ++i) {
        CHECK(further[i]["begin"] == program.boundaries[op.further[i].begin].text());
        CHECK(further[i]["end"] == program.boundaries[op.further[i].end].text());
        CHECK(area_of(further[i]["area"], program) == op.further[i].area);
    }
    check_areas(told.value("operands", json::array()), op.operands, program);
    check_areas(told.value("also", json::array()), op.also, program);
    CHECK(told.value("peer", -1) == op.peer);
    CHECK(told.value("message", 0u) == op.message);
    CHECK(told["phase"] == op.phase);
    CHECK(told["successors"].get<std::vector<dsl::OpId>>() == op.successors);
    CHECK(told["source"]["location"] == program.origins[op.origin].location);
}

// If explain has a message's number instead of a slot's, names the slot that the message is received into.
std::string area_text(const dsl::RankProgram& program, dsl::AreaId area) {
    for (const Op& op : program.ops) {
        if (op.kind != Op::Kind::receive || area < program.first_scratch()) continue;
        bool is_its = op.area == area;
        for (const auto& part : op.further) is_its |= part.area == area;
        if (is_its) return fmt::format("message {} from {}", op.message, op.peer);
    }
    if (area >= program.first_scratch()) return fmt::format("scratch {}", area - program.first_scratch());
    const std::string name = std::array{"input", "output", "work"}[area % dsl::areas_of_a_rank];
    if (area < dsl::areas_of_a_rank) return name;
    return fmt::format("{} of {}", name, program.local_peers[area / dsl::areas_of_a_rank - 1]);
}

// A prime for each exchange.
std::string stretch_text(const dsl::RankProgram& program, dsl::BoundaryId begin, dsl::BoundaryId end) {
    dsl::Rational first = program.boundaries[begin], last = program.boundaries[end];
    std::string text = "x";
    for (; first >= dsl::Rational(1); first = first - dsl::Rational(1), last = last - dsl::Rational(1))
        text += '\'';
    return fmt::format("{}[{}, {})", text, first.text(), last.text());
}

std::string regions_text(const dsl::RankProgram& program, const Op& op) {
    std::string text = stretch_text(program, op.begin, op.end);
    for (const auto& [begin, end, area] : op.further) text += ", " + stretch_text(program, begin, end);
    return text;
}

// The operand of an operation, with its place if the operation writes to another one.
std::string operand_text(const dsl::RankProgram& program, const Op& op, dsl::AreaId area) {
    if (area < program.first_shifted()) return area_text(program, area);
    const dsl::ShiftedArea& shifted = program.shifted[area - program.first_shifted()];
    const dsl::BoundaryId from = shifted.from + op.begin - shifted.at;
    return fmt::format("{} of {}", stretch_text(program, from, from + op.end - op.begin),
                       area_text(program, shifted.of));
}

// The areas of a message's parts: one name if it is the same for all.
std::string places_text(const dsl::RankProgram& program, const Op& op) {
    const auto name = [&](dsl::AreaId area) {
        if (op.kind == Op::Kind::receive && area >= program.first_scratch()) return std::string("scratch");
        return area_text(program, area);
    };
    std::string text = name(op.area);
    bool is_one = true;
    for (const auto& part : op.further) is_one &= name(part.area) == name(op.area);
    if (is_one) return text;
    for (const auto& part : op.further) text += ", " + name(part.area);
    return text;
}

void check_line(const std::string& line, dsl::OpId id, const dsl::RankProgram& program) {
    static const std::regex form(
        R"( *(\d+)  (\w+) +(?:(x'*\[\S+, \S+\)(?:, x'*\[\S+, \S+\))*) )?(.*?)  +(\S+:\d+)(?:  after((?: \d+)+))?)");
    std::smatch told;
    INFO(line);
    REQUIRE(std::regex_match(line, told, form));
    const Op& op = program.ops[id];
    CHECK(std::stoul(told[1]) == id);
    CHECK(kinds.at(told[2]) == op.kind);
    const bool moves = op.kind == Op::Kind::copy && op.operands[0] >= program.first_shifted();
    if (op.kind != Op::Kind::signal && op.kind != Op::Kind::await && !moves)
        CHECK(told[3] == regions_text(program, op));
    std::string what, operands, targets = area_text(program, op.area);
    for (const dsl::AreaId area : op.operands)
        operands += (operands.empty() ? "" : " + ") + operand_text(program, op, area);
    for (const dsl::AreaId area : op.also) targets += ", " + area_text(program, area);
    if (op.kind == Op::Kind::send) what = fmt::format("of {} to {}", places_text(program, op), op.peer);
    if (op.kind == Op::Kind::receive)
        what = fmt::format("from {}{}", op.peer,
                           places_text(program, op) == "scratch" ? "" : " into " + places_text(program, op));
    if (op.kind == Op::Kind::copy) what = fmt::format("of {} to {}", operands, targets);
    if (moves) what = fmt::format("{} to {} of {}", operands, regions_text(program, op), targets);
    if (op.kind == Op::Kind::combine) what = fmt::format("of {} = {}", targets, operands);
    if (op.kind == Op::Kind::signal)
        what = fmt::format("{}{}", op.message, op.message == 1 ? ": entered" : "");
    if (op.kind == Op::Kind::await)
        what = fmt::format("signal {} of {}{}", op.message, op.peer,
                           op.guards_buffers ? ", which then is done with this rank's buffers" : "");
    CHECK((moves ? fmt::format("{} {}", told[3].str(), told[4].str()) : told[4].str()) == what);
    CHECK(told[5] == program.origins[op.origin].location);
    std::istringstream after(told[6]);
    const std::vector<dsl::OpId> predecessors{std::istream_iterator<dsl::OpId>(after), {}};
    CHECK(predecessors.size() == op.waits_for);
    for (const dsl::OpId before : predecessors)
        CHECK(std::count(program.ops[before].successors.begin(), program.ops[before].successors.end(), id) ==
              1);
}

}  // namespace

TEST_CASE("json and explain tell what the program does, operation by operation") {
    int number = 0;
    for (const test::Case& item : test::cases())
        for (const char* topology : item.topologies)
            for (const bool is_shared : {false, true}) {
                if (number++ % test::in_long_form(1, 5) != 0) continue;
                auto request = test::request(item.collective, item.schedule, topology);
                auto checked = dsl::check_schedule(request);
                const dsl::Rank ranks = checked->levels().ranks();
                if (ranks > 8) continue;
                for (dsl::Rank rank = 0; is_shared && rank < ranks; ++rank) request.hosts.push_back(rank / 3);
                if (is_shared) checked = dsl::check_schedule(request);
                const auto programs = programs_of(*checked);
                INFO(name_of(item.collective)
                     << " by '" << item.schedule << "' on " << topology << ", shared " << is_shared);
                const json all = json::parse(tools::json_text(programs));
                REQUIRE(all["programs"].size() == programs.size());
                for (std::size_t rank = 0; rank < programs.size(); ++rank) {
                    const dsl::RankProgram& program = programs[rank];
                    const json& told = all["programs"][rank];
                    INFO("rank " << rank);
                    CHECK(told["rank"] == program.rank);
                    CHECK(told["scratch_slots"] == program.scratch.size());
                    REQUIRE(told["ops"].size() == program.ops.size());
                    std::istringstream lines(dsl::explain(program));
                    std::string line;
                    std::getline(lines, line);  // the program's own
                    for (dsl::OpId id = 0; id < program.ops.size(); ++id) {
                        INFO("operation " << id);
                        check_same(told["ops"][id], program.ops[id], program);
                        REQUIRE(std::getline(lines, line));
                        check_line(line, id, program);
                    }
                    CHECK(!std::getline(lines, line));
                }
            }
}
