// hocket-cache index: reads shards or objects once, and writes down where the samples are, and their
// checksums.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dsl/base/named_file.hpp"
#include "runtime/base/error.hpp"
#include "runtime/cache/objects/url.hpp"
#include "runtime/cache/source/mds_scan.hpp"
#include "runtime/cache/source/parallel.hpp"
#include "runtime/cache/source/parquet_scan.hpp"
#include "runtime/cache/source/sample_index.hpp"
#include "runtime/cache/source/shard_scan.hpp"
#include "runtime/cache/source/sum.hpp"
#include "tools/cache/commands.hpp"
#include "tools/cache/inputs.hpp"
#include "tools/cache/progress.hpp"
#include "tools/cache/texts.hpp"
#include "tools/tool.hpp"

namespace hocket::cache_tool {
namespace {

constexpr std::chrono::milliseconds between_looks{100};

struct Interrupted {};

// Reads all inputs on threads. Made before the threads, and outlives them.
class Indexing {
  public:
    explicit Indexing(const Inputs& inputs) : inputs_(inputs), found_(inputs.all.size()) {
        for (const auto& input : inputs.all) all_bytes_ += input->bytes();
    }

    void run() {
        cache::parallel(inputs_.all.size(), inputs_.at_once,
                        [this](std::size_t i) { found_[i] = look(*inputs_.all[i]); });
    }
    void stop() { is_stopped_ = true; }
    Step step() const { return {bytes_, all_bytes_, samples_, bytes_}; }

    cache::SampleIndex take_index() {
        cache::SampleIndex index;
        for (std::uint32_t i = 0; i < found_.size(); ++i) {
            index.objects.push_back({inputs_.all[i]->name, inputs_.all[i]->bytes()});
            for (cache::ShardSample& sample : found_[i])
                index.samples.push_back(
                    {i, sample.offset, sample.bytes, sample.checksum, std::move(sample.key)});
        }
        return index;
    }

  private:
    using Found = std::vector<cache::ShardSample>;

    Found look(const Input& input) {
        Found found = input.name.ends_with(".tar")       ? scan(input, cache::ShardScan())
                      : input.name.ends_with(".mds")     ? scan(input, cache::MdsScan(input.bytes()))
                      : input.name.ends_with(".parquet") ? scan(input, cache::ParquetScan(input.bytes()))
                                                         : look_at_whole(input);
        samples_ += found.size();
        return found;
    }

    template <typename Take>
    void read(const Input& input, Take take) {
        std::vector<std::byte> piece;
        for (std::uint64_t offset = 0; offset < input.bytes(); offset += piece.size()) {
            if (is_stopped_) throw Interrupted{};
            piece.resize(std::min(input.piece_bytes(), input.bytes() - offset));
            input.read(offset, piece);
            take(piece);
            bytes_ += piece.size();
        }
    }

    template <typename Scan>
    Found scan(const Input& input, Scan shard) {
        try {
            read(input, [&](const std::vector<std::byte>& piece) { shard.take(piece); });
            return shard.finish();
        } catch (const Error& error) {
            throw std::runtime_error(fmt::format("{}: {}", input.name, error.what()));
        }
    }

    Found look_at_whole(const Input& input) {
        cache::Sum sum;
        read(input, [&](const std::vector<std::byte>& piece) { sum.add(piece); });
        return {{.key = "", .offset = 0, .bytes = input.bytes(), .checksum = sum.value()}};
    }

    const Inputs& inputs_;
    std::vector<Found> found_;
    std::uint64_t all_bytes_ = 0;
    std::atomic<std::uint64_t> bytes_ = 0, samples_ = 0;
    std::atomic<bool> is_stopped_ = false;
};

// Returns false if a signal ended it.
bool run(Indexing& indexing, tools::Signals& signals) {
    std::atomic<bool> has_ended = false;
    std::exception_ptr problem;
    std::thread reader([&] {
        try {
            indexing.run();
        } catch (...) {
            problem = std::current_exception();
        }
        has_ended = true;
    });
    Progress progress;
    while (!has_ended) {
        progress.show(indexing.step());
        if (signals.wait(between_looks) != 0) indexing.stop();
    }
    reader.join();
    progress.clear();
    try {
        if (problem) std::rethrow_exception(problem);
    } catch (const Interrupted&) {
        return false;
    }
    return true;
}

// Of MDS, by what Mosaic's writer names them: "shard.00000.mds.zstd".
bool is_compressed_shard(const cache::IndexedObject& object) {
    const std::size_t ending = object.name.rfind('.');
    return ending != std::string::npos && std::string_view(object.name).substr(0, ending).ends_with(".mds");
}

// What nobody would notice before samples are read.
void tell_of_compressed_shards(const cache::SampleIndex& index) {
    const auto compressed = std::count_if(index.objects.begin(), index.objects.end(), is_compressed_shard);
    if (compressed == 0) return;
    const auto& first = *std::find_if(index.objects.begin(), index.objects.end(), is_compressed_shard);
    tools::say(
        "hocket-cache: {} compressed as a whole, such as {}, and each is one sample here. "
        "hocket.shards.CompressedMds takes them apart in Python, where a sample costs its whole shard; "
        "written "
        "without compression= they are read in parts",
        compressed == 1 ? "1 shard is" : fmt::format("{} shards are", compressed), first.name);
}

std::string advice(const std::string& base, const std::string& index_file) {
    return fmt::format("use it with --source {} --index {}", base, index_file);
}

}  // namespace

int index(const Options& options, tools::Signals& signals) {
    const auto start = std::chrono::steady_clock::now();
    const Inputs inputs = open_inputs(options.sources);
    Indexing indexing(inputs);
    if (!run(indexing, signals)) {
        tools::say("hocket-cache: interrupted; no index was written");
        return 128 + signals.wait({});
    }
    const cache::SampleIndex index = indexing.take_index();
    if (index.samples.empty())
        throw std::runtime_error(fmt::format("there are no samples in {}", inputs.base));
    constexpr unsigned mode = 0644;
    try {
        replace_file(options.index_file, cache::write_sample_index(index), mode);
    } catch (const std::runtime_error& error) {
        throw std::runtime_error(
            fmt::format("the index {} cannot be written: {}", options.index_file, error.what()));
    }
    fmt::print(
        "{}: {} in {}, {}, in {}; {}\n", options.index_file, count_text(index.samples.size(), "sample"),
        count_text(index.objects.size(), "object"), bytes_text(static_cast<double>(indexing.step().bytes)),
        duration_text(std::chrono::steady_clock::now() - start), advice(inputs.base, options.index_file));
    tell_of_compressed_shards(index);
    return 0;
}

}  // namespace hocket::cache_tool
