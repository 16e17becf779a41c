#include "runtime/transport/libfabric/registrations.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::transport {
namespace {

constexpr std::size_t slots_in_a_block = 64;

[[noreturn]] void refuse_registration(const std::string& provider, std::size_t bytes, int code) {
    const char* hint = code == -FI_ENOMEM ? "; the limit of locked memory may be too low (ulimit -l)" : "";
    throw Error(Status::transport, fmt::format("libfabric's provider '{}' cannot register {} bytes: {}{}",
                                               provider, bytes, fi_strerror(-code), hint));
}

}  // namespace

Registrations::Registrations(const fi_info& info, const EndpointObjects& objects)
    : provider_(info.fabric_attr->prov_name),
      mode_(info.domain_attr->mr_mode),
      domain_(objects.domain.get()),
      endpoint_(objects.endpoint.get()) {}

// The pages need not be touched before (FI_MR_ALLOCATED): pinning them backs them.
fid_mr* Registrations::add(const void* memory, std::size_t bytes, std::uint64_t access) {
    const std::uint64_t key = (mode_ & FI_MR_PROV_KEY) != 0 ? 0 : next_key_++;
    fid_mr* registration = nullptr;
    int code = fi_mr_reg(domain_, memory, bytes, access, 0, key, 0, &registration, nullptr);
    if (code == -FI_EAGAIN) return nullptr;
    if (code == -FI_ENOMEM && live_.size() > blocks_.size()) return nullptr;  // until a message has ended
    if (code == 0 && (mode_ & FI_MR_ENDPOINT) != 0) {
        code = fi_mr_bind(registration, &endpoint_->fid, 0);
        if (code == 0) code = fi_mr_enable(registration);
        if (code != 0) fi_close(&registration->fid);
    }
    if (code != 0) refuse_registration(provider_, bytes, code);
    live_.push_back(registration);
    return registration;
}

void Registrations::remove(fid_mr* registration) {
    if (fi_close(&registration->fid) == -FI_EBUSY) return;
    *std::find(live_.begin(), live_.end(), registration) = live_.back();
    live_.pop_back();
}

RemotePlace Registrations::describe(fid_mr* registration, const std::byte* begin, const std::byte* memory,
                                    std::size_t bytes) const {
    const bool by_address = (mode_ & FI_MR_VIRT_ADDR) != 0;
    const auto offset = static_cast<std::uint64_t>(memory - begin);
    return {by_address ? reinterpret_cast<std::uint64_t>(memory) : offset, fi_mr_key(registration), bytes};
}

Registrations::Slot Registrations::take_slot() {
    if (free_.empty() && !add_block()) return {};
    const Slot slot = free_.back();
    free_.pop_back();
    return slot;
}

bool Registrations::add_block() {
    constexpr std::size_t slot_size = header_room + slot_bytes, bytes = slots_in_a_block * slot_size;
    auto memory = std::make_unique<std::byte[]>(bytes);
    fid_mr* registration = add(memory.get(), bytes, FI_SEND | FI_RECV);
    if (registration == nullptr) return false;
    for (std::size_t slot = 0; slot < slots_in_a_block; ++slot)
        free_.push_back({memory.get() + slot * slot_size, fi_mr_desc(registration)});
    blocks_.push_back(std::move(memory));
    return true;
}

void Registrations::close() {
    for (fid_mr* registration : live_) fi_close(&registration->fid);
    blocks_.clear();
    live_.clear();
    free_.clear();
}

void Registrations::keep_for_ever() {
    // A network card may still write, and must not write to what is somebody else's by then.
    for (fid_mr* registration : live_) fi_close(&registration->fid);
    static std::mutex mutex;
    static auto& kept = *new std::deque<std::vector<std::unique_ptr<std::byte[]>>>;  // never destroyed, which
                                                                                     // would free the memory
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(blocks_));
    blocks_.clear();
    live_.clear();
    free_.clear();
}

}  // namespace hocket::transport
