#include "runtime/cache/room/value.hpp"

#include <exception>

namespace hocket::cache {

std::byte* Value::reserve(std::uint64_t wanted) noexcept {
    try {
        if (block) {
            trouble_ = "it asked for room twice";
            return nullptr;
        }
        use_.bytes = wanted;
        gate_.check_fits(use_);
        ArenaBlock spare = spare_ == nullptr ? ArenaBlock() : spare_->take();
        if (spare && spare.bytes() >= wanted) {
            block = std::move(spare);
            block.shrink(wanted);
        } else {
            spare = ArenaBlock();
            block = gate_.wait_blocking(use_, deadline_);
        }
        if (!block) {
            found_no_room_ = true;
            if (!use_.position) trouble_ = gate_.why_full(wanted);  // slow, because it looks at every sample
        }
        bytes = wanted;
        return block.data();
    } catch (const std::exception& error) {
        trouble_ = error.what();
        return nullptr;
    }
}

}  // namespace hocket::cache
