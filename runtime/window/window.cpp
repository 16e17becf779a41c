#include "runtime/window/window.hpp"

#include <fmt/format.h>

#include <bit>

#include "runtime/error.hpp"

namespace hocket::transport {

std::unique_ptr<Window> Window::open(WindowInvitation invitation, const std::vector<std::string>& names,
                                     int self, std::size_t reserved,
                                     std::chrono::steady_clock::time_point deadline,
                                     const std::function<std::optional<std::string>()>& abandoned) {
    const int members = static_cast<int>(names.size());
    if (self < 0 || self >= members || names[static_cast<std::size_t>(self)] != invitation.name())
        throw Error(Status::invalid_argument, fmt::format("member {} of {} is not the one invited as {}",
                                                          self, members, invitation.name()));
    const Patience patience{deadline, abandoned};
    const auto obtain = [&] {
        if (self != 0) {
            WindowOffer offer = fetch_offer(names, self, patience);
            return WindowMemory(std::move(offer.memory), members, offer.slice_bytes);
        }
        WindowMemory memory = WindowMemory::make(members, reserved);
        hand_out(invitation, names, memory.file().fd(), memory.slice_bytes(), patience);
        return memory;
    };
    WindowMemory memory = obtain();
    return std::unique_ptr<Window>(
        new Window(std::move(memory), std::move(invitation).take_bell(), names, self, reserved));
}

Window::Window(WindowMemory memory, Doorbell bell, const std::vector<std::string>& names, int self,
               std::size_t reserved)
    : memory_(std::move(memory)),
      bell_(std::move(bell)),
      self_(self),
      heap_(round_up(reserved, page_bytes), memory_.slice_bytes(),
            [this](std::uint64_t offset, std::uint64_t bytes) { memory_.discard(self_, offset, bytes); }),
      adopted_(memory_, self, heap_) {
    for (const std::string& name : names) bells_.emplace_back(WindowInvitation::bell_name(name));
    begin();
}

// A forked child may use its memory as it likes, but nobody else sees what it writes.
void Window::in_child() noexcept {
    adopted_.become_private_in_child();
    memory_.become_private_in_child(self_);
}

void* Window::allocate(std::size_t bytes, std::size_t alignment) {
    if (!std::has_single_bit(alignment) || alignment > huge_page_bytes)
        throw Error(Status::invalid_argument,
                    fmt::format("alignment {}: it must be a power of two, at most 2 MiB", alignment));
    const bool large = bytes >= huge_page_bytes;
    const auto offset = heap_.allocate(bytes, large ? huge_page_bytes : alignment);
    if (!offset)
        throw Error(
            Status::out_of_memory,
            fmt::format("no room for {} bytes of shared memory: of this rank's {} bytes, {} are free, "
                        "not all in one piece",
                        bytes, slice_bytes(), heap_.free_bytes()));
    if (large) memory_.enlarge(self_, *offset, bytes / huge_page_bytes * huge_page_bytes);
    return slice(self_) + *offset;
}

void Window::release(void* memory) {
    if (!memory) return;
    if (!heap_.release(offset_in_slice(memory)))
        throw Error(Status::invalid_argument,
                    fmt::format("{} is not the beginning of a block of this rank's shared memory", memory));
}

}  // namespace hocket::transport
