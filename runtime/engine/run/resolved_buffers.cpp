#include "runtime/engine/run/resolved_buffers.hpp"

#include "runtime/engine/run/direct_start.hpp"
#include "runtime/engine/run/kernel_start.hpp"
#include "runtime/engine/run/staged.hpp"

namespace hocket::engine {

ResolvedBuffers::ResolvedBuffers() = default;
ResolvedBuffers::~ResolvedBuffers() = default;
ResolvedBuffers::ResolvedBuffers(ResolvedBuffers&&) noexcept = default;
ResolvedBuffers& ResolvedBuffers::operator=(ResolvedBuffers&&) noexcept = default;

ResolvedBuffers::ResolvedBuffers(Start& start, const device::Buffers* on_device, SharedKernels& kernels,
                                 const transport::Window* window) {
    if (start.is_kernel)
        direct_ = std::make_unique<KernelStart>(start, *on_device, kernels);
    else if (on_device)
        direct_ = DirectStart::begin(start, *on_device);
    start.direct = direct_.get();
    if (on_device && !direct_) staging_ = stage(start, *on_device);
    start.staging = staging_.get();
    if (window) outer_pages_ = OuterPages(start, *window);
}

void ResolvedBuffers::go_by_host(Start& start) {
    staging_ = direct_->stage(start);
    direct_.reset();
}

bool ResolvedBuffers::is_waiting() const {
    return direct_ && direct_->is_waiting();
}

std::string ResolvedBuffers::awaited() const {
    return direct_->awaited();
}

void ResolvedBuffers::write_back() const {
    outer_pages_.finish();
    if (staging_) staging_->hand_over();
}

}  // namespace hocket::engine
