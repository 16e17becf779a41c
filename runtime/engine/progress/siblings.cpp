#include "runtime/engine/progress/siblings.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "runtime/base/forks.hpp"

namespace hocket::engine {
namespace {

struct Family {
    std::mutex mutex;
    std::vector<Sibling*> all;
};

}  // namespace

Sibling::Sibling(Waits waits) : waits_(std::move(waits)), generation_(forks::generation()) {
    Family& family = forks::own<Family>();
    const std::lock_guard lock(family.mutex);
    family.all.push_back(this);
}

Sibling::~Sibling() {
    if (generation_ != forks::generation()) return;  // a child process has none of its parent's siblings
    Family& family = forks::own<Family>();
    const std::lock_guard lock(family.mutex);
    std::erase(family.all, this);
}

void Sibling::call(std::string name) {
    Family& family = forks::own<Family>();
    const std::lock_guard lock(family.mutex);
    name_ = std::move(name);
}

std::vector<std::string> Sibling::others_wait_in() const {
    Family& family = forks::own<Family>();
    const std::lock_guard lock(family.mutex);
    std::vector<std::string> texts;
    for (const Sibling* other : family.all)
        if (other != this)
            if (const auto operation = other->waits_()) texts.push_back(*operation + " of " + other->name_);
    return texts;
}

}  // namespace hocket::engine
