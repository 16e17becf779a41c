#include "tests/runtime/compute/jit/device_ranks.hpp"

#include <barrier>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "runtime/compute/kernels/cpu/multiply.hpp"
#include "runtime/engine/plan/address.hpp"
#include "tests/support/random_elements.hpp"

namespace hocket::test {
namespace {

constexpr std::byte mark{0xa5};
constexpr std::uint64_t margin = 64;  // bytes before and behind a buffer that nobody may touch

std::uint64_t elements_of(dsl::Share share, const engine::Plan& plan, std::uint64_t count) {
    const std::uint64_t all = plan.elements_of_x(count);
    if (share == dsl::Share::none) return 0;
    if (share == dsl::Share::whole) return all;
    return Layout(all).piece_count(plan.program().rank, plan.program().ranks);
}

// Compiles a kernel once, however many tests use it.
jit::TwinCode twin_of(const jit::DeviceShape& shape, bool tells_accesses) {
    struct Twin {
        jit::Compiler compiler;
        jit::TwinCode code = nullptr;
    };
    static std::map<std::pair<jit::DeviceShape, bool>, Twin> twins;
    Twin& twin = twins[{shape, tells_accesses}];
    if (twin.code == nullptr) twin.code = twin.compiler.compile_twin(shape, tells_accesses);
    return twin.code;
}

std::uint64_t whole_packets(std::uint64_t bytes) {
    constexpr std::uint64_t data = sizeof(jit::DevicePacket::data);
    return (bytes + data - 1) / data * data;
}

// thread: 0 for the rank's stream.
RaceWatcher::Agent agent_of(std::size_t rank, std::size_t thread) {
    return rank * 1000 + thread;
}

}  // namespace

struct DeviceRanks::Rank {
    std::unique_ptr<engine::Plan> plan;
    std::shared_ptr<const engine::Binding> binding;
    jit::TwinCode code = nullptr;
    std::uint64_t shift = 0;                              // of the output, in bytes
    std::uint64_t begin = 0;                              // in place: of the input in the output, in bytes
    std::uint64_t input = 0, output = 0;                  // elements
    Bytes send, recv, memory;                             // memory: the work area and scratch
    Bytes copy, staged;                                   // of the input; of the output
    std::vector<std::byte*> areas, packet_areas;          // as the kernel has them, by lines and by packets
    std::vector<std::vector<jit::DevicePacket>> packets;  // by local peer: for this rank
    std::vector<Bytes> pulled;                            // by local peer: its input
    std::vector<jit::DevicePacket*> packets_here, packets_there;
    std::vector<std::byte*> pulled_begin;
    std::vector<std::vector<jit::DeviceLine>> lines;  // by local peer: for this rank
    std::vector<const jit::DeviceLine*> inboxes;
    std::vector<jit::DeviceLine*> outboxes;
    std::vector<std::uint32_t*> peer_aborts;
    std::vector<std::uint64_t> stretches;
    jit::DeviceControl control{};
    jit::DeviceReport report{};
    std::uint32_t host_abort = 0;
    jit::DeviceArguments arguments{};

    std::byte* output_memory() { return recv.data() + margin + shift; }
    std::byte* input_memory() { return send.empty() ? output_memory() + begin : send.data() + margin; }
};

// Its input is the largest that there is.
std::uint64_t DeviceRanks::most_packets(const Rank& rank) {
    return jit::header_packets + rank.copy.size() / sizeof(jit::DevicePacket::data);
}

struct DeviceRanks::Block {
    explicit Block(std::uint32_t threads) : barrier(threads) {}
    std::barrier<> barrier;
    std::uint64_t shared[jit::shared_words] = {};
};

struct DeviceRanks::Thread : jit::TwinThread {
    DeviceRanks* all = nullptr;
    Block* block = nullptr;
    RaceWatcher::Agent agent = 0;
    AtBarrier place{};
    mutable std::mt19937_64 random;
    mutable std::uint64_t barriers = 0;

    static const Thread& of(const TwinThread* thread) { return *static_cast<const Thread*>(thread); }

    void delay() const {
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
    }
    static void wait_for_block(const TwinThread* thread) {
        const Thread& own = of(thread);
        RaceWatcher* const watcher = own.all->watcher_;
        own.delay();
        if (watcher) watcher->arrive(own.agent, own.block, own.barriers);
        own.tell_place(false);
        own.block->barrier.arrive_and_wait();
        own.tell_place(true);
        if (watcher) watcher->leave(own.agent, own.block, own.barriers);
        ++own.barriers;
    }
    // The block's other threads do not wait for one that has ended.
    void end() const {
        tell_place(false);
        block->barrier.arrive_and_drop();
    }
    void tell_place(bool leaves) const {
        if (!all->at_barrier) return;
        AtBarrier now = place;
        now.number = barriers;
        now.leaves = leaves;
        all->at_barrier(now);
    }
    static void tell(const TwinThread* thread, const void* memory, std::uint64_t number,
                     std::uint32_t access) {
        RaceWatcher& watcher = *of(thread).all->watcher_;
        const RaceWatcher::Agent agent = of(thread).agent;
        switch (static_cast<jit::TwinAccess>(access)) {
            case jit::TwinAccess::read:
                return watcher.read(agent, memory, number);
            case jit::TwinAccess::write:
                return watcher.write(agent, memory, number);
            case jit::TwinAccess::acquire:
                return watcher.acquire(agent, memory, number);
            case jit::TwinAccess::release:
                return watcher.release(agent, memory, number);
        }
    }
    static std::uint64_t clock(const TwinThread* thread) {
        DeviceRanks& all = *of(thread).all;
        if (all.tick != 0) return all.time_.fetch_add(all.tick);
        return static_cast<std::uint64_t>(
            std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
    }
    // Sleeping gets the processor back sooner than yielding, where other programs want it, too.
    static void give_way(const TwinThread* thread) {
        if (const Thread& own = of(thread); own.all->at_poll) own.all->at_poll(own.place.rank);
        std::this_thread::sleep_for(std::chrono::microseconds(5));
    }
};

DeviceRanks::DeviceRanks(const std::vector<dsl::RankProgram>& programs, DataType type,
                         const compute::Reduction& op, std::uint64_t count, bool in_place,
                         RaceWatcher* watcher, bool shifts_outputs)
    : type_(type),
      op_(op),
      count_(count),
      in_place_(in_place),
      shifts_outputs_(shifts_outputs),
      watcher_(watcher) {
    make_plans(programs);
    for (const auto& rank : ranks_) place(*rank);
    for (std::size_t r = 0; r < ranks(); ++r) {
        Rank& rank = *ranks_[r];
        place_areas(rank);
        const auto& peers = rank.plan->program().local_peers;
        for (std::size_t p = 0; p < peers.size(); ++p) {
            Rank& peer = *ranks_[static_cast<std::size_t>(peers[p])];
            const auto& theirs = peer.plan->program().local_peers;
            const auto own = static_cast<std::size_t>(std::ranges::find(theirs, static_cast<dsl::Rank>(r)) -
                                                      theirs.begin());
            rank.inboxes.push_back(rank.lines[p].data());
            rank.outboxes.push_back(peer.lines[own].data());
            rank.peer_aborts.push_back(&peer.control.abort);
            rank.packets_here.push_back(rank.packets[p].data());
            rank.packets_there.push_back(peer.packets[own].data());
            rank.pulled_begin.push_back(rank.pulled[p].data());
        }
        rank.arguments = {.areas = rank.areas.data(),
                          .boundaries = rank.binding->byte_offsets.data(),
                          .stretches = nullptr,
                          .inboxes = rank.inboxes.data(),
                          .outboxes = rank.outboxes.data(),
                          .peer_aborts = rank.peer_aborts.data(),
                          .control = &rank.control,
                          .host_abort = &rank.host_abort,
                          .report = &rank.report,
                          .identity = 4711,
                          .deadline = std::uint64_t{60} * 1'000'000'000,
                          .factor = 2.0 * static_cast<double>(r) + 3,
                          .stripes = 1,
                          .most_stripes = most_stripes,
                          .packets = 0,
                          .most_packets = most_packets(rank),
                          .pushed = rank.copy.data(),
                          .packets_here = rank.packets_here.data(),
                          .packets_there = rank.packets_there.data(),
                          .pulled = rank.pulled_begin.data()};
    }
}

DeviceRanks::~DeviceRanks() = default;

std::size_t DeviceRanks::ranks() const {
    return ranks_.size();
}
const engine::Plan& DeviceRanks::plan(std::size_t rank) const {
    return *ranks_[rank]->plan;
}
jit::DeviceArguments& DeviceRanks::arguments(std::size_t rank) {
    return ranks_[rank]->arguments;
}
const jit::DeviceControl& DeviceRanks::control(std::size_t rank) const {
    return ranks_[rank]->control;
}
const jit::DeviceReport& DeviceRanks::report(std::size_t rank) const {
    return ranks_[rank]->report;
}
bool DeviceRanks::can_go_by_packets() const {
    return std::ranges::all_of(ranks_,
                               [](const auto& rank) { return jit::goes_by_packets(rank->plan->program()); });
}
bool DeviceRanks::has_clear_packets() const {
    for (const auto& rank : ranks_)
        for (const auto& packets : rank->packets)
            for (const jit::DevicePacket& packet : packets)
                if (packet.data != 0 || packet.start != 0) return false;
    return true;
}
void DeviceRanks::set_epoch(std::uint64_t epoch) {
    for (const auto& rank : ranks_) rank->control.epoch = epoch;
}
std::uint32_t& DeviceRanks::host_abort(std::size_t rank) {
    return ranks_[rank]->host_abort;
}

// ---- Memory -------------------------------------------------------------------------------------

void DeviceRanks::make_plans(const std::vector<dsl::RankProgram>& programs) {
    for (const dsl::RankProgram& program : programs) {
        auto rank = std::make_unique<Rank>();
        rank->plan = std::make_unique<engine::Plan>(program, type_, op_, engine::ExecutorKind::interpreter);
        rank->binding = rank->plan->bind(rank->plan->elements_of_x(count_));
        ranks_.push_back(std::move(rank));
    }
}

void DeviceRanks::place(Rank& rank) {
    const dsl::RankProgram& program = rank.plan->program();
    const std::uint64_t element = rank.plan->element();
    rank.input = elements_of(rank.plan->input(), *rank.plan, count_);
    rank.output = elements_of(rank.plan->output(), *rank.plan, count_);
    // In place, the smaller buffer is the rank's own part of the larger one. Here that is always the output.
    const bool is_one = in_place_ && rank.input > 0 && rank.output >= rank.input;
    if (shifts_outputs_ && program.rank % 2 != 0) rank.shift = element;
    rank.recv.resize(2 * margin + rank.shift + rank.output * element);
    if (!is_one) rank.send.resize(2 * margin + rank.input * element);
    if (is_one && rank.plan->input() == dsl::Share::own && rank.plan->output() == dsl::Share::whole)
        rank.begin =
            Layout(rank.plan->elements_of_x(count_)).piece_begin(program.rank, program.ranks) * element;
    rank.memory.resize(rank.binding->memory_bytes);
    rank.copy.resize(whole_packets(rank.input * element));
    rank.staged.resize(jit::stages_output(program) ? rank.output * element : 0);
    rank.lines.assign(program.local_peers.size(), std::vector<jit::DeviceLine>(2 * most_stripes));
    rank.packets.assign(program.local_peers.size(), std::vector<jit::DevicePacket>(2 * most_packets(rank)));
    rank.pulled.assign(program.local_peers.size(), Bytes(rank.copy.size()));
    const dsl::Formula formula = op_.defined() ? op_.defined()->formula : dsl::Formula();
    rank.code = twin_of(jit::device_shape_of(program, type_, op_.built_in(), formula), watcher_ != nullptr);
}

void DeviceRanks::place_areas(Rank& rank) {
    const dsl::RankProgram& program = rank.plan->program();
    const auto& offsets = rank.binding->byte_offsets;
    std::vector<std::byte*>& areas = rank.areas;
    areas.resize(jit::areas_of_kernel(program));
    const auto place_rank = [&](Rank& owner, dsl::AreaId first) {
        const dsl::RankProgram& own = owner.plan->program();
        std::byte* const output = jit::stages_output(own) ? owner.staged.data() : owner.output_memory();
        areas[first + dsl::input_area] = engine::virtual_base(owner.copy.data(), offsets[own.input_origin]);
        areas[first + dsl::output_area] = engine::virtual_base(output, offsets[own.output_origin]);
        areas[first + dsl::work_area] = owner.memory.data();
    };
    place_rank(rank, 0);
    for (std::size_t p = 0; p < program.local_peers.size(); ++p)
        place_rank(*ranks_[static_cast<std::size_t>(program.local_peers[p])],
                   dsl::RankProgram::local_peer_area(p, 0));
    for (std::size_t i = 0; i < program.scratch.size(); ++i)
        areas[program.first_scratch() + i] =
            engine::virtual_base(engine::address(rank.memory.data(), rank.binding->slot_offsets[i]),
                                 offsets[program.scratch[i].begin]);
    areas[jit::callers_input(program)] =
        engine::virtual_base(rank.input_memory(), offsets[program.input_origin]);
    areas[jit::callers_output(program)] =
        engine::virtual_base(rank.output_memory(), offsets[program.output_origin]);
    rank.packet_areas = areas;
    for (std::size_t p = 0; p < program.local_peers.size(); ++p) {
        const Rank& peer = *ranks_[static_cast<std::size_t>(program.local_peers[p])];
        rank.packet_areas[dsl::RankProgram::local_peer_area(p, dsl::input_area)] =
            engine::virtual_base(rank.pulled[p].data(), offsets[peer.plan->program().input_origin]);
    }
    for (auto* const all : {&rank.areas, &rank.packet_areas})
        engine::place_shifted(program, offsets.data(), all->data());
}

void DeviceRanks::fill(std::size_t r, std::uint64_t seed) {
    Rank& rank = *ranks_[r];
    if (watcher_)
        for (const Bytes* buffer : {&rank.send, &rank.recv})
            watcher_->write(agent_of(r, 0), buffer->data(), buffer->size());
    std::ranges::fill(rank.send, mark);
    std::ranges::fill(rank.recv, mark);
    std::mt19937_64 random(seed * 1000 + r);
    fill_with_random(type_, rank.input_memory(), rank.input, random);
}

void DeviceRanks::fill(std::uint64_t seed) {
    for (std::size_t r = 0; r < ranks(); ++r) {
        fill(r, seed);
        std::ranges::fill(ranks_[r]->memory, mark);
        std::ranges::fill(ranks_[r]->copy, mark);
        std::ranges::fill(ranks_[r]->staged, mark);
    }
}

DeviceRanks::Bytes DeviceRanks::buffers(std::size_t rank) const {
    if (watcher_)
        for (const Bytes* buffer : {&ranks_[rank]->send, &ranks_[rank]->recv})
            watcher_->read(agent_of(rank, 0), buffer->data(), buffer->size());
    Bytes all = ranks_[rank]->send;
    all.insert(all.end(), ranks_[rank]->recv.begin(), ranks_[rank]->recv.end());
    return all;
}

// ---- By the host's executor ---------------------------------------------------------------------

void DeviceRanks::copy_input(Rank& rank) {
    const std::uint64_t bytes = rank.input * rank.plan->element();
    if (rank.plan->multiplies())
        kernels::multiply(type_, rank.copy.data(), rank.input_memory(), rank.input, rank.arguments.factor);
    else if (bytes > 0)
        std::memcpy(rank.copy.data(), rank.input_memory(), bytes);
}

void DeviceRanks::run_by_host() {
    for (const auto& rank : ranks_) copy_input(*rank);
    std::vector<std::size_t> next(ranks(), 0);
    std::vector<std::uint32_t> signalled(ranks(), 0);
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < ranks(); ++r) {
            const dsl::RankProgram& program = ranks_[r]->plan->program();
            const auto& offsets = ranks_[r]->binding->byte_offsets;
            for (; next[r] < program.ops.size(); ++next[r], moved = true) {
                const dsl::Op& op = program.ops[next[r]];
                if (op.kind == dsl::Op::Kind::signal) signalled[r] = op.message;
                if (op.kind == dsl::Op::Kind::await &&
                    signalled[static_cast<std::size_t>(op.peer)] < op.message)
                    break;
                if (op.is_elementwise() && offsets[op.begin] < offsets[op.end])
                    ranks_[r]->plan->executor().run(static_cast<dsl::OpId>(next[r]), ranks_[r]->areas.data(),
                                                    offsets.data());
            }
        }
    }
    for (std::size_t r = 0; r < ranks(); ++r)
        if (next[r] < ranks_[r]->plan->program().ops.size()) throw std::logic_error("a rank is stuck");
    for (const auto& rank : ranks_)
        if (!rank->staged.empty())
            std::memcpy(rank->output_memory(), rank->staged.data(), rank->staged.size());
}

// ---- By the twins -------------------------------------------------------------------------------

void DeviceRanks::launch(std::size_t r, const DeviceLaunch& how) {
    Rank& rank = *ranks_[r];
    rank.stretches = jit::stretches_of(rank.binding->byte_offsets, how.stripes);
    rank.arguments.stretches = rank.stretches.data();
    rank.arguments.stripes = how.stripes;
    rank.arguments.areas = (how.by_packets ? rank.packet_areas : rank.areas).data();
    rank.arguments.packets = how.by_packets ? most_packets(rank) : 0;
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<Block>> blocks;
    std::vector<std::unique_ptr<Thread>> all;
    for (std::uint32_t b = 0; b < how.blocks; ++b) {
        blocks.push_back(std::make_unique<Block>(how.threads));
        for (std::uint32_t t = 0; t < how.threads; ++t) {
            auto thread = std::make_unique<Thread>();
            static_cast<jit::TwinThread&>(*thread) = {.thread = t,
                                                      .threads = how.threads,
                                                      .blocks = how.blocks,
                                                      .shared = blocks.back()->shared,
                                                      .barrier = Thread::wait_for_block,
                                                      .now = Thread::clock,
                                                      .pause = Thread::give_way,
                                                      .touch = watcher_ ? Thread::tell : nullptr};
            thread->all = this;
            thread->block = blocks.back().get();
            thread->agent = agent_of(r, 1 + b * how.threads + t);
            thread->place = {.rank = r, .block = b, .thread = t, .number = 0, .leaves = false};
            thread->random.seed(how.seed * 7919 + r * 101 + b * 11 + t);
            if (watcher_) watcher_->begin(thread->agent, agent_of(r, 0));
            threads.emplace_back([&rank, own = thread.get()] {
                rank.code(&rank.arguments, own);
                own->end();
            });
            all.push_back(std::move(thread));
        }
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i]->barriers != all[i / how.threads * how.threads]->barriers) barriers_differ_ = true;
    if (watcher_)
        for (const auto& thread : all) {
            watcher_->end(thread->agent, agent_of(r, 0));
            watcher_->end_block(thread->block);
        }
}

void DeviceRanks::launch_all(const DeviceLaunch& how, const std::vector<bool>& absent) {
    std::vector<std::thread> streams;
    for (std::size_t r = 0; r < ranks(); ++r)
        if (absent.empty() || !absent[r]) streams.emplace_back([this, r, &how] { launch(r, how); });
    for (std::thread& stream : streams) stream.join();
}

}  // namespace hocket::test
