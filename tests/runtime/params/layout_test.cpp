// The places of elements (job/job.hpp).
#include <catch2/catch.hpp>

#include "runtime/params/job/job.hpp"
#include "tests/multi/soak/chance.hpp"

using namespace hocket;
using namespace hocket::params;

TEST_CASE("Each server has chunks, and each element is in one", "[params]") {
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        soak::Chance chance{seed};
        Job job;
        job.chunk_bytes = 4096;
        job.cuts_tensors = chance.one_in(2);
        const std::uint64_t tensors = chance.between(1, 12);
        for (std::uint64_t i = 0; i < tensors; ++i)
            job.tensors.push_back({std::to_string(i), chance.one_in(2) ? DataType::int64 : DataType::int8,
                                   1 + chance.log_uniform(20000)});
        const Layout whole(job, 1);
        const auto servers = static_cast<std::uint32_t>(chance.between(1, whole.chunks()));
        const Layout layout(job, servers);
        CAPTURE(seed, servers, layout.chunks());
        std::size_t chunks = 0;
        for (std::uint32_t server = 0; server < servers; ++server) {
            CHECK(layout.first_of(server) == chunks);
            CHECK(layout.chunks_of(server) >= 1);
            chunks += layout.chunks_of(server);
            CHECK(layout.server_of(static_cast<Chunk>(chunks - 1)) == server);
        }
        CHECK(chunks == layout.chunks());
        for (std::uint32_t tensor = 0; tensor < tensors; ++tensor) {
            std::uint64_t next = 0;
            for (const Layout::Piece& piece : layout.pieces_of_tensor(tensor)) {
                CHECK(piece.first == next);
                next += piece.count;
            }
            CHECK(next == job.tensors[tensor].count);
        }
    }
}

TEST_CASE("the size of chunks follows from the model, if nobody says it") {
    Job job;
    job.tensors = {{"a", DataType::float32, 1000}};
    CHECK(chunk_bytes_of(job) == 64 << 10);
    job.tensors = {{"a", DataType::float32, 4 << 20}};
    CHECK(chunk_bytes_of(job) == 128 << 10);
    CHECK(Layout(job, 1).chunks() == 128);
    job.tensors = {{"a", DataType::float64, 64 << 20}};
    CHECK(chunk_bytes_of(job) == 512 << 10);
    job.chunk_bytes = 4096;
    CHECK(chunk_bytes_of(job) == 4096);
}
