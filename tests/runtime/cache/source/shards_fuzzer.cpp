// Reads arbitrary bytes as a tar shard, as one of MDS and as a Parquet file, in one piece and in many, as an
// index of samples, and as a pax header. Entry of libFuzzer (clang++ -fsanitize=fuzzer,address with tar.cpp,
// shard_scan.cpp, mds_scan.cpp, parquet_scan.cpp and sample_index.cpp of runtime/cache/source); the unit
// tests call it with seeded bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/xxh3.hpp"
#include "runtime/cache/source/mds_scan.hpp"
#include "runtime/cache/source/parquet_scan.hpp"
#include "runtime/cache/source/sample_index.hpp"
#include "runtime/cache/source/shard_scan.hpp"

using namespace hocket;
using namespace hocket::cache;

int scanned_samples = 0, refused_shards = 0, mds_samples = 0, parquet_files = 0, accepted_sample_indexes = 0,
    refused_sample_indexes = 0;

namespace {

using Bytes = std::span<const std::byte>;

void require(bool holds) {
    if (!holds) std::abort();
}

struct Found {
    std::vector<ShardSample> samples;
    std::string problem;
};

// `step` bytes at a time.
template <typename Shard>
Found scan(Shard shard, Bytes bytes, std::size_t step) {
    Found found;
    try {
        for (; !bytes.empty(); bytes = bytes.subspan(std::min(step, bytes.size())))
            shard.take(bytes.first(std::min(step, bytes.size())));
        found.samples = shard.finish();
    } catch (const Error& error) {
        require(error.status() == Status::io);
        found.problem = error.what();
    }
    return found;
}

bool same(const ShardSample& a, const ShardSample& b) {
    return a.key == b.key && a.offset == b.offset && a.bytes == b.bytes && a.checksum == b.checksum;
}

void read_shard(Bytes bytes) {
    const Found found = scan(ShardScan(), bytes, std::max<std::size_t>(bytes.size(), 1));
    for (const std::size_t step : {std::size_t{1}, std::size_t{511}, std::size_t{700}}) {
        const Found other = scan(ShardScan(), bytes, step);
        require(other.problem == found.problem);
        require(std::equal(found.samples.begin(), found.samples.end(), other.samples.begin(),
                           other.samples.end(), same));
    }
    std::uint64_t end = 0;
    for (const ShardSample& sample : found.samples) {
        require(!sample.key.empty() && sample.offset >= end && sample.bytes >= tar_block);
        end = sample.offset + sample.bytes;
        require(end <= bytes.size());
        const Bytes piece = bytes.subspan(sample.offset, sample.bytes);
        require(XXH3_64bits(piece.data(), piece.size()) == sample.checksum);
    }
    scanned_samples += static_cast<int>(found.samples.size());
    refused_shards += !found.problem.empty();
}

// By a second, simple reader.
std::optional<std::vector<std::string>> simple_mds(const std::string& text) {
    const auto word = [&](std::uint64_t at) {
        std::uint32_t value = 0;
        std::memcpy(&value, text.data() + at, sizeof value);
        return std::uint64_t{value};
    };
    if (text.size() < 8 || (word(0) + 2) * 4 > text.size()) return std::nullopt;
    const std::uint64_t count = word(0);
    std::vector<std::string> samples;
    if (word(4) < (count + 2) * 4 || word((count + 1) * 4) != text.size()) return std::nullopt;
    for (std::uint64_t i = 1; i <= count; ++i) {
        if (word(4 * i) > word(4 * i + 4) || word(4 * i + 4) > text.size()) return std::nullopt;
        samples.push_back(text.substr(word(4 * i), word(4 * i + 4) - word(4 * i)));
    }
    return samples;
}

void read_mds(Bytes bytes) {
    const auto wanted = simple_mds(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    for (const std::size_t step : {std::max<std::size_t>(bytes.size(), 1), std::size_t{1}, std::size_t{7}}) {
        const Found found = scan(MdsScan(bytes.size()), bytes, step);
        require(found.problem.empty() == wanted.has_value());
        require(found.samples.size() == (wanted ? wanted->size() : 0));
        for (std::size_t i = 0; i < found.samples.size(); ++i) {
            const ShardSample& sample = found.samples[i];
            require(sample.key == std::to_string(i) && sample.offset + sample.bytes <= bytes.size());
            require(sample.bytes == (*wanted)[i].size());
            require(XXH3_64bits((*wanted)[i].data(), sample.bytes) == sample.checksum);
        }
    }
    mds_samples += wanted ? static_cast<int>(wanted->size()) : 0;
}

void read_parquet(Bytes bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const bool is_right = text.size() >= 12 && text.starts_with("PAR1") && text.ends_with("PAR1");
    for (const std::size_t step : {std::max<std::size_t>(bytes.size(), 1), std::size_t{1}, std::size_t{7}}) {
        const Found found = scan(ParquetScan(bytes.size()), bytes, step);
        require(found.problem.empty() == is_right);
        std::uint64_t end = 0;
        for (const ShardSample& piece : found.samples) {
            require(piece.offset == end && piece.key == std::to_string(end / parquet_piece));
            end += piece.bytes;
            require(end == bytes.size() || piece.bytes == parquet_piece);
            require(XXH3_64bits(bytes.data() + piece.offset, piece.bytes) == piece.checksum);
        }
        require(end == (is_right ? bytes.size() : 0));
    }
    parquet_files += is_right;
}

void read_sample_index(std::string_view text) {
    try {
        const SampleIndex index = parse_sample_index(text, "x.index");
        for (const IndexedSample& sample : index.samples) {
            const std::uint64_t end = index.objects.at(sample.object).bytes;
            require(sample.offset <= end && sample.bytes <= end - sample.offset);
        }
        require(parse_sample_index(write_sample_index(index), "x.index") == index);
        ++accepted_sample_indexes;
    } catch (const Error& error) {
        require(error.status() == Status::invalid_argument);
        for (const char* c = error.what(); *c != '\0'; ++c) require(*c >= ' ' && *c <= '~');
        ++refused_sample_indexes;
    }
}

void read_pax(std::string_view text) {
    try {
        parse_pax(text);
    } catch (const Error& error) {
        require(error.status() == Status::io);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto exact = std::make_unique<char[]>(size);  // no byte behind it, so that reading one is noticed
    std::copy(data, data + size, exact.get());
    const std::string_view text(exact.get(), size);
    read_shard(std::as_bytes(std::span(exact.get(), size)));
    read_mds(std::as_bytes(std::span(exact.get(), size)));
    read_parquet(std::as_bytes(std::span(exact.get(), size)));
    read_sample_index(text);
    read_pax(text);
    return 0;
}
