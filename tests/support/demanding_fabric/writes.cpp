#include "tests/support/demanding_fabric/writes.hpp"

#include <rdma/fi_cm.h>

#include <algorithm>
#include <cstring>

namespace demanding {
namespace {

// Bits of tags that the program leaves alone.
constexpr std::uint64_t header_tag = std::uint64_t{1} << 57, bytes_tag = std::uint64_t{1} << 56,
                        acknowledgement_tag = std::uint64_t{1} << 55;
constexpr std::size_t most_headers = 16;  // that are awaited
// The longest that a write waits for a message that overtakes it.
constexpr auto overtaken_within = std::chrono::seconds(1);

Region* region_of(const fid* domain, std::uint64_t key) {
    for (Region* region : state().regions)
        if (region->domain == domain && region->key == key) return region;
    return nullptr;
}

}  // namespace

std::string text_of_address(fid_av* table, fi_addr_t address) {
    std::string text(96, '\0');
    std::size_t bytes = text.size();
    if (state().table->lookup(table, address, text.data(), &bytes) != 0 || bytes > text.size())
        end_because("an address cannot be looked up");
    text.resize(bytes);
    return text;
}

void Writes::post(const fi_msg_rma& write, std::uint64_t flags) {
    if (write.rma_iov_count != 1) end_because("a write to %zu places", write.rma_iov_count);
    auto made = std::make_unique<Outgoing>();
    const fi_rma_iov& to = *write.rma_iov;
    made->from.assign(write.msg_iov, write.msg_iov + write.iov_count);
    std::size_t bytes = 0;
    for (const iovec& place : made->from) bytes += place.iov_len;
    if (bytes != to.len) end_because("a write of %zu bytes to a place of %zu", bytes, to.len);
    made->header = {.id = next_id_++,
                    .address = to.addr,
                    .key = to.key,
                    .bytes = bytes,
                    .data = write.data,
                    .has_data = (flags & FI_REMOTE_CQ_DATA) != 0,
                    .waits_for_delivery = (flags & FI_DELIVERY_COMPLETE) != 0,
                    .name_bytes = 0,
                    .name = {}};
    std::size_t size = made->header.name.size();
    if (fi_getname(&endpoint_.fid, made->header.name.data(), &size) != 0)
        end_because("an endpoint has no name");
    made->header.name_bytes = static_cast<std::uint32_t>(size);
    made->to = write.addr;
    made->context = write.context;
    made->polls = some_polls();
    outgoing_.push_back(std::move(made));
}

bool Writes::take(void* context) {
    const auto found = parcels_.find(context);
    if (found == parcels_.end()) return false;
    found->second->has_ended = true;
    parcels_.erase(found);
    return true;
}

void Writes::progress(std::vector<Held>& completions) {
    listen();
    for (auto& awaited : listening_)
        if (awaited->header_parcel.has_ended) incoming_.push_back(std::move(awaited));
    std::erase(listening_, nullptr);
    if (state().demands.late) std::shuffle(outgoing_.begin(), outgoing_.end(), state().random);
    for (auto& write : outgoing_) move(*write, completions);
    for (auto& write : incoming_) move(*write, completions);
    std::erase_if(outgoing_, [](const auto& write) {
        return write->is_complete && write->header_parcel.has_ended && write->bytes_parcel.has_ended;
    });
    std::erase_if(incoming_, [](const auto& write) {
        return write->is_written && write->acknowledgement_parcel.has_ended;
    });
}

void Writes::listen() {
    while (listening_.size() < most_headers) {
        auto awaited = std::make_unique<Incoming>();
        if (!receive(awaited->header_parcel, FI_ADDR_UNSPEC, header_tag, &awaited->header,
                     sizeof awaited->header))
            return;
        awaited->polls = some_polls();
        listening_.push_back(std::move(awaited));
    }
}

void Writes::move(Outgoing& write, std::vector<Held>& completions) {
    if (write.polls > 0) {
        --write.polls;
        return;
    }
    if (write.bytes.empty())
        for (const iovec& place : write.from) {
            const char* begin = static_cast<const char*>(place.iov_base);
            write.bytes.insert(write.bytes.end(), begin, begin + place.iov_len);
        }
    const Header& header = write.header;
    if (!receive(write.acknowledgement_parcel, write.to, acknowledgement_tag | header.id,
                 &write.acknowledgement, 1))
        return;
    if (!send(write.header_parcel, write.to, header_tag, &header, sizeof header) ||
        !send(write.bytes_parcel, write.to, bytes_tag | header.id, write.bytes.data(), write.bytes.size()))
        return;
    if (write.is_complete || !write.acknowledgement_parcel.has_ended) return;
    write.is_complete = true;
    fi_cq_tagged_entry entry{};
    entry.op_context = write.context;
    entry.flags = FI_RMA | FI_WRITE;
    completions.push_back({entry, some_polls()});
}

void Writes::move(Incoming& write, std::vector<Held>& completions) {
    const Header& header = write.header;
    if (!write.bytes_parcel.is_posted) {
        const auto from = state().addresses.find({header.name.data(), header.name_bytes});
        if (from == state().addresses.end()) end_because("a write of a rank that is not known");
        write.from = from->second;
        write.bytes.resize(header.bytes);
    }
    if (!receive(write.bytes_parcel, write.from, bytes_tag | header.id, write.bytes.data(), header.bytes))
        return;
    if (!write.bytes_parcel.has_ended) return;
    const auto acknowledge = [&] {
        return send(write.acknowledgement_parcel, write.from, acknowledgement_tag | header.id,
                    &write.acknowledgement, 1);
    };
    // The installed libfabric sends only while the program reads completions, which it may not do after the
    // write has come: so the acknowledgement goes before.
    if (!header.waits_for_delivery && !write.acknowledgement_parcel.has_ended) {
        write.messages = messages_;
        write.until = std::chrono::steady_clock::now() + overtaken_within;
        acknowledge();
        return;
    }
    if (is_late(write)) return;
    if (!write.is_written) {
        deliver(write);
        write.is_written = true;
        fi_cq_tagged_entry entry{};
        entry.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
        entry.data = header.data;
        if (header.has_data) completions.push_back({entry, some_polls()});
    }
    acknowledge();
}

// A write of which nothing tells but a message that its sender sends without waiting for the delivery is
// there when that message has come, or the program is wrong to look. How many polls that takes, providers do
// not agree on: some have the program sleep between two.
bool Writes::is_late(Incoming& write) const {
    if (write.polls > 0) {
        --write.polls;
        return true;
    }
    const bool is_told = write.header.has_data || write.header.waits_for_delivery;
    if (is_told || state().demands.late == 0) return false;
    return write.messages == messages_ && std::chrono::steady_clock::now() < write.until;
}

void Writes::deliver(const Incoming& write) {
    const Header& header = write.header;
    const Region* region = region_of(domain_, header.key);
    if (!region) end_because("a write to a key that is not registered, or no longer");
    if ((region->access & FI_REMOTE_WRITE) == 0)
        end_because("a write to memory that is not registered for other ranks' writes");
    if (state().demands.mr_mode & FI_MR_ENDPOINT && !region->is_enabled)
        end_because("a write to memory whose registration is not bound to the endpoint and enabled");
    const auto begin = reinterpret_cast<std::uint64_t>(region->begin);
    const bool by_address = (state().demands.mr_mode & FI_MR_VIRT_ADDR) != 0;
    const std::uint64_t offset = header.address - (by_address ? begin : 0);
    if (offset > region->bytes || header.bytes > region->bytes - offset)
        end_because("a write goes beyond the registered memory");
    std::memcpy(const_cast<char*>(region->begin) + offset, write.bytes.data(), header.bytes);
}

bool Writes::send(Parcel& parcel, fi_addr_t to, std::uint64_t tag, const void* bytes, std::size_t count) {
    if (parcel.is_posted) return true;
    const iovec place{const_cast<void*>(bytes), count};
    const fi_msg_tagged message{.msg_iov = &place,
                                .desc = nullptr,
                                .iov_count = 1,
                                .addr = to,
                                .tag = tag,
                                .ignore = 0,
                                .context = parcel.context.data(),
                                .data = 0};
    return posted(parcel, state().tagged->sendmsg(&endpoint_, &message, FI_COMPLETION));
}

bool Writes::receive(Parcel& parcel, fi_addr_t from, std::uint64_t tag, void* bytes, std::size_t count) {
    if (parcel.is_posted) return true;
    const iovec place{bytes, count};
    const fi_msg_tagged message{.msg_iov = &place,
                                .desc = nullptr,
                                .iov_count = 1,
                                .addr = from,
                                .tag = tag,
                                .ignore = 0,
                                .context = parcel.context.data(),
                                .data = 0};
    return posted(parcel, state().tagged->recvmsg(&endpoint_, &message, FI_COMPLETION));
}

bool Writes::posted(Parcel& parcel, ssize_t code) {
    if (code == -FI_EAGAIN) return false;
    parcel.is_posted = true;
    if (code != 0) return true;  // the other rank has gone: the write never ends
    parcels_[parcel.context.data()] = &parcel;
    return true;
}

}  // namespace demanding
