// Collectives whose data travel in narrower formats: what is accepted, and the errors of what is not.
#include <cmath>
#include <string>
#include <vector>

#include "dsl/projection/explain.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using Catch::Matchers::Contains;
using dsl::Collective;

namespace {

std::string packed_verdict(const std::string& body, const std::string& topology = "4",
                           Collective collective = Collective::all_reduce) {
    const std::string root = dsl::contract_of(collective).has_root() ? ", root" : "";
    return check_error("schedule t " + std::string(name_of(collective)) + "(x" + root +
                           ") with w approximate {\n" + body + "\n}",
                       collective, topology);
}

}  // namespace

TEST_CASE("the library's schedules in narrower formats are right wherever they can run") {
    int number = 0;
    for (const std::string& topology :
         std::vector<std::string>{"1", "2", "3", "8", "2x2", "3x2", "2x3", "2x2x2", "16"})
        for (const char* const format :
             {"", "(bfloat16)", "(float8)", "(int4(8))", "(format = sign(4096))", "(mstopk(0.01))"}) {
            if (number++ % test::in_long_form(1, 5) != 0) continue;
            INFO(format << " on " << topology);
            const auto check = [&](Collective collective, const std::string& name) {
                return error_of([&] { dsl::check_schedule(request(collective, name + format, topology)); });
            };
            CHECK(check(Collective::all_reduce, "quantised") == "");
            CHECK(check(Collective::all_reduce, "quantised_lossy") == "");
            CHECK(check(Collective::reduce_scatter, "quantised") == "");
            CHECK(check(Collective::all_gather, "quantised") == "");
            if (topology.size() == 3) CHECK(check(Collective::all_reduce, "quantised_hosts") == "");
        }
}

TEST_CASE("formats mix with levels, plain collectives, selections and states") {
    const std::string in = "reduce_scatter x over levels[0] as int8\n",
                      out = "all_gather x over levels[0] as sign";
    // Ranks of the other level pack equal values in equal blocks.
    CHECK(packed_verdict(in + "all_reduce x over levels[1]\n" + out, "2x2") == "");
    CHECK(packed_verdict(
              in + "reduce_scatter x over levels[1]\nall_gather x over levels[1] as float8\n" + out, "3x2") ==
          "");
    CHECK(packed_verdict(in +
                             "state e like x\ne = e + x\nlet s = mstopk(e, 0.5)\ne = e - dense(s)\n"
                             "all_gather s over levels[1]\nx = sum(s)\n" +
                             out,
                         "2x3") == "");
    CHECK(
        packed_verdict("reduce_scatter x over world as int8\nlet n = total(x * x)\nall_gather n over world\n"
                       "x = x / (1 + sqrt(sum(n)))\nall_gather x over world as int8") == "");
    CHECK(packed_verdict("state m like x\nm = 0.9 * m + x\nx = m\nstate e like x\n"
                         "reduce_scatter x over world as int8 keeping e\nall_gather x over world") == "");
    CHECK(packed_verdict("reduce_scatter x over levels[1] as int8\nreduce_scatter x over levels[0] as int4",
                         "2x3", Collective::reduce_scatter) == "");
    CHECK(packed_verdict("all_gather x over levels[0] using ring as bfloat16\nall_gather x over levels[1]",
                         "2x3", Collective::all_gather) == "");
    CHECK(packed_verdict("for t in 0 ..< 3 { let y = x.part(t of 3)\nreduce_scatter y over world as int8\n"
                         "all_gather y over world as int8 }") == "");
}

TEST_CASE("between hosts alone, a reduce_scatter begins inside them, and an all_gather ends there") {
    for (const std::string topology : {"2x2", "3x2", "2x3", "4x4", "8x1", "1x8"}) {
        INFO(topology);
        for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather})
            CHECK(error_of([&] {
                      dsl::check_schedule(request(collective, "quantised_hosts(int4)", topology));
                  }) == "");
    }
    // Over two levels at once, from the innermost on, the parts of a third one are apart.
    CHECK_THAT(packed_verdict("reduce_scatter x over levels[0]\nreduce_scatter x over levels[2] as int8\n"
                              "reduce_scatter x over levels[1]",
                              "2x2x2", Collective::reduce_scatter),
               Contains("would send another one several stretches") &&
                   Contains("take the levels in the other order"));
}

TEST_CASE("packed values bring along what they were made of") {
    const std::string sum = "reduce_scatter x over levels[0] as bfloat16\n",
                      rest =
                          "\nlet s = mstopk(e, 0.5)\ne = e - dense(s)\nall_gather s over levels[1]\n"
                          "x = sum(s)\nall_gather x over levels[0]";
    // v keeps a copy of what is sent, as if nothing had been packed.
    CHECK_THAT(packed_verdict(sum + "state e like x\nstate v like x\ne = e + x + v\nv = x" + rest, "2x2"),
               Contains("v[0, 1/2) still holds the selected values"));
    // What packing left is not in what was selected later.
    CHECK(packed_verdict(
              "state f like x\nreduce_scatter x over levels[0] as int8 keeping f\nstate e like x\ne = e + x" +
                  rest,
              "2x2") == "");
    // A state's content may go on by way of packed values.
    CHECK(packed_verdict("state m like x\nx = x + m\nreduce_scatter x over world as int8\n"
                         "all_gather x over world as int8\nm = x") == "");
    CHECK_THAT(packed_verdict("state m like x\nx = select(m > 1, x, x)\nreduce_scatter x over world as int8\n"
                              "all_gather x over world as int8\nm = x"),
               Contains("loses the old content of m") && !Contains("a selection of it has only a part"));
}

TEST_CASE("only x travels in another format, and it is checked where nothing travels, too") {
    CHECK_THAT(packed_verdict("let s = mstopk(x, 0.5)\nall_gather s over world as int8\nx = sum(s)"),
               Contains("s cannot travel in another format, only x can"));
    CHECK_THAT(
        packed_verdict("reduce_scatter x over world\nlet n = total(x)\nall_gather n over world as int8\n"
                       "x = x + sum(n)\nall_gather x over world"),
        Contains("n cannot travel in another format"));
    CHECK_THAT(packed_verdict("reduce_scatter x over levels[0] as int9\nall_gather x over levels[0]", "1x2"),
               Contains("there is no format 'int9'"));
    CHECK_THAT(packed_verdict(
                   "reduce_scatter x over levels[0] as int8 keeping w\nall_gather x over levels[0]", "1x2"),
               Contains("only a state can keep"));
}

TEST_CASE("a state that `keeping` adds is not added before") {
    for (const char* const add : {"x = x + e\n", "e = 0.9 * e + x\nx = e\n"})
        CHECK_THAT(packed_verdict(std::string("state e like x\n") + add +
                                  "reduce_scatter x over world as int4 keeping e\nall_gather x over world"),
                   Contains("already, and `keeping e` adds it again"));
    // Nor is x added to the state.
    CHECK_THAT(
        packed_verdict("state e like x\ne = e + x\nreduce_scatter x over world as int8 keeping e\nall_gather "
                       "x over world"),
        Contains("has calculated e[0, 1/4) with values of this start"));
    CHECK(packed_verdict(
              "state e like x\ne = 0.9 * e\nreduce_scatter x over world as int8 keeping e\nall_gather x "
              "over world") == "");
}

TEST_CASE("what a state has kept does not get lost in a reduce_scatter either, nor counted again") {
    const std::string first = "state e like x\nreduce_scatter x over levels[1] as mstopk(0.1) keeping e\n";
    const auto of = [&](const std::string& body) {
        return packed_verdict(body, "2x2", Collective::reduce_scatter);
    };
    CHECK_THAT(of(first + "reduce_scatter x over levels[0] as mstopk(0.1)"), Contains("loses a part of e"));
    CHECK(of(first + "reduce_scatter x over levels[0] as int8") == "");
    CHECK(of(first + "state f like x\nreduce_scatter x over levels[0] as mstopk(0.1) keeping f") == "");
    // A sum of selections, too, is a value of this start.
    CHECK_THAT(packed_verdict(
                   "reduce_scatter x over levels[0]\nlet s = mstopk(x, 0.1)\nall_gather s over levels[1]\n"
                   "x = sum(s)\nstate f like x\nf = f + x\nall_gather x over levels[0] as int8 keeping f",
                   "2x2"),
               Contains("has calculated f[0, 1/2) with values of this start"));
    for (const std::string topology : {"2x2", "3x2", "1x4", "4x1"})
        CHECK(error_of([&] {
                  dsl::check_schedule(request(Collective::all_reduce, "oktopk_hosts", topology));
              }) == "");
}

TEST_CASE("results that ranks would not have alike are refused") {
    // Each rank of a host has its own sum, and the scale of a block depends on all of its elements.
    CHECK_THAT(
        packed_verdict("reduce_scatter x over levels[0] as int8\nall_gather x over levels[0] as int8", "2x2"),
        Contains("missing the part of rank 2"));
    CHECK_THAT(
        packed_verdict("reduce_scatter x over world as int8\nx = x * x\nall_gather x over world as int8\n"
                       "all_reduce x over world"),
        Contains("a second time"));
    // A half of each part is equal on both hosts, but not the other half: the scales differ.
    const auto halves = [](const std::string& format) {
        return packed_verdict(
            "reduce_scatter x over levels[0]\nlet y = x.part(0 of 2)\nall_reduce y over levels[1]\n"
            "all_gather x over levels[0] as " +
                format + "\nfor i in 0 ..< 2 { let z = x.part(2 * i + 1 of 4)\nall_reduce z over levels[1] }",
            "2x2");
    };
    CHECK_THAT(halves("int8"), Contains("rank 0 and rank 2 end with different values in"));
    CHECK(halves("bfloat16") == "");
}

TEST_CASE("a format that cannot be is refused at its place") {
    CHECK_THAT(check_error("schedule t all_gather(x) { all_gather x over world as int8 }",
                           Collective::all_gather, "2"),
               Contains("1:55: error: a narrower format loses a part of each value") &&
                   Contains("add `approximate` to the header"));
    CHECK_THAT(packed_verdict("broadcast x over world from root as int8", "4", Collective::broadcast),
               Contains("broadcast cannot travel in another format") &&
                   Contains("reduce_scatter, all_gather and all_reduce can"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world using ring as int8"),
               Contains("has no algorithm") && Contains("leave `using` out"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as int9"),
               Contains("there is no format 'int9' (did you mean 'int8'?)") &&
                   Contains("there are: bfloat16, float16, float8, int8, int4, sign, mstopk(DENSITY)"));
    CHECK_THAT(
        error_of([] { dsl::check_schedule(request(Collective::all_reduce, "quantised(bfloat16(8))", "2")); }),
        Contains("bfloat16 has no scales"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as mstop(0.1)"),
               Contains("did you mean 'mstopk'?"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as mstopk"),
               Contains("as a format, mstopk takes 1 argument, the density, not 0"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as mstopk(x, 0.1)"), Contains("not 2"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as mstopk(x)"),
               Contains("expected a density, but this is a buffer"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as mstopk(0)"),
               Contains("with a density of 0 nothing travels") && Contains("numbers are whole there"));
    CHECK(packed_verdict("all_reduce x over world as mstopk((1 + 1) / 100)") == "");
    CHECK(packed_verdict("all_reduce x over world as mstopk(if ranks > 1 then 1 / 100 else 1 / 10)") == "");
    CHECK_THAT(check_error("schedule t all_reduce(x; density) approximate {\nall_reduce x over world as "
                           "mstopk(density / 2)\n}",
                           Collective::all_reduce, "4"),
               Contains("a number that is given at each start cannot be a part of a density"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as mstopk(2)"),
               Contains("the density is 2: it must be from 0 to 1"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as w"),
               Contains("expected a format, but 'w' is a buffer"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as levels[0]"),
               Contains("expected the name of a format"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as bfloat16(8)"),
               Contains("bfloat16 has no scales"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as int8(9)"),
               Contains("a block of 9 elements: it can have 8 to 4096, in multiples of 8"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as int8(8192)"),
               Contains("a block of 8192 elements"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as int8(8, 8)"),
               Contains("int8 takes 1 argument"));
    CHECK_THAT(packed_verdict("all_gather x over world as int8"), Contains("there is nothing to gather"));
    CHECK_THAT(packed_verdict("reduce_scatter w over world as int8"), Contains("w is the same on all ranks"));
}

TEST_CASE("only a state for what travels keeps the rest, and only for the next start") {
    CHECK_THAT(packed_verdict("reduce_scatter x over world as int8 keeping x"),
               Contains("only a state can keep what the format loses"));
    CHECK_THAT(packed_verdict("reduce_scatter x over world as int8 keeping w"),
               Contains("only a state can keep"));
    CHECK_THAT(
        packed_verdict(
            "state e like x\nreduce_scatter x over world as int8\nall_gather x over world as int8 keeping e"),
        Contains("e keeps [0, 1) of rank 0, but [0, 1/4) travels") && Contains("made here"));
    CHECK_THAT(
        packed_verdict("state e like x\nreduce_scatter x over world as int8 keeping e\nx = x + e\nall_gather "
                       "x over world"),
        Contains("which holds the rest that x as int8(256) left for the next start") ||
            Contains("must be scattered alike"));
    CHECK_THAT(packed_verdict(
                   "reduce_scatter x over world\nstate e like x\nall_gather x over world as int8 keeping e\n"
                   "partition x over world\nall_gather x over world as int8 keeping e"),
               Contains("`keeping e` adds it again"));
}

TEST_CASE("the largest elements travel as a format does, and are selected from again") {
    for (const std::string& topology : std::vector<std::string>{"1", "2", "3", "8", "2x2", "2x3", "2x2x2"})
        for (const char* const name : {"oktopk", "oktopk(0.5)", "oktopk_lossy", "gtopk"}) {
            INFO(name << " on " << topology);
            CHECK(error_of([&] { dsl::check_schedule(request(Collective::all_reduce, name, topology)); }) ==
                  "");
        }
    const std::string in = "state e like x\nreduce_scatter x over world as mstopk(0.5) keeping e\n",
                      out = "all_gather x over world as mstopk(0.5)";
    // The density may be given at each start, and differ on both ways.
    CHECK(check_error("schedule t all_reduce(x; density) approximate {\nreduce_scatter x over world as "
                      "mstopk(density)\nall_gather x over world as int8\n}",
                      Collective::all_reduce, "4") == "");
    // What is not selected the second time is lost, although e has kept it before.
    CHECK_THAT(packed_verdict(in + out), Contains(":4:1: error") && Contains("loses a part of e[0, 1/4)") &&
                                             Contains("as mstopk(...) keeping f"));
    CHECK(check_error("schedule t all_reduce(x) approximate lossy {\n" + in + out + "\n}",
                      Collective::all_reduce, "4") == "");
    CHECK(packed_verdict(in + "all_gather x over world as int4") == "");
    CHECK(packed_verdict(in + "state f like x\n" + out + " keeping f") == "");
    CHECK_THAT(packed_verdict(in + "x = select(x > 0, 1, 0)\nall_gather x over world"),
               Contains("loses the old content of e"));
    // Nor may a selection be dropped on its way, or the rest be overwritten.
    const std::string select_all =
        "state e like x\ne = e + x\nlet s = mstopk(e, 0.1)\ne = e - dense(s)\nx = dense(s)\n";
    CHECK_THAT(
        packed_verdict(select_all + "all_reduce x over world as mstopk(0.1)"),
        Contains("mstopk leaves out a part of the selections in") && Contains(":4:1: note: selected here"));
    CHECK(packed_verdict(select_all + "all_reduce x over world as int8") == "");
    CHECK(packed_verdict(select_all + "state f like x\nall_reduce x over world as mstopk(0.1) keeping f") ==
          "");
    for (const char* const format : {"mstopk(0.1)", "int8"})
        CHECK_THAT(packed_verdict(std::string("state e like x\nall_reduce x over world as ") + format +
                                  " keeping e\ne = 0 * x"),
                   Contains("overwrites e") && Contains("loses the rest that x as"));
    // As with an ordinary selection afterwards.
    const std::string select = "all_gather s over levels[1]\nx = sum(s)\nall_gather x over levels[0]";
    const std::string in_hosts = "state e like x\nreduce_scatter x over levels[0] as mstopk(0.5) keeping e\n";
    CHECK_THAT(packed_verdict(in_hosts + "let s = mstopk(x, 0.5)\n" + select, "2x2"),
               Contains("loses the old content of e"));
    CHECK(packed_verdict(
              in_hosts + "state f like x\nf = f + x\nlet s = mstopk(f, 0.5)\nf = f - dense(s)\n" + select,
              "2x2") == "");
}

TEST_CASE("an all_reduce in another format brings all ranks' pieces together, and adds them up") {
    for (const char* const format : {"int8", "bfloat16", "mstopk(0.1)"}) {
        INFO(format);
        const std::string as = std::string(" as ") + format;
        CHECK(packed_verdict("all_reduce x over world" + as) == "");
        CHECK(packed_verdict("all_reduce x over world using ring" + as) == "");
        CHECK(packed_verdict("state e like x\nall_reduce x over world" + as + " keeping e") == "");
        CHECK(packed_verdict("reduce_scatter x over levels[0]\nall_reduce x over levels[1]" + as +
                                 "\nall_gather x over levels[0]",
                             "2x3") == "");
        CHECK(packed_verdict("all_reduce x over levels[0]" + as + "\nall_reduce x over levels[1]" + as,
                             "2x3") == "");
        CHECK_THAT(packed_verdict("all_reduce x over levels[0]" + as, "2x3"),
                   Contains("missing the part of rank"));
        CHECK_THAT(packed_verdict("all_reduce x over world" + as + "\nall_reduce x over world"),
                   Contains("a second time"));
    }
    // Ranks select alike from values that are equal in the whole piece, and only from those.
    CHECK_THAT(packed_verdict("let y = x.part(0 of 4)\nall_reduce y over levels[0]\n"
                              "reduce_scatter x over levels[1] as mstopk(0.5)\nall_gather x over levels[1]\n"
                              "for i in 1 ..< 4 { let z = x.part(i of 4)\nall_reduce z over levels[0] }",
                              "2x2"),
               Contains("rank 0 and rank 1 end with different values in"));
}

TEST_CASE("explanations count the bytes that travel") {
    const auto traffic = [](const std::string& schedule) {
        return dsl::traffic_text(
            dsl::check_schedule(request(Collective::all_reduce, schedule, "4"))->project(0));
    };
    CHECK_THAT(traffic("quantised"), Contains("sends 0.3809 x in 5 messages, receives 0.3809 x in 5"));
    CHECK_THAT(traffic("quantised(bfloat16)"), Contains("sends 0.75 x"));
    CHECK_THAT(traffic("quantised(sign)"), Contains("sends 0.05273 x"));
    // Values and indices of a quarter to each of 3 ranks, on both ways.
    CHECK_THAT(traffic("oktopk(0.1)"), Contains("sends 0.3 x"));
    CHECK_THAT(traffic("gtopk(0.1)"), Contains("sends 0.6 x"));
}
