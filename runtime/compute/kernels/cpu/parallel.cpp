#include "runtime/compute/kernels/cpu/parallel.hpp"

#include <exception>

#include "runtime/base/thread.hpp"

namespace hocket::kernels {

Team::Team(unsigned parts) : parts_(parts) {
    threads_.reserve(parts - 1);
    try {
        for (unsigned part = 1; part < parts; ++part)
            threads_.push_back(start_thread("hocket-kernel", [this, part] { serve(part); }));
    } catch (const std::exception&) {  // the system starts no more threads, or has no memory for one
    }
}

Team::~Team() {
    work_ = nullptr;
    pass_.fetch_add(1, std::memory_order_release);
    pass_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Team::run(const std::function<void(unsigned)>& work) {
    work_ = &work;
    busy_.store(static_cast<std::uint32_t>(threads_.size()), std::memory_order_relaxed);
    pass_.fetch_add(1, std::memory_order_release);
    pass_.notify_all();
    work(0);
    for (auto part = static_cast<unsigned>(threads_.size()) + 1; part < parts_; ++part) work(part);
    while (const std::uint32_t busy = busy_.load(std::memory_order_acquire)) busy_.wait(busy);
}

void Team::serve(unsigned part) {
    for (std::uint32_t seen = 0;; ++seen) {
        pass_.wait(seen, std::memory_order_acquire);
        if (work_ == nullptr) return;
        (*work_)(part);
        if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
    }
}

void in_parallel(unsigned parts, const std::function<void(unsigned)>& work) {
    if (parts == 1) return work(0);
    Team(parts).run(work);
}

}  // namespace hocket::kernels
