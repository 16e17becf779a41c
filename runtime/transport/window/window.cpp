#include "runtime/transport/window/window.hpp"

#include <fmt/format.h>

#include <bit>

#include "runtime/base/error.hpp"

namespace hocket::transport {

std::unique_ptr<Window> Window::open(WindowInvitation invitation, const std::vector<std::string>& names,
                                     int self, std::size_t reserved,
                                     std::chrono::steady_clock::time_point deadline,
                                     const std::function<std::optional<std::string>()>& abandoned) {
    const int members = static_cast<int>(names.size());
    if (self < 0 || self >= members || names[static_cast<std::size_t>(self)] != invitation.name())
        throw Error(Status::invalid_argument, fmt::format("member {} of {} is not the one invited as {}",
                                                          self, members, invitation.name()));
    std::unique_ptr<Window> window;
    const auto own_part = [&]() -> OwnWindowPart {
        window.reset(new Window(ProcessMemory::current(), reserved, names, self, invitation.take_bell()));
        const WindowMemory& memory = window->own_->memory();
        return {memory.file().fd(), {memory.bytes(), window->part_.offset, window->part_.bytes}};
    };
    exchange_parts(invitation, names, self, own_part,
                   [&](int member, WindowPart part) { window->take(member, std::move(part)); },
                   {deadline, abandoned});
    window->is_open_ = true;
    return window;
}

Window::Window(std::shared_ptr<ProcessMemory> own, std::size_t reserved,
               const std::vector<std::string>& names, int self, Doorbell bell)
    : own_(std::move(own)),
      part_(own_->open_part(reserved, static_cast<int>(names.size()))),
      bell_(std::move(bell)),
      views_(names.size()),
      self_(self) {
    for (const std::string& name : names) bells_.emplace_back(WindowInvitation::bell_name(name));
    views_[static_cast<std::size_t>(self)] = {&own_->memory(), part_.reserved, part_.bytes, nullptr};
}

void Window::take(int member, WindowPart part) {
    const WindowPlaces places = part.places;
    if (places.reserved > places.bytes || places.reserved_bytes > places.bytes - places.reserved ||
        places.reserved_bytes != part_.bytes || places.reserved % page_bytes != 0)
        throw Error(Status::bootstrap,
                    fmt::format("member {} of this host reserves {} bytes at {} of its {} "
                                "shared bytes, where this rank reserves {}",
                                member, places.reserved_bytes, places.reserved, places.bytes, part_.bytes));
    auto memory = PeerMemory::of(std::move(part.memory), places.bytes);
    std::byte* const reserved = memory->memory().at(places.reserved, places.reserved_bytes);
    views_[static_cast<std::size_t>(member)] = {&memory->memory(), reserved, places.reserved_bytes,
                                                std::move(memory)};
}

Window::~Window() {
    if (generation_ != forks::generation()) return;  // a forked child owns none of it
    if (is_open_)
        for (const View& view : views_) ProcessMemory::leave(view.reserved, view.reserved_bytes);
    for (const auto& [memory, times] : adopted_)
        for (int i = 0; i < times; ++i) try {
                ProcessMemory::restore_anywhere(memory);
            } catch (const Error&) {  // freed meanwhile, or still shared, which is harmless
            }
    bells_.erase(bells_.begin() + self_);
    own_->close_part(part_, has_failed_, std::move(bells_));
}

void Window::quarantine() {
    if (!has_failed_.exchange(true)) own_->retire(part_);
}

void* Window::allocate(std::size_t bytes, std::size_t alignment, Known known) {
    if (!std::has_single_bit(alignment) || alignment > huge_page_bytes)
        throw Error(Status::invalid_argument,
                    fmt::format("alignment {}: it must be a power of two, at most 2 MiB", alignment));
    own_->release_what_was_left();
    const bool large = bytes >= huge_page_bytes;
    const auto offset = own_->heap().allocate(bytes, large ? huge_page_bytes : alignment, part_.owner, known);
    if (!offset)
        throw Error(
            Status::out_of_memory,
            fmt::format(
                "no room for {} bytes of shared memory: {}. A block may be as large as the machine's memory, "
                "or as the limit of the size of files (ulimit -f) allowed when the first communicator was "
                "made",
                bytes, own_->heap().left()));
    if (large) own_->memory().enlarge(*offset, bytes / huge_page_bytes * huge_page_bytes);
    return own_->memory().at(*offset, bytes);
}

void Window::release(void* memory) {
    if (!memory) return;
    const auto offset = own_->memory().offset_of(memory, 1);
    if (!offset || memory == part_.reserved || !own_->heap().release(*offset, part_.owner))
        throw Error(
            Status::invalid_argument,
            fmt::format("{} is not the beginning of a block of shared memory that this communicator has "
                        "allocated",
                        memory));
}

void Window::adopt(void* memory, std::size_t bytes) {
    own_->release_what_was_left();
    const std::lock_guard lock(adopting_);
    const auto entry = adopted_.try_emplace(memory, 0).first;  // first, so that a failure needs no undo
    try {
        own_->adopted().adopt(memory, bytes);
    } catch (...) {
        if (entry->second == 0) adopted_.erase(entry);
        throw;
    }
    ++entry->second;
}

void Window::restore(void* memory) {
    const std::lock_guard lock(adopting_);
    const auto found = adopted_.find(memory);
    if (found == adopted_.end())
        throw Error(Status::invalid_argument,
                    fmt::format("no memory that was registered with this communicator begins at {}", memory));
    const auto taken_back = [&] {
        if (--found->second == 0) adopted_.erase(found);
    };
    try {
        ProcessMemory::restore_anywhere(memory);
    } catch (const Error& error) {
        if (error.status() != Status::out_of_memory) taken_back();  // else it is still shared
        throw;
    }
    taken_back();
}

}  // namespace hocket::transport
