#include "tests/multi/soak/stream.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>
#include <tuple>

#include "capi/vocabulary.hpp"
#include "tools/bench/comm.hpp"

namespace hocket::soak {
namespace {

constexpr std::size_t most_in_flight = 12;  // more than a host's ranks move at a time
constexpr std::size_t page = 4096;
constexpr std::uint64_t rounds_of_letters = 50;  // until each rank has spoken with each, in both manners

// A collective's own function keeps a plan for each of these.
auto kept_as(const Operation& operation) {
    const bench::Layout& layout = operation.layout;
    return std::tuple(layout.subject.collective, layout.subject.kind, layout.type, layout.op, layout.root);
}

auto planned_as(const Operation& operation) {
    return std::tuple_cat(kept_as(operation),
                          std::tuple(std::string(operation.schedule), operation.executor));
}

}  // namespace

void Tally::add(const Tally& other) {
    for (const auto& [what, count] : other.counts) counts[what] += count;
    operations += other.operations;
    bytes += other.bytes;
}

Arena::Arena(hkt_comm* comm, Kind kind, std::size_t bytes) : comm_(comm), kind_(kind) {
    bytes = (bytes + page - 1) / page * page;
    void* memory = nullptr;
    hkt_status status = HKT_SUCCESS;
    if (kind == Kind::allocated)
        status = hkt_mem_alloc(comm, bytes, &memory);
    else
        memory = std::aligned_alloc(page, bytes);
    if (kind == Kind::registered && memory) status = hkt_mem_register(comm, memory, bytes);
    if (status != HKT_SUCCESS || !memory) {
        fmt::print(stderr, "soak: no memory of {} bytes: {}\n", bytes, hkt_comm_last_error(comm));
        std::_Exit(1);
    }
    data_ = static_cast<unsigned char*>(memory);
    std::memset(data_, 0, bytes);  // all pages are there from now on
}

Arena::~Arena() {
    if (kind_ == Kind::allocated) {
        hkt_mem_free(comm_, data_);
        return;
    }
    if (kind_ == Kind::registered) hkt_mem_deregister(comm_, data_);
    std::free(data_);
}

// The operations under way on this rank, their plans, and their requests until they are complete.
struct Stream::Batch {
    std::vector<Placed> operations;
    std::vector<hkt_request*> requests;
    std::map<decltype(planned_as(Operation{})), Plan> plans;
};

Stream::Stream(const hkt_comm_options& options, const Shape& shape) : shape_(shape) {
    hkt_comm* comm = nullptr;
    check(hkt_comm_create(&options, &comm), "cannot join");
    comm_.reset(comm);
    rank_ = hkt_comm_rank(comm);
    ranks_ = hkt_comm_size(comm);
    const std::size_t bytes = shape.most_bytes + most_in_flight * Placed::room(page);
    for (auto* arenas : {&from_, &to_})
        for (std::size_t kind = 0; kind < arenas->size(); ++kind)
            (*arenas)[kind] = std::make_unique<Arena>(comm, static_cast<Arena::Kind>(kind), bytes);
}

Stream::~Stream() = default;

bool Stream::agree(bool what) {
    std::int32_t word = what;
    under_way_ = "broadcast of whether to go on";
    check(hkt_broadcast(&word, &word, 1, HKT_INT32, 0, comm_.get(), nullptr), "it failed");
    return word != 0;
}

void Stream::warm_up() {
    Chance own{shape_.seed, shape_.number, static_cast<std::uint64_t>(rank_)};
    for (const bench::Subject& subject : all_collectives())
        for (const hkt_type type : capi::all_types)
            for (const hkt_op op : ops_for(subject, type))
                for (int root = 0; root < (subject.contract().has_root() ? ranks_ : 1); ++root)
                    for (std::size_t bytes = 1; bytes < 2 * shape_.most_bytes; bytes *= 2) {
                        Operation operation;
                        operation.layout = bench::layout_for(subject, type, op, root, rank_, ranks_,
                                                             std::min(bytes, shape_.most_bytes));
                        warm_up_divided(operation, own);
                    }
    for (std::uint64_t round = 0; round < rounds_of_letters; ++round) {
        Chance common{shape_.seed, shape_.number, round};
        under_way_ = "messages between two ranks";
        Letters letters(common, comm_.get(), shape_.most_bytes);
        start(letters, own);
        finish(letters, own);
    }
}

// A plan's kept memory is linear in the size of each rank's piece, so it is largest if one rank has all
// elements.
void Stream::warm_up_divided(Operation operation, Chance& own) {
    if (!operation.layout.subject.has_counts()) return warm_up(operation, own);
    const auto ranks = static_cast<std::size_t>(ranks_);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::vector<std::size_t> pieces(ranks, 0);
        pieces[rank] = operation.layout.count;
        operation.layout.divide(pieces);
        warm_up(operation, own);
    }
}

void Stream::warm_up(const Operation& operation, Chance& own) {
    under_way_ = operation.text();
    const auto plain = static_cast<std::size_t>(Arena::Kind::plain);
    Batch batch;
    batch.operations.emplace_back(operation, from_[plain]->data(), to_[plain]->data(), false, own);
    start(batch, 0, true);
}

void Stream::run(std::uint64_t episode, std::uint64_t step) {
    Chance chance{shape_.seed, episode, shape_.number, step},
        own{shape_.seed, episode, shape_.number, step, static_cast<std::uint64_t>(rank_) + 1};
    const std::vector<Operation> chosen = choose(chance);
    const std::size_t barrier_before = chance.one_in(4) ? chance.below(chosen.size()) : chosen.size();
    const bool somebody_is_late = chance.one_in(10);
    const bool late = somebody_is_late &&
                      chance.below(static_cast<std::uint64_t>(ranks_)) == static_cast<std::uint64_t>(rank_);
    Batch batch;
    episode_ = episode;
    under_way_ = fmt::format("communicator {}, step {}:", shape_.number, step);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        batch.operations.push_back(place(chosen[i], i, chosen.size(), own));
        under_way_ += fmt::format("\n    {}: {}{}", i, chosen[i].text(),
                                  batch.operations.back().is_in_place() ? ", in place" : "");
    }
    batch.requests.resize(chosen.size());
    std::optional<Letters> letters;
    if (chance.one_in(4)) letters.emplace(chance, comm_.get(), shape_.most_bytes);
    // No rank needs to know where among the collectives the others start and end theirs.
    const bool letters_go_first = own.one_in(2), letters_end_first = own.one_in(2);
    if (late) std::this_thread::sleep_for(std::chrono::microseconds(own.log_uniform(100'000)));
    if (somebody_is_late) ++tally_.counts["times that a rank was late"];
    const bool waits = chosen.size() == 1 && own.one_in(2);
    if (letters && letters_go_first) start(*letters, own);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (i == barrier_before) {
            check(hkt_barrier(comm_.get()), fmt::format("the barrier before {} failed", i));
            ++tally_.counts["barriers"];
        }
        start(batch, i, waits);
    }
    if (letters && !letters_go_first) start(*letters, own);
    if (letters && letters_end_first) finish(*letters, own);
    if (!waits) finish(batch, own);
    if (letters && !letters_end_first) finish(*letters, own);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (const std::string fault = batch.operations[i].fault(); !fault.empty())
            fail(fmt::format("{}: {}", i, fault));
        count(chosen[i]);
    }
    tally_.counts["plans made"] += batch.plans.size();
}

std::vector<Operation> Stream::choose(Chance& chance) const {
    const std::size_t number = chance.one_in(2)   ? 1
                               : chance.one_in(8) ? most_in_flight
                                                  : chance.between(2, most_in_flight / 2);
    std::vector<Operation> chosen;
    while (chosen.size() < number) {
        const Operation operation =
            Operation::random(chance, rank_, ranks_, shape_.most_bytes / number, shape_.is_lasting ? 32 : 4);
        const auto is_same = [&](const Operation& other) { return kept_as(other) == kept_as(operation); };
        if (shape_.is_lasting && std::ranges::any_of(chosen, is_same)) continue;
        chosen.push_back(operation);
    }
    return chosen;
}

// Each operation has a part of its own of every arena, and takes the kinds of memory as it comes.
Placed Stream::place(const Operation& operation, std::size_t index, std::size_t of, Chance& own) const {
    const std::size_t offset = index * Placed::room(shape_.most_bytes / of);
    return Placed(operation, own.one_of(from_)->data() + offset, own.one_of(to_)->data() + offset,
                  own.one_in(3), own);
}

hkt_plan* Stream::plan_for(Batch& batch, const Operation& operation) {
    Plan& plan = batch.plans[planned_as(operation)];
    if (plan) return plan.get();
    const bench::Layout& layout = operation.layout;
    hkt_plan_options how = HKT_PLAN_OPTIONS_INIT;
    how.schedule = operation.schedule;
    how.root = layout.root;
    how.executor = operation.executor;
    hkt_plan* made = nullptr;
    const bench::Operator op(comm_.get(), layout.op);
    check(hkt_plan_create(comm_.get(), layout.subject.collective, layout.type, op.given(), &how, &made),
          "making the plan of " + operation.text() + " failed");
    plan.reset(made);
    return made;
}

void Stream::start(Batch& batch, std::size_t index, bool waits) {
    const Placed& placed = batch.operations[index];
    const bench::Layout& layout = placed.operation().layout;
    hkt_comm* comm = comm_.get();
    hkt_request** request = waits ? nullptr : &batch.requests[index];
    const auto call = [&] {
        if (placed.operation().schedule)
            return hkt_plan_start(plan_for(batch, placed.operation()), placed.send(), placed.recv(),
                                  layout.count, request);
        return call_function(layout, placed.send(), placed.recv(), comm, request);
    };
    check(call(), fmt::format("starting {} failed", index));
}

void Stream::start(Letters& letters, Chance& own) {
    letters.start(own, [this](hkt_status status, const std::string& what) { check(status, what); });
    tally_.counts["messages sent"] += letters.sent();
}

void Stream::finish(Letters& letters, Chance& own) {
    const std::string fault =
        letters.finish(own, [this](hkt_status status, const std::string& what) { check(status, what); });
    if (!fault.empty()) fail(fault);
}

void Stream::finish(Batch& batch, Chance& own) {
    std::vector<std::size_t> order(batch.operations.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::uint64_t way = own.below(4);
    if (way == 0) return poll(batch);
    if (way != 1) own.shuffle(order);
    std::thread other;
    if (way == 3) {
        const std::vector<std::size_t> theirs(order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2),
                                              order.end());
        order.resize(order.size() / 2);
        other = std::thread([this, &batch, theirs] {
            for (const std::size_t index : theirs) finish_one(batch, index);
        });
    }
    for (const std::size_t index : order) finish_one(batch, index);
    if (other.joinable()) other.join();
    constexpr const char* names[] = {"", "waits in order", "waits in another order", "waits of two threads"};
    ++tally_.counts[names[way]];
}

void Stream::finish_one(Batch& batch, std::size_t index) {
    check(hkt_wait(batch.requests[index]), fmt::format("{} failed", index));
}

void Stream::poll(Batch& batch) {
    for (std::size_t left = batch.requests.size(); left > 0; sched_yield())
        for (std::size_t i = 0; i < batch.requests.size(); ++i) {
            if (!batch.requests[i]) continue;
            const hkt_status status = hkt_test(batch.requests[i]);
            if (status == HKT_IN_PROGRESS) continue;
            check(status, fmt::format("{} failed", i));
            batch.requests[i] = nullptr;
            --left;
        }
    ++tally_.counts["waits by hkt_test"];
}

void Stream::count(const Operation& operation) {
    ++tally_.counts[operation.layout.subject.name() + "s"];
    ++tally_.operations;
    tally_.bytes += operation.layout.larger_bytes();
}

void Stream::check(hkt_status status, const std::string& what) const {
    if (status != HKT_SUCCESS)
        fail(fmt::format("{}: {}: {}", what, hkt_error_string(status), hkt_comm_last_error(comm_.get())));
}

// At once: other threads may be waiting, for this one too.
void Stream::fail(const std::string& what) const {
    const char* provider = comm_ ? info("provider") : "not joined";
    fmt::print(stderr, "soak: rank {} of {} ({}), episode {}, {}\n  {}\n  to repeat it: {} --from {}\n",
               rank_, ranks_, provider, episode_, under_way_, what, shape_.command, episode_);
    std::fflush(nullptr);
    std::_Exit(1);
}

}  // namespace hocket::soak
