#include "runtime/engine/answers.hpp"

#include <algorithm>
#include <exception>
#include <list>
#include <utility>

namespace hocket::engine {

Answers::Answers(transport::Bootstrap& bootstrap, Find find) : bootstrap_(bootstrap), find_(std::move(find)) {
    bootstrap_.on_question([this](std::uint64_t number) { hear(number); });
}

Answers::~Answers() {
    bootstrap_.on_question({});
    caller_.finish();
}

// Without memory for an answer there is none: the one who asks asks again.
void Answers::hear(std::uint64_t number) noexcept {
    try {
        caller_.prepare();
        std::list<Call> call{{[](void* self) { static_cast<Answers*>(self)->answer(); }, this}};
        const std::lock_guard lock(mutex_);
        if (std::ranges::find(questions_, number) != questions_.end()) return;
        questions_.push_back(number);
        caller_.add(call, call.begin());
    } catch (const std::exception&) {
    }
}

void Answers::answer() noexcept {
    std::unique_lock lock(mutex_);
    const std::uint64_t number = questions_.front();
    lock.unlock();
    tell(find_, number);
    lock.lock();
    questions_.pop_front();
}

void Answers::answer_here(const Find& find) noexcept {
    try {
        std::unique_lock lock(mutex_);
        const auto open = questions_;
        lock.unlock();
        for (const std::uint64_t number : open) tell(find, number);
    } catch (const std::exception&) {
    }
}

void Answers::tell(const Find& find, std::uint64_t number) noexcept {
    try {
        if (const auto account = find(number)) bootstrap_.tell(*account);
    } catch (const std::exception&) {
    }
}

}  // namespace hocket::engine
