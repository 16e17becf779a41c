// Measures epochs over samples on slow storage, shuffled anew each time, with every byte touched.
//     epochs FOLDER SAMPLES BYTES vary|same ROUNDS DELAY_US
// Readers without a cache read one epoch per round, the others three.
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "lmdb_reader.hpp"
#include "source.hpp"

namespace {

using namespace cache_peers;

constexpr int epochs = 3;
constexpr std::size_t batch = 64;

// One epoch: reads the samples in this order and returns the sum of their checksums.
using Epoch = std::function<std::uint64_t(const Keys&)>;

std::uint64_t read_on_threads(unsigned threads, const Source& source, const Keys& keys,
                              void (Source::*read)(std::uint64_t, void*) const) {
    std::atomic<std::size_t> next = 0;
    std::atomic<std::uint64_t> sum = 0;
    on_threads(threads, [&](unsigned) {
        std::vector<char> sample(source.most_bytes());
        for (std::size_t i; (i = next++) < keys.size();) {
            (source.*read)(keys[i], sample.data());
            sum += checksum(keys[i], sample.data(), source.bytes(keys[i]));
        }
    });
    return sum;
}

std::uint64_t read_batches(Cache& cache, const Keys& keys) {
    std::vector<hkt_sample> samples(batch);
    std::uint64_t sum = 0;
    for (std::size_t first = 0; first < keys.size(); first += batch) {
        const std::size_t part = std::min(batch, keys.size() - first);
        cache.get_batch(keys.data() + first, part, samples.data());
        for (std::size_t i = 0; i < part; ++i)
            sum += checksum(samples[i].key, samples[i].data, samples[i].bytes);
        cache.release(samples, part);
    }
    return sum;
}

class Comparison {
  public:
    Comparison(const Source& source, std::string folder) : source_(source), folder_(std::move(folder)) {}

    void round(int round) {
        for (int epoch = 0; epoch < epochs; ++epoch)
            orders_[epoch] = permutation(source_.count(), 100 * round + epoch);
        for (const unsigned threads : {1u, 8u, 32u}) plain_files(threads);
        const Epoch packed = [&](const Keys& keys) {
            return read_on_threads(8, source_, keys, &Source::read_packed);
        };
        run("packed file, 8 threads", 1, packed);
        lmdb();
        hocket("Hocket, memory for all", "", memory_for_all(source_));
        hocket("Hocket, memory for half, disk", folder_ + "/cache", source_.all_bytes() / 2);
    }

  private:
    void plain_files(unsigned threads) {
        const std::string row =
            "plain files, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
        const Epoch plain = [&](const Keys& keys) {
            return read_on_threads(threads, source_, keys, &Source::read_file);
        };
        run(row, 1, plain);
    }

    void lmdb() {
        LmdbReader reader(source_, folder_ + "/lmdb");
        run("LMDB, filled by 8 threads", epochs, [&](const Keys& keys) { return reader.epoch(keys, 8); });
    }

    void hocket(const std::string& row, const std::string& folder, std::uint64_t memory) {
        {
            Cache cache(cache_of(source_, folder, memory));
            Keys order;
            for (const Keys& keys : orders_) order.insert(order.end(), keys.begin(), keys.end());
            bool is_set = false;
            run(row, epochs, [&](const Keys& keys) {
                if (!is_set) cache.set_order(order);
                is_set = true;
                return read_batches(cache, keys);
            });
        }
        if (!folder.empty()) std::filesystem::remove_all(folder);
    }

    void run(const std::string& row, int count, const Epoch& epoch) {
        have_memory_backed(memory_for_all(source_));
        for (int i = 0; i < count; ++i) {
            const double start = now();
            const std::uint64_t sum = epoch(orders_[i]);
            const double seconds = now() - start;
            if (!expected_) expected_ = sum;
            if (sum != *expected_) throw std::runtime_error(row + ": the samples' checksum is wrong");
            char line[200];
            std::snprintf(line, sizeof line, R"({"row": "%s", "epoch": %d, "seconds": %.6f})", row.c_str(),
                          i + 1, seconds);
            print_line(line);
        }
    }

    const Source& source_;
    const std::string folder_;
    Keys orders_[epochs];
    std::optional<std::uint64_t> expected_;
};

}  // namespace

int main(int argc, char** argv) {
    return guarded("epochs", [&] {
        if (argc != 7) throw std::runtime_error("epochs FOLDER SAMPLES BYTES vary|same ROUNDS DELAY_US");
        const std::string folder = argv[1];
        const Source source(folder + "/source", std::strtoull(argv[2], nullptr, 10),
                            static_cast<std::uint32_t>(std::atoi(argv[3])), std::string(argv[4]) == "vary",
                            std::chrono::microseconds(std::atoi(argv[6])));
        Comparison comparison(source, folder);
        for (int round = 0; round < std::atoi(argv[5]); ++round) comparison.round(round);
    });
}
