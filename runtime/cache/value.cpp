#include "runtime/cache/value.hpp"

#include <exception>

namespace hocket::cache {

std::byte* Value::reserve(std::uint64_t wanted) noexcept {
    try {
        if (block) {
            trouble_ = "it asked for room twice";
            return nullptr;
        }
        use_.bytes = wanted;
        gate_.check_fits(wanted, beside_);
        block = gate_.wait_blocking(use_, deadline_);
        if (!block) {
            found_no_room_ = true;
            trouble_ = gate_.why_full(wanted);
        }
        bytes = wanted;
        return block.data();
    } catch (const std::exception& error) {
        trouble_ = error.what();
        return nullptr;
    }
}

}  // namespace hocket::cache
