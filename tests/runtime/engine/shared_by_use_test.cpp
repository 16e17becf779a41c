// Programs that pass the same buffers to collectives again and again, and free, move or fork in between: with
// and without HOCKET_SHARE_BUFFERS all results are the same.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "runtime/engine/communicator.hpp"
#include "runtime/engine/groups.hpp"
#include "runtime/transport/window/shared_by_use.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Collective;
using engine::Communicator;
using test::expect;

namespace {

constexpr std::size_t page = 4096;

bool can_share() {
    const std::string obstacle = transport::obstacle_to_sharing_by_use();
    if (!obstacle.empty()) WARN("nothing is shared by use: " << obstacle);
    return obstacle.empty();
}

test::Job job_with(bool shares, int ranks = 3) {
    return {ranks, {{"HOCKET_SHARE_BUFFERS", shares ? "on" : "off"}, {"HOCKET_TIMEOUT_MS", "30000"}}, 100};
}

std::unique_ptr<Communicator> join() {
    return Communicator::create(engine::resolve({}));
}

void all_reduce(Communicator& comm, const void* send, void* recv, std::uint64_t count) {
    const auto plan = comm.plans().cached_plan(
        {.collective = Collective::all_reduce, .type = DataType::int32, .op = ReduceOp::sum}, count);
    comm.run(plan, send, recv, count, 1);
}

bool is_shared(Communicator& comm, const void* memory, std::size_t bytes) {
    return comm.connections().window().staging_buffer_for(memory, bytes) ||
           comm.connections().window().offset_of(memory, bytes);
}

// A buffer that comes from malloc or mmap, and what a program may do with it between two uses.
class Memory {
  public:
    Memory(std::uint64_t count, std::mt19937_64& random)
        : random_(random), bytes_(count * sizeof(int)), is_mapped_(random() % 3 == 0) {
        allocate();
    }
    ~Memory() { release(); }
    Memory(const Memory&) = delete;

    int* ints() const { return reinterpret_cast<int*>(memory_ + skipped_); }
    std::size_t bytes() const { return bytes_; }
    std::uint64_t count() const { return bytes_ / sizeof(int); }
    void fill(int seed) const {
        for (std::uint64_t i = 0; i < count(); ++i) ints()[i] = static_cast<int>(i % 1013) * 3 + seed;
    }
    bool is_filled(int seed) const {
        for (std::uint64_t i = 0; i < count(); ++i)
            if (ints()[i] != static_cast<int>(i % 1013) * 3 + seed) return false;
        return true;
    }

    void change(int seed) {
        switch (random_() % 8) {
            case 0:
                release();
                allocate();
                break;
            case 1:
                is_mapped_ ? move() : grow(seed);
                break;
            case 2:
                is_mapped_ ? unmap_a_part() : fork_and_write(seed);
                break;
            case 3:
                fork_and_write(seed);
                break;
            default:
                break;
        }
    }

  private:
    void allocate() {
        skipped_ = random_() % 2 == 0 ? 0 : random_() % 50 * sizeof(int);
        room_ = (bytes_ + skipped_ + page) / page * page;
        memory_ = static_cast<char*>(
            is_mapped_ ? mmap(nullptr, room_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                       : std::malloc(room_));
    }
    void release() const { is_mapped_ ? static_cast<void>(munmap(memory_, room_)) : std::free(memory_); }
    void grow(int seed) {
        fill(seed);
        memory_ = static_cast<char*>(std::realloc(memory_, 2 * room_));
        expect(is_filled(seed), "realloc to keep the contents");
        memory_ = static_cast<char*>(std::realloc(memory_, room_));
        expect(is_filled(seed), "realloc to keep the contents");
    }
    void move() {
        void* const place = mmap(nullptr, room_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        // Kernels before Linux 6.17 move no memory that consists of several mappings.
        void* const moved = mremap(memory_, room_, room_, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        if (moved != MAP_FAILED) memory_ = static_cast<char*>(moved);
    }
    void unmap_a_part() const {
        const std::size_t begin = random_() % (room_ / page) * page;
        const std::size_t size = (random_() % ((room_ - begin) / page) + 1) * page;
        munmap(memory_ + begin, size);
        mmap(memory_ + begin, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    void fork_and_write(int seed) const {
        fill(seed);
        const pid_t child = fork();
        if (child == 0) {
            bool right = is_filled(seed);
            fill(seed + 1);
            _exit(right && is_filled(seed + 1) ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        expect(status == 0, "the child to have memory of its own");
        expect(is_filled(seed), "the child not to write to this process's memory");
    }

    std::mt19937_64& random_;
    const std::size_t bytes_;
    const bool is_mapped_;
    std::size_t skipped_ = 0, room_ = 0;
    char* memory_ = nullptr;
};

// Returns true if a buffer was shared.
bool work(Communicator& comm, std::uint64_t seed, int steps) {
    std::mt19937_64 common(seed), own(seed * 100 + static_cast<std::uint64_t>(comm.rank()));
    std::vector<std::unique_ptr<Memory>> tensors;
    for (int i = 0; i < 5; ++i) tensors.push_back(std::make_unique<Memory>(17'000 + common() % 200'000, own));
    const int ranks = comm.size();
    bool was_shared = false;
    for (int step = 0; step < steps; ++step) {
        Memory& tensor = *tensors[common() % tensors.size()];
        const bool in_place = common() % 2 == 0;
        Memory& other = *tensors[common() % tensors.size()];
        const bool is_apart = !in_place && other.count() >= tensor.count() && &other != &tensor;
        tensor.fill(step + comm.rank());
        int* const result = is_apart ? other.ints() : tensor.ints();
        all_reduce(comm, tensor.ints(), result, tensor.count());
        was_shared |= is_shared(comm, tensor.ints(), tensor.bytes());
        for (std::uint64_t i = 0; i < tensor.count(); ++i) {
            const int expected = ranks * (static_cast<int>(i % 1013) * 3 + step) + ranks * (ranks - 1) / 2;
            expect(result[i] == expected,
                   [&] { return fmt::format("seed {}, step {}: {} at {}", seed, step, result[i], i); });
        }
        if (is_apart) expect(tensor.is_filled(step + comm.rank()), "the input to stay");
        (own() % 2 == 0 ? tensor : other).change(step);
    }
    return was_shared;
}

}  // namespace

TEST_CASE("programs that free, move and fork between starts get the same results with shared buffers") {
    const bool shares = GENERATE(true, false) && can_share();
    const auto outcomes = test::run_ranks(job_with(shares), [&](int) {
        bool was_shared = false;
        for (std::uint64_t seed = 1; seed <= 8; ++seed) was_shared |= work(*join(), seed, 40);
        expect(was_shared == shares, "buffers to be shared where that is asked for");
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a buffer is shared at its third use, on the ranks that ask for it") {
    if (!can_share()) return;
    const auto outcomes = test::run_ranks({3, {{"HOCKET_TIMEOUT_MS", "30000"}}}, [&](int rank) {
        setenv("HOCKET_SHARE_BUFFERS", rank == 1 ? "off" : "on", 1);
        const auto comm = join();
        std::vector<int> large(100'000), small(10'000);
        for (int use = 1; use <= 5; ++use) {
            for (std::vector<int>* const buffer : {&large, &small}) {
                buffer->assign(buffer->size(), use);
                all_reduce(*comm, buffer->data(), buffer->data(), buffer->size());
                expect(buffer->front() == 3 * use && buffer->back() == 3 * use, "the sum");
            }
            const bool is_large = is_shared(*comm, large.data(), large.size() * sizeof(int));
            expect(is_large == (rank != 1 && use >= 3),
                   [&] { return fmt::format("use {}: shared: {}", use, is_large); });
            expect(!is_shared(*comm, small.data(), small.size() * sizeof(int)), "small buffers not to be");
        }
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("communicators of several threads use the same buffers while they become shared") {
    const auto outcomes = test::run_ranks(job_with(can_share(), 2), [&](int rank) {
        const auto comm = join();
        const auto group = engine::split(*comm, "split", 0, rank);
        std::vector<int> sent(300'000);
        const auto use = [&](Communicator& mine) {
            std::vector<int> received(sent.size());
            for (int step = 0; step < 60; ++step) {
                const auto plan = mine.plans().cached_plan(
                    {.collective = Collective::all_reduce, .type = DataType::int32, .op = ReduceOp::sum},
                    sent.size());
                std::vector<int> also(sent.size());
                auto& first = mine.start(plan, sent.data(), received.data(), sent.size());
                auto& second = mine.start(plan, sent.data(), also.data(), sent.size());
                mine.progress().wait(first);
                mine.progress().wait(second);
                for (std::size_t i = 0; i < sent.size(); ++i)
                    expect(received[i] == static_cast<int>(2 * i + 1) && also[i] == received[i], "the sum");
            }
        };
        for (int round = 0; round < 3; ++round) {
            sent = std::vector<int>(sent.size());
            for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<int>(i) + rank;
            std::string problem;
            std::thread other([&] {
                try {
                    use(*group);
                } catch (const std::exception& error) {
                    problem = error.what();
                }
            });
            use(*comm);
            other.join();
            expect(problem.empty(), problem);
        }
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("buffers stay what they are when the communicator is destroyed, and the next one shares them") {
    const bool shares = can_share();
    const auto outcomes = test::run_ranks(job_with(shares, 2), [&](int rank) {
        auto comm = join();
        std::vector<int> buffer(200'000);
        auto* const memory = buffer.data();
        for (int life = 0; life < 3; ++life) {
            for (int use = 0; use < 4; ++use) {
                buffer.assign(buffer.size(), use + rank);
                all_reduce(*comm, memory, memory, buffer.size());
                expect(buffer.front() == 2 * use + 1 && buffer.back() == 2 * use + 1, "the sum");
            }
            expect(is_shared(*comm, memory, buffer.size() * sizeof(int)) == shares,
                   "the buffer to be shared");
            const auto next = engine::split(*comm, "split", 0, rank);
            all_reduce(*next, memory, memory, buffer.size());
            expect(buffer.front() == 2 * 7, "the sum in a group");
        }
        comm.reset();
        expect(buffer.front() == 14 && buffer.back() == 14, "the contents to stay");
    });
    CHECK(test::problems(outcomes) == "");
}
