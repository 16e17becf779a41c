// Writes of a rank to another's memory, which are made of messages of the installed libfabric, so that the
// rank that is written to can check them: a header, the bytes, and an acknowledgement. With
// FI_DELIVERY_COMPLETE that comes when the bytes are in the rank's memory, otherwise as soon as its host has
// them (FI_TRANSMIT_COMPLETE).
//
// Everything moves when the program reads completions, as with FI_PROGRESS_MANUAL.
#pragma once

#include <rdma/fi_rma.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/demanding_fabric/state.hpp"

namespace demanding {

std::string text_of_address(fid_av* table, fi_addr_t address);

// Of one endpoint. The caller holds mutex().
class Writes {
  public:
    Writes(fid_ep& endpoint, const fid_domain* domain) : endpoint_(endpoint), domain_(&domain->fid) {}

    void bind(const fid_cq* queue) { queue_ = queue; }
    const fid_cq* queue() const { return queue_; }

    void post(const fi_msg_rma& write, std::uint64_t flags);

    // Returns true if the completion with this context is of a message of a write, and takes it.
    bool take(void* context);

    // Moves writes on, and appends what the program is to see.
    void progress(std::vector<Held>& completions);

    // Call it when the program is shown a message that it has received.
    void note_message() { ++messages_; }

    // Returns true if progress() may move something without a completion of the installed libfabric.
    bool has_work() const { return !outgoing_.empty() || !incoming_.empty(); }

  private:
    struct Header {
        std::uint64_t id, address, key, bytes, data;
        bool has_data, waits_for_delivery;
        std::uint32_t name_bytes;
        std::array<char, 96> name;  // of the sender's endpoint
    };

    // A message of the installed libfabric.
    struct Parcel {
        alignas(16) std::array<std::byte, sizeof(fi_context2)> context;
        bool is_posted = false, has_ended = false;
    };

    struct Outgoing {
        Header header{};
        fi_addr_t to = FI_ADDR_UNSPEC;
        void* context = nullptr;
        std::vector<iovec> from;
        unsigned polls = 0;
        std::vector<char> bytes;  // once they are read from the program
        char acknowledgement = 0;
        Parcel header_parcel, bytes_parcel, acknowledgement_parcel;
        bool is_complete = false;  // for the program
    };

    struct Incoming {
        Header header{};
        fi_addr_t from = FI_ADDR_UNSPEC;
        std::vector<char> bytes;
        unsigned polls = 0;
        std::uint64_t messages = 0;  // that the program had been shown
        std::chrono::steady_clock::time_point until;
        char acknowledgement = 0;
        Parcel header_parcel, bytes_parcel, acknowledgement_parcel;
        bool is_written = false;
    };

    void listen();
    void move(Outgoing& write, std::vector<Held>& completions);
    void move(Incoming& write, std::vector<Held>& completions);
    bool is_late(Incoming& write) const;
    void deliver(const Incoming& write);
    bool send(Parcel& parcel, fi_addr_t to, std::uint64_t tag, const void* bytes, std::size_t count);
    bool receive(Parcel& parcel, fi_addr_t from, std::uint64_t tag, void* bytes, std::size_t count);
    bool posted(Parcel& parcel, ssize_t code);

    fid_ep& endpoint_;
    const fid* domain_;
    const fid_cq* queue_ = nullptr;
    std::uint64_t next_id_ = 1, messages_ = 0;
    std::vector<std::unique_ptr<Outgoing>> outgoing_;
    std::vector<std::unique_ptr<Incoming>> listening_, incoming_;
    std::map<const void*, Parcel*> parcels_;  // in flight, by context
};

}  // namespace demanding
