// Reads samples of one size from Hocket's disk level, cold.
//     disk fill FOLDER BYTES COUNT        puts the samples
//     disk read FOLDER BYTES COUNT DEPTH  reads three quarters of them once, in random order
// `read` has a memory that is much smaller than the samples, and two batches of DEPTH samples under way; the
// cache keeps DEPTH reads in flight. Before the clock starts, other samples pass through the whole memory, so
// that its pages exist, as fio's do.
#include <cstdlib>
#include <cstring>

#include "common.hpp"

namespace {

using namespace cache_peers;

constexpr std::uint64_t mebibyte = 1 << 20;

struct Samples {
    std::string folder;
    std::uint64_t bytes, count;
};

hkt_cache_options options_for(const Samples& samples, std::uint64_t memory) {
    hkt_cache_options options = HKT_CACHE_OPTIONS_INIT;
    options.folder = samples.folder.c_str();
    options.memory_bytes = memory;
    options.disk_bytes = 2 * samples.bytes * samples.count + 1024 * mebibyte;
    options.dataset = "compare-cache";
    return options;
}

void fill(const Samples& samples) {
    constexpr unsigned threads = 16;
    Cache cache(options_for(samples, 256 * mebibyte));
    const double start = now();
    on_threads(threads, [&](unsigned thread) {
        std::vector<std::uint64_t> words(samples.bytes / sizeof(std::uint64_t));
        for (std::uint64_t key = thread; key < samples.count; key += threads) {
            Random random(key);
            for (std::uint64_t& word : words) word = random.next();
            check(hkt_cache_put(cache, key, words.data(), samples.bytes), "hkt_cache_put");
        }
    });
    check(hkt_cache_flush(cache), "hkt_cache_flush");
    const double seconds = now() - start;
    char line[160];
    std::snprintf(line, sizeof line, R"({"seconds": %.6f, "operations": %llu})", seconds,
                  static_cast<unsigned long long>(samples.count));
    print_line(line);
}

// Keeps two batches under way: while one is waited for and released, the other one's reads continue.
void read_all(Cache& cache, const std::uint64_t* keys, std::uint64_t count, unsigned batch) {
    std::vector<hkt_sample> samples[2] = {std::vector<hkt_sample>(batch), std::vector<hkt_sample>(batch)};
    hkt_request* requests[2] = {nullptr, nullptr};
    const std::uint64_t batches = count / batch;
    for (std::uint64_t next = 0; next < batches + 2; ++next) {
        auto& place = samples[next % 2];
        hkt_request*& request = requests[next % 2];
        if (request != nullptr) {
            check(hkt_wait(request), "hkt_wait");
            cache.release(place, batch);
            request = nullptr;
        }
        if (next < batches) request = cache.start_batch(keys + next * batch, batch, place.data());
    }
}

void read(const Samples& samples, unsigned depth) {
    const std::uint64_t memory = std::max(64 * mebibyte, 4 * depth * samples.bytes);
    hkt_cache_options options = options_for(samples, memory);
    options.depth = static_cast<std::int32_t>(depth);
    Cache cache(options);
    const Keys keys = permutation(samples.count, std::random_device{}());
    const std::uint64_t warm_up = std::min(memory / samples.bytes, samples.count / 4) / depth * depth;
    const std::uint64_t operations = samples.count / 4 * 3 / depth * depth;
    read_all(cache, keys.data() + operations, warm_up, depth);

    const hkt_cache_stats before = cache.stats();
    const double start = now(), processor_start = processor_time();
    read_all(cache, keys.data(), operations, depth);
    const double seconds = now() - start, processor = processor_time() - processor_start;
    const hkt_cache_stats after = cache.stats();
    if (after.disk_hits - before.disk_hits != operations)
        throw std::runtime_error(
            "not every sample came from the disk: " + std::to_string(after.disk_hits - before.disk_hits) +
            " of " + std::to_string(operations));
    char line[320];
    std::snprintf(line, sizeof line,
                  R"({"seconds": %.6f, "processor_seconds": %.6f, "operations": %llu, "io": "%s"})", seconds,
                  processor, static_cast<unsigned long long>(operations), after.io);
    print_line(line);
}

}  // namespace

int main(int argc, char** argv) {
    return guarded("disk", [&] {
        const std::string what = argc > 1 ? argv[1] : "";
        const bool fills = what == "fill" && argc == 5;
        if (!fills && !(what == "read" && argc == 6))
            throw std::runtime_error("disk fill FOLDER BYTES COUNT | disk read FOLDER BYTES COUNT DEPTH");
        const Samples samples{argv[2], std::strtoull(argv[3], nullptr, 10),
                              std::strtoull(argv[4], nullptr, 10)};
        if (fills)
            fill(samples);
        else
            read(samples, static_cast<unsigned>(std::atoi(argv[5])));
    });
}
