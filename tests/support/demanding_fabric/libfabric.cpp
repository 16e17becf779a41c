// A libfabric that demands what providers of real networks demand, and misbehaves as they may. It wraps the
// installed libfabric: messages go through that one's providers, and only what a program must do beyond is
// checked here. A program that breaks a rule is ended with a message.
//
// HOCKET_DEMANDS lists, separated by commas:
//
//   local       memory of messages is registered (FI_MR_LOCAL)
//
//   endpoint    registrations are bound to the endpoint, and closed after it (FI_MR_ENDPOINT)
//
//   prov_key, virt_addr, allocated: the further bits of FI_MR_BASIC
//
//   segments=N  a message has at most N segments
//
//   most=N      a message has at most N bytes
//
//   locked=N    registrations beyond N bytes in all are refused (FI_ENOMEM)
//
//   again=N     one of N attempts to post or register finds no room (FI_EAGAIN)
//
//   late=N      completions wait for up to N further polls, and overtake each other
//
//   sent=N      no message of more than N bytes is sent: longer ones are written
//
//   rma         ranks may write to each other's memory (writes.hpp). A write to memory that is not registered
//               for that ends the target's program. Writes are as late as completions are; where nothing but
//               a message can tell of one, the next message overtakes it
//
//   rx_cq_data  immediate data of writes takes the receiver's buffers (FI_RX_CQ_DATA)
//
//   no_data     nothing is carried beside messages and writes (cq_data_size is 0)
//
//   data_or_tags  as no_data, except for programs that ask for data: they have it, and tags of 32 bits
//
//   no_delivery writes cannot wait until they are delivered (FI_DELIVERY_COMPLETE)
//
//   card        looks like a network card of its own, as of verbs
//
//   tag_bits=N  tags have at most N bits
//
//   cxi         is called cxi, and refuses immediate data with writes, as that one does
//
//   live=N      at most N registrations live at once, and (as cxi has it) they may be closed before their
//               endpoint
//
//   down_first  a port whose link is down is the first that is offered, and must not be opened
//
//   fail=N      the Nth completion, and only that, is an error (FI_EIO)
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/demanding_fabric/state.hpp"
#include "tests/support/demanding_fabric/writes.hpp"

namespace demanding {
namespace {

// ---- Registrations ---------------------------------------------------------------------------------------

int close_region(fid* object) {
    const std::lock_guard lock(mutex());
    State& s = state();
    auto* region = static_cast<Region*>(reinterpret_cast<fid_mr*>(object));
    if (!s.regions.contains(region)) end_because("a registration is closed twice");
    if (!s.demands.live && s.open.contains(region->bound_to)) return -FI_EBUSY;
    s.regions.erase(region);
    s.keys.erase({region->domain, region->key});
    s.locked -= region->bytes;
    region->is_closed = true;
    if (region->used_by == 0) delete region;
    return 0;
}

int bind_region(fid* object, fid* endpoint, std::uint64_t) {
    static_cast<Region*>(reinterpret_cast<fid_mr*>(object))->bound_to = endpoint;
    return 0;
}

int control_region(fid* object, int command, void*) {
    auto* region = static_cast<Region*>(reinterpret_cast<fid_mr*>(object));
    if (command != FI_ENABLE) return -FI_ENOSYS;
    if (!region->bound_to) end_because("a registration is enabled before it is bound to an endpoint");
    region->is_enabled = true;
    return 0;
}

int register_memory(fid* domain, const void* memory, std::size_t bytes, std::uint64_t access, std::uint64_t,
                    std::uint64_t key, std::uint64_t, fid_mr** result, void*) {
    const std::lock_guard lock(mutex());
    static fi_ops operations{.size = sizeof(fi_ops),
                             .close = close_region,
                             .bind = bind_region,
                             .control = control_region,
                             .ops_open = nullptr,
                             .tostr = nullptr,
                             .ops_set = nullptr};
    State& s = state();
    if (bytes == 0) end_because("nothing is registered");
    const std::uint64_t possible = FI_SEND | FI_RECV | (s.demands.rma ? FI_WRITE | FI_REMOTE_WRITE : 0);
    if ((access & ~possible) != 0 || access == 0)
        end_because("memory is registered for 0x%llx, and not for what the program may do with it",
                    static_cast<unsigned long long>(access));
    if (!(s.demands.mr_mode & FI_MR_PROV_KEY) && !s.keys.insert({domain, key}).second)
        end_because("the key %llu is registered twice", static_cast<unsigned long long>(key));
    if (finds_no_room()) {
        s.keys.erase({domain, key});
        return -FI_EAGAIN;
    }
    if (s.locked + bytes > s.demands.locked) {
        s.keys.erase({domain, key});
        return -FI_ENOMEM;
    }
    if (s.demands.live && s.regions.size() == s.demands.live)
        end_because("more than %u registrations live: some outlive the use of their memory", s.demands.live);
    auto* region = new Region;
    region->fid = {.fclass = FI_CLASS_MR, .context = nullptr, .ops = &operations};
    region->mem_desc = region;
    region->key = s.demands.mr_mode & FI_MR_PROV_KEY ? s.random() << 8 | ++s.registered % 256 : key;
    region->domain = domain;
    region->begin = static_cast<const char*>(memory);
    region->bytes = bytes;
    region->access = access;
    if (s.demands.mr_mode & FI_MR_PROV_KEY) s.keys.insert({domain, region->key});
    s.locked += bytes;
    s.regions.insert(region);
    *result = region;
    return 0;
}

// ---- Messages --------------------------------------------------------------------------------------------

ssize_t post(fid_ep* endpoint, const fi_msg_tagged& message, std::uint64_t flags, std::uint64_t access,
             ssize_t (*real)(fid_ep*, const fi_msg_tagged*, std::uint64_t)) {
    const std::lock_guard lock(mutex());
    State& s = state();
    if (s.demands.tag_bits < 64 && (message.tag | message.ignore) >> s.demands.tag_bits != 0)
        end_because("a tag of more than %u bits: %llx", s.demands.tag_bits,
                    static_cast<unsigned long long>(message.tag | message.ignore));
    std::vector<Region*> regions = check_places(message.msg_iov, message.desc, message.iov_count, access);
    if (finds_no_room()) return -FI_EAGAIN;
    fi_msg_tagged passed = message;
    passed.desc = nullptr;
    const ssize_t code = real(endpoint, &passed, flags);
    if (code != 0) return code;
    for (Region* region : regions) ++region->used_by;
    s.in_flight[message.context] = std::move(regions);
    return 0;
}

ssize_t send_message(fid_ep* endpoint, const fi_msg_tagged* message, std::uint64_t flags) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < message->iov_count; ++i) bytes += message->msg_iov[i].iov_len;
    if (state().demands.no_data && (flags & FI_REMOTE_CQ_DATA) != 0)
        end_because("a message is to carry data beside its own");
    if (bytes > state().demands.sent) end_because("a message of %zu bytes is sent", bytes);
    return post(endpoint, *message, flags, FI_SEND, state().tagged->sendmsg);
}

ssize_t receive_message(fid_ep* endpoint, const fi_msg_tagged* message, std::uint64_t flags) {
    return post(endpoint, *message, flags, FI_RECV, state().tagged->recvmsg);
}

ssize_t write_message(fid_ep* endpoint, const fi_msg_rma* message, std::uint64_t flags) {
    const std::lock_guard lock(mutex());
    State& s = state();
    std::vector<Region*> regions =
        check_places(message->msg_iov, message->desc, message->iov_count, FI_WRITE);
    if (s.demands.rx_cq_data && (flags & FI_REMOTE_CQ_DATA) != 0)
        end_because("a write's immediate data would take a buffer of the receiver's");
    if (s.demands.no_data && (flags & FI_REMOTE_CQ_DATA) != 0)
        end_because("a write is to carry data beside its own");
    if (s.demands.no_delivery && (flags & FI_DELIVERY_COMPLETE) != 0)
        end_because("a write is to end when it is delivered");
    if (s.demands.cxi && (flags & FI_REMOTE_CQ_DATA) != 0) return -FI_EBADFLAGS;
    if (finds_no_room()) return -FI_EAGAIN;
    s.writes[&endpoint->fid]->post(*message, flags);
    for (Region* region : regions) ++region->used_by;
    s.in_flight[message->context] = std::move(regions);
    return 0;
}

void note_end(void* context) {
    State& s = state();
    const auto found = s.in_flight.find(context);
    if (found == s.in_flight.end()) return;
    for (Region* region : found->second) {
        if (region->is_closed) end_because("a registration was closed before its message had ended");
        --region->used_by;
    }
    s.in_flight.erase(found);
}

// ---- Completions -----------------------------------------------------------------------------------------

Writes* writes_of(const fid_cq* queue) {
    for (const auto& [endpoint, writes] : state().writes)
        if (writes->queue() == queue) return writes;
    return nullptr;
}

// Takes what the program may see now. The message whose completion is to fail is kept apart.
ssize_t take_late(fid_cq* queue, fi_cq_tagged_entry* entries, std::size_t count) {
    State& s = state();
    std::vector<Held>& late = s.late[queue];
    std::size_t taken = 0;
    for (auto held = late.begin(); held != late.end() && taken < count;) {
        if (held->polls > 0) {
            --held->polls;
            ++held;
            continue;
        }
        const fi_cq_tagged_entry entry = held->entry;
        held = late.erase(held);
        note_end(entry.op_context);
        if (++s.completed == s.demands.fail) {
            fi_cq_err_entry& failed = s.failed[queue];
            failed.op_context = entry.op_context;
            failed.err = FI_EIO;
            break;
        }
        if (Writes* const writes = writes_of(queue); writes && (entry.flags & FI_RECV) != 0)
            writes->note_message();
        entries[taken++] = entry;
    }
    return static_cast<ssize_t>(taken);
}

ssize_t read_completions(fid_cq* queue, void* buffer, std::size_t count) {
    const std::lock_guard lock(mutex());
    State& s = state();
    if (s.failed.contains(queue)) return -FI_EAVAIL;
    std::vector<fi_cq_tagged_entry> fresh(count);
    const ssize_t n = s.completions->read(queue, fresh.data(), count);
    if (n < 0 && n != -FI_EAGAIN) return n;
    std::vector<Held>& late = s.late[queue];
    Writes* const writes = writes_of(queue);
    for (ssize_t i = 0; i < n; ++i) {
        fi_cq_tagged_entry& entry = fresh[static_cast<std::size_t>(i)];
        if (s.demands.no_data) entry.data = s.random();  // it means nothing
        if (!writes || !writes->take(entry.op_context)) late.push_back({entry, some_polls()});
    }
    if (writes) writes->progress(late);
    if (s.demands.late) std::shuffle(late.begin(), late.end(), s.random);
    const ssize_t taken = take_late(queue, static_cast<fi_cq_tagged_entry*>(buffer), count);
    if (taken > 0) return taken;
    return s.failed.contains(queue) ? -FI_EAVAIL : -FI_EAGAIN;
}

ssize_t read_error(fid_cq* queue, fi_cq_err_entry* entry, std::uint64_t flags) {
    const std::lock_guard lock(mutex());
    State& s = state();
    if (const auto failed = s.failed.find(queue); failed != s.failed.end()) {
        *entry = failed->second;
        s.failed.erase(failed);
        return 1;
    }
    const ssize_t n = s.completions->readerr(queue, entry, flags);
    if (n > 0) note_end(entry->op_context);
    return n;
}

int try_wait(fid_fabric* fabric, fid** objects, int count) {
    const std::lock_guard lock(mutex());
    State& s = state();
    for (int i = 0; i < count; ++i) {
        const auto queue = s.queues.find(objects[i]);
        if (queue == s.queues.end()) continue;
        const Writes* const writes = writes_of(queue->second);
        if (!s.late[queue->second].empty() || s.failed.contains(queue->second) ||
            (writes && writes->has_work()))
            return -FI_EAGAIN;
    }
    return s.fabric->trywait(fabric, objects, count);
}

int close_completions(fid* object) {
    const std::lock_guard lock(mutex());
    State& s = state();
    const fid_cq* const queue = s.queues[object];
    s.late.erase(queue);
    s.failed.erase(queue);
    s.queues.erase(object);
    return s.queue->close(object);
}

// ---- Objects: the operations of the installed libfabric's are exchanged for these -------------------------

// The installed provider that is called cxi.
constexpr const char* behind_cxi = "net";

// One field of 64 bits, as providers describe it (fi_endpoint(3), mem_tag_format).
constexpr std::uint64_t any_tag = 0xaaaaaaaaaaaaaaaa;

constexpr std::uint64_t rma_bits = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;

// What the installed libfabric is told of an info: nothing of these demands.
struct Undemanding {
    explicit Undemanding(const fi_info& demanding) : info(demanding), attributes(*demanding.domain_attr) {
        const Demands& demands = state().demands;
        attributes.mr_mode &= ~demands.mr_mode;
        info.domain_attr = &attributes;
        info.nic = nullptr;
        const fi_fabric_attr* const asked = demanding.fabric_attr;
        if (asked && asked->prov_name && asked->prov_name == std::string_view("cxi")) {
            fabric = *asked;
            fabric.prov_name = const_cast<char*>(behind_cxi);
            info.fabric_attr = &fabric;
        }
        if (demanding.ep_attr) {
            endpoint = *demanding.ep_attr;
            endpoint.mem_tag_format = 0;
            info.ep_attr = &endpoint;
        }
        if (!demands.rma) return;
        sending = *demanding.tx_attr, receiving = *demanding.rx_attr;
        info.tx_attr = &sending, info.rx_attr = &receiving;
        for (std::uint64_t* bits : {&info.caps, &sending.caps, &receiving.caps}) *bits &= ~rma_bits;
        for (std::uint64_t* bits : {&info.mode, &sending.mode, &receiving.mode})
            *bits &= ~std::uint64_t{FI_RX_CQ_DATA};
        sending.op_flags &= ~std::uint64_t{FI_DELIVERY_COMPLETE};
    }
    fi_info info;
    fi_domain_attr attributes;
    fi_fabric_attr fabric{};
    fi_ep_attr endpoint{};
    fi_tx_attr sending{};
    fi_rx_attr receiving{};
};

// A copy of `real` that may be changed; it lives as long as the process.
template <typename Operations>
Operations* copy_of(const Operations* real) {
    auto* copy = new Operations{};
    std::memcpy(copy, real, std::min(sizeof(Operations), real->size));
    return copy;
}

int close_endpoint(fid* object) {
    const std::lock_guard lock(mutex());
    State& s = state();
    s.open.erase(object);
    // The installed libfabric may still know its contexts, so it stays.
    if (const auto writes = s.writes.extract(object)) s.closed_writes.push_back(writes.mapped());
    return s.endpoint->close(object);
}

int bind_endpoint(fid* object, fid* other, std::uint64_t flags) {
    const std::lock_guard lock(mutex());
    State& s = state();
    if (const auto queue = s.queues.find(other); queue != s.queues.end() && s.writes.contains(object))
        s.writes[object]->bind(queue->second);
    return s.endpoint->bind(object, other, flags);
}

int insert_addresses(fid_av* table, const void* addresses, std::size_t count, fi_addr_t* inserted,
                     std::uint64_t flags, void* context) {
    const std::lock_guard lock(mutex());
    State& s = state();
    if (count != 1) end_because("%zu addresses are inserted at once, and this library knows one", count);
    const int result = s.table->insert(table, addresses, count, inserted, flags, context);
    if (result == 1) s.addresses[text_of_address(table, *inserted)] = *inserted;
    return result;
}

int open_addresses(fid_domain* domain, fi_av_attr* attributes, fid_av** result, void* context) {
    const std::lock_guard lock(mutex());
    State& s = state();
    const int code = s.domain->av_open(domain, attributes, result, context);
    if (code != 0) return code;
    s.table = (*result)->ops;
    fi_ops_av* operations = copy_of(s.table);
    operations->insert = insert_addresses;
    (*result)->ops = operations;
    return 0;
}

int close_domain(fid* object) {
    const std::lock_guard lock(mutex());
    State& s = state();
    const auto of_this = std::count_if(s.regions.begin(), s.regions.end(),
                                       [&](const Region* region) { return region->domain == object; });
    if (of_this > 0) end_because("a domain is closed before %td registrations", of_this);
    return s.domain_fid->close(object);
}

int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** result, void* context) {
    const std::lock_guard lock(mutex());
    State& s = state();
    if (info->ep_attr->type != FI_EP_RDM)  // the provider's own, below that of the program
        return s.domain->endpoint(domain, info, result, context);
    Undemanding real(*info);
    const int code = s.domain->endpoint(domain, &real.info, result, context);
    if (code != 0) return code;
    fid_ep& endpoint = **result;
    s.tagged = endpoint.tagged;
    fi_ops_tagged* tagged = copy_of(s.tagged);
    tagged->sendmsg = send_message;
    tagged->recvmsg = receive_message;
    endpoint.tagged = tagged;
    s.endpoint = endpoint.fid.ops;
    fi_ops* operations = copy_of(s.endpoint);
    operations->close = close_endpoint;
    operations->bind = bind_endpoint;
    endpoint.fid.ops = operations;
    s.open.insert(&endpoint.fid);
    if (!s.demands.rma) return 0;
    s.writes[&endpoint.fid] = new Writes(endpoint, domain);
    static fi_ops_rma writing{};
    writing.size = sizeof writing;
    writing.writemsg = write_message;
    endpoint.rma = &writing;
    return 0;
}

int open_completions(fid_domain* domain, fi_cq_attr* attributes, fid_cq** result, void* context) {
    const std::lock_guard lock(mutex());
    State& s = state();
    const int code = s.domain->cq_open(domain, attributes, result, context);
    if (code != 0) return code;
    s.completions = (*result)->ops;
    fi_ops_cq* operations = copy_of(s.completions);
    operations->read = read_completions;
    operations->readerr = read_error;
    (*result)->ops = operations;
    s.queues[&(*result)->fid] = *result;
    s.queue = (*result)->fid.ops;
    fi_ops* closing = copy_of(s.queue);
    closing->close = close_completions;
    (*result)->fid.ops = closing;
    return 0;
}

// A card; whoever duplicates or frees it has it still.
struct Card {
    explicit Card(fi_link_state state) {
        operations.size = sizeof operations;
        operations.close = [](fid*) { return 0; };
        operations.control = [](fid* object, int command, void* result) {
            if (command != FI_DUP) return -FI_ENOSYS;
            *static_cast<fid_nic**>(result) = reinterpret_cast<fid_nic*>(object);
            return 0;
        };
        device.name = name;
        bus.bus_type = FI_BUS_PCI;
        link.state = state;
        nic.device_attr = &device;
        nic.bus_attr = &bus;
        nic.link_attr = &link;
        nic.fid = {.fclass = FI_CLASS_NIC, .context = nullptr, .ops = &operations};
    }
    char name[11] = "demanding0";
    fi_ops operations{};
    fi_device_attr device{};
    fi_bus_attr bus{};
    fi_link_attr link{};
    fid_nic nic{};
};

fid_nic* card() {
    static Card only(FI_LINK_UP);
    return &only.nic;
}

fid_nic* down_card() {
    static Card only(FI_LINK_DOWN);
    return &only.nic;
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** result, void* context) {
    const std::lock_guard lock(mutex());
    State& s = state();
    if (info->nic == down_card()) end_because("a port is opened whose link is down");
    Undemanding real(*info);
    const int code = s.fabric->domain(fabric, &real.info, result, context);
    if (code != 0) return code;
    fid_domain& domain = **result;
    static fi_ops_mr registering{
        .size = sizeof(fi_ops_mr), .reg = register_memory, .regv = nullptr, .regattr = nullptr};
    domain.mr = &registering;
    s.domain = domain.ops;
    fi_ops_domain* operations = copy_of(s.domain);
    operations->endpoint = open_endpoint;
    operations->cq_open = open_completions;
    operations->av_open = open_addresses;
    domain.ops = operations;
    s.domain_fid = domain.fid.ops;
    fi_ops* closing = copy_of(s.domain_fid);
    closing->close = close_domain;
    domain.fid.ops = closing;
    return 0;
}

template <typename Function>
Function* real(const char* name) {
    static void* library = dlopen(INSTALLED_LIBFABRIC, RTLD_NOW | RTLD_LOCAL);
    if (!library) end_because("%s", dlerror());
    return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace
}  // namespace demanding

using namespace demanding;

extern "C" {

// A provider that demands registered memory is offered only to programs that say that they can register it.
[[gnu::visibility("default")]] int fi_getinfo(std::uint32_t version, const char* node, const char* service,
                                              std::uint64_t flags, const fi_info* hints, fi_info** info) {
    State& s = state();
    const int offered = hints && hints->domain_attr ? hints->domain_attr->mr_mode : 0;
    if ((offered & s.demands.mr_mode) != s.demands.mr_mode) return -FI_ENODATA;
    const bool asks_for_rma = hints && (hints->caps & FI_RMA) != 0;
    if (asks_for_rma && !s.demands.rma) return -FI_ENODATA;
    if (asks_for_rma && s.demands.rx_cq_data && (hints->mode & FI_RX_CQ_DATA) == 0) return -FI_ENODATA;
    const bool asks_for_delivery =
        hints && hints->tx_attr && (hints->tx_attr->op_flags & FI_DELIVERY_COMPLETE) != 0;
    if (asks_for_delivery && s.demands.no_delivery) return -FI_ENODATA;
    const bool asks_for_data = hints && hints->domain_attr && hints->domain_attr->cq_data_size > 0;
    if (asks_for_data && s.demands.no_data && !s.demands.data_or_tags) return -FI_ENODATA;
    std::optional<Undemanding> passed;
    if (hints && hints->domain_attr && hints->tx_attr && hints->rx_attr) passed.emplace(*hints);
    // The provider's own modes of registration are offered to it, too.
    if (passed) passed->attributes.mr_mode = offered;
    const int code = real<decltype(::fi_getinfo)>("fi_getinfo")(version, node, service, flags,
                                                                passed ? &passed->info : hints, info);
    if (code != 0) return code;
    for (fi_info* each = *info; each; each = each->next) {
        each->domain_attr->mr_mode |= s.demands.mr_mode;
        each->tx_attr->iov_limit = std::min(each->tx_attr->iov_limit, s.demands.segments);
        each->rx_attr->iov_limit = std::min(each->rx_attr->iov_limit, s.demands.segments);
        each->ep_attr->max_msg_size = std::min(each->ep_attr->max_msg_size, s.demands.most);
        if (s.demands.no_data && !asks_for_data) each->domain_attr->cq_data_size = 0;
        if (s.demands.data_or_tags && asks_for_data) each->ep_attr->mem_tag_format = any_tag >> 32;
        if (s.demands.card) each->nic = card();
        if (s.demands.tag_bits < 64) each->ep_attr->mem_tag_format = any_tag >> (64 - s.demands.tag_bits);
        if (s.demands.cxi) {
            std::free(each->fabric_attr->prov_name);
            each->fabric_attr->prov_name = strdup("cxi");
        }
        if (!asks_for_rma) continue;
        each->caps |= rma_bits;
        each->tx_attr->rma_iov_limit = 1;
        if (s.demands.rx_cq_data) each->mode |= FI_RX_CQ_DATA;
    }
    if (s.demands.down_first) {
        fi_info* const down = fi_dupinfo(*info);
        down->nic = down_card();
        std::free(down->domain_attr->name);
        down->domain_attr->name = strdup("down");
        down->next = *info;
        *info = down;
    }
    return 0;
}

[[gnu::visibility("default")]] void fi_freeinfo(fi_info* info) {
    real<decltype(::fi_freeinfo)>("fi_freeinfo")(info);
}

[[gnu::visibility("default")]] fi_info* fi_dupinfo(const fi_info* info) {
    return real<decltype(::fi_dupinfo)>("fi_dupinfo")(info);
}

[[gnu::visibility("default")]] int fi_fabric(fi_fabric_attr* attributes, fid_fabric** result, void* context) {
    State& s = state();
    fi_fabric_attr passed = *attributes;
    if (s.demands.cxi) passed.prov_name = const_cast<char*>(behind_cxi);
    const int code = real<decltype(::fi_fabric)>("fi_fabric")(&passed, result, context);
    if (code != 0) return code;
    s.fabric = (*result)->ops;
    fi_ops_fabric* operations = copy_of(s.fabric);
    operations->domain = open_domain;
    operations->trywait = try_wait;
    (*result)->ops = operations;
    return 0;
}

[[gnu::visibility("default")]] const char* fi_strerror(int number) {
    return real<decltype(::fi_strerror)>("fi_strerror")(number);
}

}  // extern "C"
