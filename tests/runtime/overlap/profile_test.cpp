// Profiles as text: accepted ones, and the errors of wrong ones.
#include "runtime/overlap/profile.hpp"

#include <fmt/format.h>

#include <fstream>
#include <random>

#include "runtime/base/error.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::overlap;
using Catch::Contains;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

const std::string whole =
    R"({"startup": 0.5, "layers": [{"name": "conv1", "transfer": 1, "compute": 2e-3, "bytes": 12},)"
    R"( {"transfer": 0, "compute": 0.25, "since": "later"}]})";

std::string refusal_of(const std::string& text) {
    try {
        parse_profile(text);
    } catch (const Error& error) {
        CHECK(error.status() == Status::invalid_argument);
        return error.what();
    }
    return "";
}

std::string with_layer(const std::string& layer) {
    return R"({"startup": 0, "layers": [{"transfer": 1, "compute": 1}, )" + layer + "]}";
}

}  // namespace

TEST_CASE("a profile is what its text says; names and bytes may be left out, other members are passed over") {
    const Profile profile = parse_profile(whole);
    CHECK(profile == Profile{0.5, {{"conv1", 1, 0.002, 12}, {"layer 2", 0, 0.25, std::nullopt}}});
}

TEST_CASE("a profile as a text is read again to the last bit") {
    Profile profile = parse_profile(whole);
    profile.before = 1.0 / 3;
    profile.latency = 1e-7 / 3;
    profile.contention = 2.0 / 3;
    profile.layers[0].transfer = 0.1 + 0.2;
    profile.layers[1].bytes = most_bytes;
    CHECK(parse_profile(json_of(profile)) == profile);
    profile.layers[0].forward = 1.0 / 7;
    profile.layers[1].forward = 0;
    CHECK(parse_profile(json_of(profile)) == profile);
    profile.pull = CostLine{1.0 / 9, 1e-4 / 3, 1e-8 / 3};
    CHECK(parse_profile(json_of(profile)) == profile);
    CHECK(parse_profile(
              R"({"startup": 0, "before": 2, "latency": 3, "layers": [{"transfer": 1, "compute": 1}]})")
              .before == 2);
    CHECK(is_name("conv\xc3\xa4"));
    CHECK_FALSE(is_name("conv\xff"));
}

TEST_CASE("what is wrong with a profile is said, with its path and what is wanted") {
    const std::string times = "seconds, from 0 to 1e+09";
    CHECK_THAT(refusal_of(""), Contains("it is no JSON: parse error at line 1, column 1") &&
                                   Contains(R"(A profile is {"startup": 0.001, "layers": [{"name")"));
    CHECK_THAT(refusal_of(whole.substr(0, 60)), Contains("it is no JSON: parse error at line 1, column 61"));
    CHECK_THAT(refusal_of("[1]"), Contains("it is a list; a profile is {\"startup\""));
    CHECK(refusal_of(R"({"layers": []})") == "startup is missing; it must be " + times);
    CHECK(refusal_of(R"({"startup": "1", "layers": []})") == "startup is \"1\"; it must be " + times);
    CHECK(refusal_of(R"({"startup": -1, "layers": []})") == "startup is -1; it must be " + times);
    CHECK_THAT(refusal_of(R"({"startup": 1e999, "layers": []})"), Contains("it is no JSON: number overflow"));
    CHECK(refusal_of(R"({"startup": 0, "before": -2, "layers": []})") == "before is -2; it must be " + times);
    CHECK(refusal_of(R"({"startup": 0, "contention": -0.5, "layers": []})") ==
          "contention is -0.5; it must be a share from 0 to 1000, or left out");
    CHECK(refusal_of(R"({"startup": 0, "latency": [], "layers": []})") ==
          "latency is a list; it must be " + times);
    CHECK(
        refusal_of(R"({"startup": 0, "pull": 1, "layers": []})") ==
        R"(pull is 1; it must be an object, or left out: {"latency": 0.002, "startup": 0.001, "per_byte": 1e-08})");
    CHECK(refusal_of(R"({"startup": 0, "pull": {"latency": 1, "startup": 2}, "layers": []})") ==
          "pull.per_byte is missing; it must be " + times);
    CHECK(refusal_of(with_layer(R"({"transfer": 1, "compute": 2, "forward": -1})")) ==
          "layers[1].forward is -1; it must be " + times);
    const std::string all_or_none =
        "].forward is missing; all layers must have the seconds of their forward passes, or none";
    CHECK(refusal_of(with_layer(R"({"transfer": 1, "compute": 2, "forward": 1})")) ==
          "layers[0" + all_or_none);
    CHECK(
        refusal_of(
            R"({"startup": 0, "layers": [{"transfer": 1, "compute": 2, "forward": 1}, {"transfer": 1, "compute": 2}]})") ==
        "layers[1" + all_or_none);
    CHECK(refusal_of(R"({"startup": 0})") == "layers is missing; it must be the list of the model's layers");
    CHECK(refusal_of(R"({"startup": 0, "layers": []})") ==
          "layers is a list of 0; it must be a list of 1 to 20000 layers");
    CHECK(refusal_of(R"({"startup": 0, "layers": {}})") ==
          "layers is an object; it must be a list of 1 to 20000 layers");
    CHECK_THAT(refusal_of(with_layer("3")), Contains("layers[1] is 3; it must be an object: {\"name\""));
    CHECK(refusal_of(with_layer(R"({"compute": 1})")) ==
          "layers[1].transfer is missing; it must be " + times);
    CHECK(refusal_of(with_layer(R"({"transfer": 1, "compute": 2e9})")) ==
          "layers[1].compute is 2000000000.0; it must be " + times);
    CHECK(refusal_of(with_layer(R"({"transfer": null, "compute": 2})")) ==
          "layers[1].transfer is null; it must be " + times);
    for (const char* bytes : {"-1", "1.5", "\"1\"", "281474976710657"})
        CHECK(
            refusal_of(with_layer(fmt::format(R"({{"transfer": 1, "compute": 2, "bytes": {}}})", bytes))) ==
            fmt::format("layers[1].bytes is {}; it must be a whole number from 0 to 281474976710656, or left "
                        "out",
                        bytes));
    CHECK_THAT(refusal_of(with_layer(R"({"transfer": 1, "compute": 2, "name": "a\nb"})")),
               Contains(R"(layers[1].name is "a\nb"; it must be a text of one line and up to 256 bytes)"));
    CHECK_THAT(
        refusal_of(with_layer(R"({"transfer": 1, "compute": 2, "name": ")" + std::string(300, 'a') + "\"}")),
        Contains("layers[1].name is \"aaaa") && Contains("aaa...; it must be"));
    CHECK_THAT(refusal_of(std::string(std::size_t{17} << 20, ' ')), Contains("it has 17825792 bytes"));
    CHECK_THAT(refusal_of(with_layer("{\"name\": \"\xff\", \"transfer\": 1, \"compute\": 2}")),
               Contains("it is no JSON") && Contains("UTF-8"));
}

TEST_CASE("a file that is no profile is named") {
    const test::TemporaryFolder folder;
    const std::string file = folder.path() + "/profile.json";
    CHECK_THROWS_WITH(read_profile(file), file + " cannot be read: No such file or directory");
    CHECK_THROWS_WITH(read_profile(folder.path()), folder.path() + " cannot be read: Is a directory");
    std::ofstream(file) << "{\"startup\": 1}";
    CHECK_THROWS_WITH(read_profile(file),
                      file + ": layers is missing; it must be the list of the model's layers");
    std::ofstream(file) << whole;
    CHECK(read_profile(file) == parse_profile(whole));
    CHECK_THROWS_WITH(read_profile("/dev/zero"), Contains("/dev/zero cannot be read: it is a device"));
    std::ofstream(file) << std::string(std::size_t{17} << 20, ' ');
    CHECK_THROWS_WITH(read_profile(file), Contains(file + ": it has 16777217 bytes"));
}

TEST_CASE("arbitrary text is a profile, or refused") {
    std::mt19937_64 random(5);
    const std::string letters = "{}[]\",:0123456789.eE-+ \\nul\xff";
    const auto below = [&](std::size_t limit) { return random() % limit; };
    for (int round = 0; round < 20000; ++round) {
        std::string text = whole;
        for (std::size_t noise = below(5); noise > 0 && !text.empty(); --noise) {
            const std::size_t at = below(text.size());
            if (below(3) == 0)
                text.erase(at, below(12));
            else if (below(3) == 0)
                text.insert(at, text.substr(below(text.size()), below(20)));
            else
                text[at] = letters[below(letters.size())];
        }
        if (below(20) == 0) text.insert(0, below(2000), '[');
        REQUIRE(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()) == 0);
    }
}
