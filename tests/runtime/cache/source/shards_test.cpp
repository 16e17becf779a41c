// Tar shards, and the index of their samples. tests/python/sources_test.py has archives that Python's tarfile
// made.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/cache/source/mds_scan.hpp"
#include "runtime/cache/source/parquet_scan.hpp"
#include "runtime/cache/source/sample_index.hpp"
#include "runtime/cache/source/shard_scan.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using Catch::Contains;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern int scanned_samples, refused_shards, mds_samples, parquet_files, accepted_sample_indexes,
    refused_sample_indexes;

namespace {

std::string octal(std::uint64_t number, int digits) {
    std::string text;
    for (; digits > 0; --digits, number >>= 3) text.insert(text.begin(), static_cast<char>('0' + number % 8));
    return text;
}

// Puts a sum into the header that is right.
std::string sealed(std::string header) {
    header.replace(148, 8, 8, ' ');
    std::uint64_t sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    return header.replace(148, 8, octal(sum, 6) + std::string("\0 ", 2));
}

std::string member(const std::string& name, const std::string& data, char type = '0') {
    std::string header(512, '\0');
    header.replace(0, name.size(), name);
    header.replace(124, 11, octal(data.size(), 11));
    header[156] = type;
    header.replace(257, 8, std::string("ustar\00000", 8));
    return sealed(header) + data + std::string((512 - data.size() % 512) % 512, '\0');
}

std::string member_with_prefix(const std::string& prefix, const std::string& name, const std::string& data) {
    std::string whole = member(name, data);
    std::string header = whole.substr(0, 512);
    header.replace(345, prefix.size(), prefix);
    return sealed(header) + whole.substr(512);
}

std::string pax(const std::string& record) {
    std::size_t length = record.size() + 2;
    while (std::to_string(length).size() + record.size() + 2 != length) ++length;
    return member("pax", std::to_string(length) + " " + record + "\n", 'x');
}

std::vector<ShardSample> scan(const std::string& archive) {
    ShardScan scan;
    scan.take(std::as_bytes(std::span(archive)));
    return scan.finish();
}

std::vector<std::string> keys(const std::string& archive) {
    std::vector<std::string> result;
    for (const ShardSample& sample : scan(archive)) result.push_back(sample.key);
    return result;
}

std::string refusal(const std::string& text) {
    try {
        parse_sample_index(text, "x.index");
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing";
}

const std::string ending(1024, '\0');
const std::string index_text =
    "# hocket index 1\nobject 100 a/x%20y.tar\nsample 0 60 00000000000000ff k/1\nsample 60 40 "
    "0123456789abcdef "
    "k/2\nobject 7 plain\nsample 0 7 0000000000000001\nend 3\n";

// As Mosaic writes it.
std::string mds(const std::vector<std::string>& samples,
                const std::string& settings = R"({"column_names": ["x"], "format": "mds", "version": 2})") {
    std::string text;
    const auto add = [&](std::size_t number) {
        const auto word = static_cast<std::uint32_t>(number);
        text.append(reinterpret_cast<const char*>(&word), sizeof word);
    };
    add(samples.size());
    std::size_t end = 4 * (samples.size() + 2) + settings.size();
    add(end);
    for (const std::string& sample : samples) add(end += sample.size());
    text += settings;
    for (const std::string& sample : samples) text += sample;
    return text;
}

}  // namespace

TEST_CASE("members of one name but for what is behind the first dot are a sample") {
    const std::string first = member("d/000.jpg", std::string(700, 'j')) + member("d/000.cls", "1"),
                      second = member("d/001.seg.png", ""), third = member("001.x", "x");
    const std::string archive = first + second + third + ending;
    const auto samples = scan(archive);
    REQUIRE(samples.size() == 3);
    CHECK(keys(archive) == std::vector<std::string>{"d/000", "d/001", "001"});
    CHECK(samples[0].offset == 0);
    CHECK(samples[0].bytes == first.size());
    CHECK(samples[1].offset == first.size());
    CHECK(samples[2].bytes == third.size());
    CHECK(scan(first).size() == 1);  // without an end
}

TEST_CASE("names are those of prefixes, of GNU's long names and of pax") {
    const std::string longest(300, 'n');
    CHECK(keys(member_with_prefix("p/q", "r.jpg", "")) == std::vector<std::string>{"p/q/r"});
    CHECK(keys(member("././@LongLink", longest + ".jpg" + '\0', 'L') + member("n.jpg", "")) ==
          std::vector<std::string>{longest});
    CHECK(keys(pax("path=" + longest + ".a.b") + member("n.jpg", "")) == std::vector<std::string>{longest});
    CHECK(keys(pax("mtime=1.5") + member("n.jpg", "")) == std::vector<std::string>{"n"});
    const auto sized = scan(pax("size=600") + member("n.jpg", std::string(600, 'x')));
    CHECK(sized.at(0).bytes == 1024 + 512 + 1024);
}

TEST_CASE("what is no sample goes with the one before, or with none") {
    const std::string folder = member("d/", "", '5'), link = member("d/l.jpg", "", '2');
    const auto samples =
        scan(folder + member("d/0.a", "") + link + member("__about__", "x") + member(".hidden", "") +
             member("d/0.b", "") + member("README", "") + member("1.a", ""));
    REQUIRE(samples.size() == 2);
    CHECK(samples[0].offset == 512);
    CHECK(samples[0].bytes == 512 * 7);
}

TEST_CASE("what is no shard is refused with its place") {
    const std::string good = member("0.a", "x");
    CHECK_THROWS_WITH(scan(good + good.substr(0, 700)),
                      Contains("at byte 1024: ") && Contains("two members .a"));
    CHECK_THROWS_WITH(scan(good + member("0.A", "x")), Contains("two members .A"));  // their readers give .a
    CHECK_THROWS_WITH(scan(good.substr(0, 700)), Contains("at byte 0: ") && Contains("cut off"));
    CHECK_THROWS_WITH(scan(good + std::string(512, 'x')),
                      Contains("at byte 1024: ") && Contains("not octal"));
    CHECK_THROWS_WITH(scan("y" + good.substr(1)), Contains("wrong checksum"));
    CHECK_THROWS_WITH(scan(member("0.a", "", 'S')), Contains("sparse"));
    CHECK_THROWS_WITH(scan(pax("GNU.sparse.major=1") + good), Contains("sparse"));
    CHECK_THROWS_WITH(scan(member("x", "12 nonsense", 'x') + good), Contains("damaged"));
}

TEST_CASE("an index is read as it was written") {
    const SampleIndex index = parse_sample_index(index_text, "x.index");
    CHECK(index.objects == std::vector<IndexedObject>{{"a/x y.tar", 100}, {"plain", 7}});
    CHECK(index.samples == std::vector<IndexedSample>{{0, 0, 60, 255, "k/1"},
                                                      {0, 60, 40, 0x0123456789abcdef, "k/2"},
                                                      {1, 0, 7, 1, ""}});
    CHECK(write_sample_index(index) == index_text);
    for (std::size_t end = 0; end < index_text.size() - 1; ++end)
        CHECK(refusal(index_text.substr(0, end)) != "nothing");
    const std::string head = "# hocket index 1\nobject 10 x\n";
    CHECK_THAT(refusal(head + "sample 5 6 1\nend 1\n"),
               Contains("x.index:3: ") && Contains("inside its object"));
    CHECK_THAT(refusal(head + "sample 5 18446744073709551615 1\nend 1\n"), Contains("inside its object"));
    CHECK_THAT(refusal("# hocket index 1\nsample 0 0 1\n"), Contains("before the first object"));
    CHECK_THAT(refusal(head + "end 1\n"), Contains("number of samples"));
    CHECK_THAT(refusal(head + "end 0\nobject 1 y\n"), Contains("does not end"));
    CHECK_THAT(refusal("0 10\n"), Contains("does not begin"));
}

TEST_CASE("samples of an MDS shard lie where its offsets say") {
    const std::string settings = GENERATE(as<std::string>(), "", R"({"format": "mds"})");
    const std::string shard = mds({"", "first", "", "third one"}, settings);
    MdsScan scan(shard.size());
    scan.take(std::as_bytes(std::span(shard)));
    const auto samples = scan.finish();
    REQUIRE(samples.size() == 4);
    CHECK(samples[0].offset == 24 + settings.size());
    CHECK(samples[0].bytes == 0);
    CHECK(samples[2].bytes == 0);
    CHECK(samples[3].key == "3");
    CHECK(shard.substr(samples[1].offset, samples[1].bytes) == "first");
    CHECK(shard.substr(samples[3].offset, samples[3].bytes) == "third one");
    for (std::size_t end = 0; end < shard.size(); ++end) {
        MdsScan cut(end);
        CHECK_THROWS_WITH((cut.take(std::as_bytes(std::span(shard).first(end))), cut.finish()),
                          Contains("no shard of MDS"));
    }
}

TEST_CASE("a Parquet file has pieces of one size, and its marks at both ends") {
    const std::size_t bytes =
        GENERATE(std::size_t{12}, parquet_piece - 1, parquet_piece, parquet_piece + 2, 3 * parquet_piece);
    std::string file(bytes, 'x');
    file.replace(0, 4, "PAR1").replace(bytes - 4, 4, "PAR1");
    ParquetScan scan(bytes);
    scan.take(std::as_bytes(std::span(file).first(5)));
    scan.take(std::as_bytes(std::span(file).subspan(5)));
    const auto pieces = scan.finish();
    REQUIRE(pieces.size() == (bytes + parquet_piece - 1) / parquet_piece);
    CHECK(pieces.back().offset + pieces.back().bytes == bytes);
    CHECK(pieces.back().key == std::to_string(pieces.size() - 1));
    const auto refused = [&](const std::string& wrong) {
        ParquetScan other(wrong.size());
        other.take(std::as_bytes(std::span(wrong)));
        other.finish();
    };
    CHECK_THROWS_WITH(refused(file.substr(0, bytes - 1)), Contains("end with PAR1") || Contains("too short"));
    CHECK_THROWS_WITH(refused("PARE" + file.substr(4)), Contains("does not begin with PAR1"));
    CHECK_THROWS_WITH(refused(""), Contains("too short"));
}

TEST_CASE("arbitrary shards and indexes are read or refused") {
    std::mt19937 random(1);
    const auto below = [&](std::size_t end) {
        return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
    };
    const std::vector<std::string> seeds{
        member("d/0.a", "x") + member("d/0.b", std::string(600, 'y')) + member("1.a", "") + ending,
        pax("path=long/name.jpg") + member("n.jpg", "z"),
        member("l", std::string("k.a\0", 4), 'L') + member("m", "1"),
        index_text,
        "11 path=ab\n12 size=123\n",
        mds({"abc", "", "defgh", "i"}),
        mds({"abc", "", "defgh", "i"}, ""),
        mds({}),
        mds({}, ""),
        mds({std::string(300, 'm')}),
        "PAR1 columns PAR1"};
    for (int round = 0; round < 44'000; ++round) {
        std::string text = seeds[below(seeds.size())];
        for (std::size_t changes = below(4); changes > 0; --changes) {
            const std::size_t at = below(text.size());
            // Bytes of names and numbers, which are at the beginning of a block.
            const std::size_t place =
                below(2) == 0 ? at : std::min(text.size() - 1, at / 512 * 512 + below(160));
            text[place] = static_cast<char>(below(256));
        }
        if (below(8) == 0) text.resize(below(text.size()) + 1);
        const bool has_blocks = text.size() % 512 == 0;
        for (std::size_t at = 0; has_blocks && below(2) == 0 && at < text.size(); at += 512)
            if (text[at + 257] == 'u') text.replace(at, 512, sealed(text.substr(at, 512)));
        REQUIRE(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()) == 0);
    }
    CHECK(scanned_samples > 2'000);
    CHECK(mds_samples > 1'000);
    CHECK(parquet_files > 500);
    CHECK(refused_shards > 2'000);
    CHECK(accepted_sample_indexes > 1'000);
    CHECK(refused_sample_indexes > 1'000);
}
