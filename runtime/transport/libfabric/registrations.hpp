// Registers memory with libfabric's provider where it asks for that (FI_MR_LOCAL, as verbs and EFA do).
//
// A long message's memory is registered for the life of the message, and not longer: once a program has
// freed its buffer, a registration that is kept would lead to pages that are somebody else's. Providers that
// can see that memory is freed keep registrations themselves, so that the next one is cheap
// (FI_MR_CACHE_MONITOR). Short messages are copied through slots of memory that is registered once.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/libfabric/endpoint_objects.hpp"

namespace hocket::transport {

// What providers may ask of registered memory, of all that a program can offer for messages.
inline constexpr int accepted_mr_modes =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

// Memory of this rank that another may write to, in the provider's terms.
struct RemotePlace {
    std::uint64_t address, key, bytes;
};

class Registrations {
  public:
    static constexpr std::size_t slot_bytes = 16 * 1024, header_room = 64;

    struct Slot {
        std::byte* memory = nullptr;  // for a message of slot_bytes behind a header of header_room
        void* descriptor = nullptr;
    };

    Registrations() = default;
    // Does nothing yet. The info's endpoint must live until close().
    Registrations(const fi_info& info, const EndpointObjects& objects);

    bool are_needed() const { return (mode_ & FI_MR_LOCAL) != 0; }

    // Registers memory for sending (FI_SEND), receiving (FI_RECV), writing from it (FI_WRITE) or other ranks'
    // writes to it (FI_REMOTE_WRITE); fi_mr_desc() of the result describes it
    // to the provider. Returns nullptr if the provider has no room now. Throws Error(transport).
    fid_mr* add(const void* memory, std::size_t bytes, std::uint64_t access);
    void remove(fid_mr* registration);

    // For other ranks, which write to this memory. `begin` is that of its registration.
    RemotePlace describe(fid_mr* registration, const std::byte* begin, const std::byte* memory,
                         std::size_t bytes) const;

    Slot take_slot();  // without memory if the provider has no room now; throws Error(transport)
    void give_back(Slot slot) { free_.push_back(slot); }

    void close();          // after the endpoint, before the domain
    void keep_for_ever();  // replaces close() where the endpoint is kept: the slots' memory stays

  private:
    bool add_block();

    std::string provider_;
    int mode_ = 0;
    fid_domain* domain_ = nullptr;
    fid_ep* endpoint_ = nullptr;
    std::uint64_t next_key_ = 1;
    std::vector<std::unique_ptr<std::byte[]>> blocks_;  // of slots
    std::vector<Slot> free_;
    std::vector<fid_mr*> live_;  // of blocks and messages; some let go only once the endpoint is closed
};

}  // namespace hocket::transport
