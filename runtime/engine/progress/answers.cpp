#include "runtime/engine/progress/answers.hpp"

#include <algorithm>
#include <exception>
#include <list>
#include <utility>
#include <vector>

namespace hocket::engine {

Answers::Answers(transport::Bootstrap& bootstrap, Find find) : bootstrap_(bootstrap), find_(std::move(find)) {
    bootstrap_.on_question([this](std::uint64_t number) { hear(number); });
}

void Answers::finish() {
    bootstrap_.on_question({});
    caller_.finish();
}

// If there is no memory, the question is dropped: the rank that asked will ask again.
void Answers::hear(std::uint64_t number) noexcept {
    try {
        caller_.prepare();
        std::list<Call> call{{[](void* self) { static_cast<Answers*>(self)->answer(); }, this}};
        const std::lock_guard lock(mutex_);
        const auto known = std::ranges::find(questions_, number, &Question::number);
        if (known != questions_.end()) {
            known->was_answered_here = false;
            return;
        }
        questions_.push_back({number});
        caller_.add(call, call.begin());
    } catch (const std::exception&) {
    }
}

void Answers::answer() noexcept {
    std::unique_lock lock(mutex_);
    const std::uint64_t number = questions_.front().number;
    lock.unlock();
    tell(find_, number);
    lock.lock();
    questions_.pop_front();
}

void Answers::answer_here(const Find& find) noexcept {
    try {
        std::vector<std::uint64_t> open;
        {
            const std::lock_guard lock(mutex_);
            for (Question& question : questions_)
                if (!std::exchange(question.was_answered_here, true)) open.push_back(question.number);
        }
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
