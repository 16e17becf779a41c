#include "runtime/device/by_host.hpp"

namespace hocket::device {

void ByHost::note(const std::string& reason) {
    {
        const std::lock_guard lock(mutex_);
        if (!reasons_.insert(reason).second) return;
        texts_.push_back(texts_.back() + (texts_.back().empty() ? "" : "\n") + reason);
    }
    tell_(reason);
}

const std::string& ByHost::text() const {
    const std::lock_guard lock(mutex_);
    return texts_.back();
}

}  // namespace hocket::device
