#include "tools/schedc/imports/mscclpp/ordering.hpp"

#include <algorithm>

namespace hocket::tools::imports::mscclpp {

Ordering::Ordering(const Plan& plan, std::size_t units)
    : plan_(plan), puts_(plan.streams.size()), signals_(plan.streams.size()) {
    for (std::size_t g = 0; g < plan.blocks.size(); ++g) {
        for (std::size_t b = 0; b < plan.blocks[g].size(); ++b) knowledge_.emplace_back(units);
        releases_.emplace_back(plan.semaphores[g].size());
        acquired_.emplace_back(plan.semaphores[g].size());
    }
    streams_.resize(knowledge_.size());
}

std::optional<int> Ordering::awaited(int gpu, const Operation& op) const {
    if (op.kind == Kind::wait)
        for (const int stream : op.streams)
            if (std::ssize(signals_[stream]) < std::ranges::count(op.streams, stream)) return stream;
    if (op.kind == Kind::acquire)
        for (const int semaphore : op.semaphores)
            if (acquired_[gpu][semaphore] + std::ranges::count(op.semaphores, semaphore) >
                plan_.semaphores[gpu][semaphore] + std::ssize(releases_[gpu][semaphore]))
                return semaphore;
    return std::nullopt;
}

void Ordering::act(int block, int gpu, const Operation& op) {
    if (op.kind == Kind::nop) settle(block);
    for (std::size_t i = 0; i < op.streams.size(); ++i) {
        const int lane = static_cast<int>(i);
        if (op.kind == Kind::signal) signal(block, op.streams[i], lane, op.is_relaxed);
        if (op.kind == Kind::wait) wait(block, op.streams[i], op.is_relaxed);
        if (op.kind == Kind::flush) flush(block, op.streams[i], lane);
    }
    for (const int semaphore : op.semaphores) {
        if (op.kind == Kind::acquire) acquire(block, gpu, semaphore);
        if (op.kind == Kind::release) releases_[gpu][semaphore].push_back(knowledge_[block].settled());
    }
}

void Ordering::meet(const std::vector<int>& blocks) {
    Clock together = knowledge_[blocks[0]].all();
    for (const int block : blocks) join(together, knowledge_[block].all());
    for (const int block : blocks) {
        knowledge_[block].add(together);
        settle(block);
    }
}

void Ordering::settle(int block) {
    knowledge_[block].settle();
    for (const int stream : streams_[block])
        for (Put& put : puts_[stream])
            if (put.block == block) put.is_settled = true;
}

void Ordering::put(int block, int stream, int lane, int unit) {
    puts_[stream].push_back({unit, block, lane, false});
    streams_[block].insert(stream);
}

void Ordering::signal(int block, int stream, int lane, bool is_relaxed) {
    Signal one{knowledge_[block].settled(), {}, is_relaxed};
    for (const Put& put : puts_[stream])
        if (is_before(put, block, lane)) one.units.push_back(put.unit);
    signals_[stream].push_back(std::move(one));
}

void Ordering::flush(int block, int stream, int lane) {
    std::erase_if(puts_[stream], [&](const Put& put) {
        const bool is_done = is_before(put, block, lane);
        if (is_done) knowledge_[block].add(put.unit, is_seen);
        return is_done;
    });
}

void Ordering::wait(int block, int stream, bool is_relaxed) {
    const Signal signal = std::move(signals_[stream].front());
    signals_[stream].pop_front();
    is_relaxed = is_relaxed || signal.is_relaxed;
    if (is_relaxed) {
        Clock reads(signal.known->size());
        join_reads(reads, *signal.known);
        knowledge_[block].add(reads);
    } else {
        knowledge_[block].add(*signal.known);
    }
    for (const int unit : signal.units) knowledge_[block].add(unit, is_relaxed ? is_over : is_seen);
}

// Releases and acquisitions are each of one threadblock: the n-th belong together.
void Ordering::acquire(int block, int gpu, int semaphore) {
    const int number = acquired_[gpu][semaphore]++ - plan_.semaphores[gpu][semaphore];
    if (number >= 0) knowledge_[block].add(*releases_[gpu][semaphore][static_cast<std::size_t>(number)]);
}

}  // namespace hocket::tools::imports::mscclpp
