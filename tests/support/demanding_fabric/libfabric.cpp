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
//   fail=N      the Nth completion, and only that, is an error (FI_EIO)
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

[[noreturn, gnu::format(printf, 1, 2)]] void end_because(const char* format, ...) {
    std::va_list values;
    va_start(values, format);
    std::fputs("demanding libfabric: ", stderr);
    std::vfprintf(stderr, format, values);
    std::fputs("\n", stderr);
    va_end(values);
    std::abort();
}

struct Demands {
    int mr_mode = 0;
    std::size_t segments = SIZE_MAX, most = SIZE_MAX, locked = SIZE_MAX;
    unsigned again = 0, late = 0;
    unsigned long fail = 0;

    Demands() {
        const char* listed = std::getenv("HOCKET_DEMANDS");
        std::string rest = listed ? listed : "";
        while (!rest.empty()) {
            const std::size_t comma = rest.find(',');
            take(rest.substr(0, comma));
            rest = comma == rest.npos ? "" : rest.substr(comma + 1);
        }
    }

    void take(const std::string& word) {
        static const std::map<std::string, int> modes = {{"local", FI_MR_LOCAL},
                                                         {"endpoint", FI_MR_ENDPOINT},
                                                         {"prov_key", FI_MR_PROV_KEY},
                                                         {"virt_addr", FI_MR_VIRT_ADDR},
                                                         {"allocated", FI_MR_ALLOCATED}};
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        if (const auto mode = modes.find(word); mode != modes.end()) {
            mr_mode |= mode->second;
            return;
        }
        const unsigned long value =
            equals == word.npos ? 0 : std::strtoul(word.c_str() + equals + 1, nullptr, 10);
        if (value == 0) end_because("HOCKET_DEMANDS: '%s' is not known", word.c_str());
        if (name == "segments")
            segments = value;
        else if (name == "most")
            most = value;
        else if (name == "locked")
            locked = value;
        else if (name == "again")
            again = static_cast<unsigned>(value);
        else if (name == "late")
            late = static_cast<unsigned>(value);
        else if (name == "fail")
            fail = value;
        else
            end_because("HOCKET_DEMANDS: '%s' is not known", word.c_str());
    }
};

struct Region : fid_mr {
    const char* begin;
    std::size_t bytes;
    std::uint64_t access;
    const struct fid* domain;
    const struct fid* bound_to = nullptr;  // an endpoint
    bool is_enabled = false;
    int used_by = 0;  // messages in flight
    bool is_closed = false;
};

struct Held {
    fi_cq_tagged_entry entry;
    unsigned polls;  // until the program sees it
};

// All endpoints of the process use one provider, so that the installed libfabric's operations are the same.
struct State {
    Demands demands;
    std::mt19937 random{12345};
    std::set<const fid*> open;  // endpoints
    const fi_ops_tagged* tagged = nullptr;
    const fi_ops_cq* completions = nullptr;
    const fi_ops_domain* domain = nullptr;
    const fi_ops_fabric* fabric = nullptr;
    const fi_ops* endpoint = nullptr;
    const fi_ops* domain_fid = nullptr;
    std::set<Region*> regions;
    std::set<std::pair<const fid*, std::uint64_t>> keys;  // of domains
    std::size_t locked = 0;
    std::map<void*, std::vector<Region*>> in_flight;  // by context
    std::map<const fid_cq*, std::vector<Held>> late;
    unsigned long completed = 0;
    std::map<const fid_cq*, fi_cq_err_entry> failed;  // that is not read yet
    std::map<const fid*, const fid_cq*> queues;       // by their fid, to wait on
    const fi_ops* queue = nullptr;
};

State& state() {
    static auto& only = *new State;
    return only;
}

// Hocket calls the endpoints of several communicators from several threads.
std::recursive_mutex& mutex() {
    static auto& only = *new std::recursive_mutex;
    return only;
}

bool finds_no_room() {
    State& s = state();
    return s.demands.again && s.random() % s.demands.again == 0;
}

// ---- Registrations ---------------------------------------------------------------------------------------

int close_region(fid* object) {
    const std::lock_guard lock(mutex());
    State& s = state();
    auto* region = static_cast<Region*>(reinterpret_cast<fid_mr*>(object));
    if (!s.regions.contains(region)) end_because("a registration is closed twice");
    if (s.open.contains(region->bound_to)) return -FI_EBUSY;
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
    if ((access & ~std::uint64_t{FI_SEND | FI_RECV}) != 0 || access == 0)
        end_because("memory of messages is registered for sending and receiving, not 0x%llx",
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
    auto* region = new Region;
    region->fid = {.fclass = FI_CLASS_MR, .context = nullptr, .ops = &operations};
    region->mem_desc = region;
    region->key = key;
    region->domain = domain;
    region->begin = static_cast<const char*>(memory);
    region->bytes = bytes;
    region->access = access;
    s.locked += bytes;
    s.regions.insert(region);
    *result = region;
    return 0;
}

// ---- Messages --------------------------------------------------------------------------------------------

void check_place(const iovec& place, Region* region, std::uint64_t access) {
    State& s = state();
    if (!s.regions.contains(region)) end_because("a message's memory has no live registration");
    const auto* begin = static_cast<const char*>(place.iov_base);
    if (begin < region->begin || begin + place.iov_len > region->begin + region->bytes)
        end_because("a message goes beyond its registered memory");
    if (!(region->access & access)) end_because("a registration does not allow this direction");
    if (s.demands.mr_mode & FI_MR_ENDPOINT && !region->is_enabled)
        end_because("a registration is not bound to the endpoint and enabled");
}

ssize_t post(fid_ep* endpoint, const fi_msg_tagged& message, std::uint64_t flags, std::uint64_t access,
             ssize_t (*real)(fid_ep*, const fi_msg_tagged*, std::uint64_t)) {
    const std::lock_guard lock(mutex());
    State& s = state();
    if (message.iov_count > s.demands.segments) end_because("a message of %zu segments", message.iov_count);
    std::size_t bytes = 0;
    std::vector<Region*> regions;
    for (std::size_t i = 0; i < message.iov_count; ++i) {
        bytes += message.msg_iov[i].iov_len;
        if (!(s.demands.mr_mode & FI_MR_LOCAL)) continue;
        regions.push_back(static_cast<Region*>(message.desc ? message.desc[i] : nullptr));
        check_place(message.msg_iov[i], regions.back(), access);
    }
    if (bytes > s.demands.most) end_because("a message of %zu bytes", bytes);
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
    return post(endpoint, *message, flags, FI_SEND, state().tagged->sendmsg);
}

ssize_t receive_message(fid_ep* endpoint, const fi_msg_tagged* message, std::uint64_t flags) {
    return post(endpoint, *message, flags, FI_RECV, state().tagged->recvmsg);
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
    for (ssize_t i = 0; i < n; ++i)
        late.push_back({fresh[static_cast<std::size_t>(i)],
                        s.demands.late ? static_cast<unsigned>(s.random() % s.demands.late) : 0});
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
        if (!s.late[queue->second].empty() || s.failed.contains(queue->second)) return -FI_EAGAIN;
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

// What the installed libfabric is told of an info: nothing of these demands.
struct Undemanding {
    explicit Undemanding(const fi_info& demanding) : info(demanding), attributes(*demanding.domain_attr) {
        attributes.mr_mode &= ~state().demands.mr_mode;
        info.domain_attr = &attributes;
    }
    fi_info info;
    fi_domain_attr attributes;
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
    state().open.erase(object);
    return state().endpoint->close(object);
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
    endpoint.fid.ops = operations;
    s.open.insert(&endpoint.fid);
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

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** result, void* context) {
    const std::lock_guard lock(mutex());
    State& s = state();
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

extern "C" {

// A provider that demands registered memory is offered only to programs that say that they can register it.
[[gnu::visibility("default")]] int fi_getinfo(std::uint32_t version, const char* node, const char* service,
                                              std::uint64_t flags, const fi_info* hints, fi_info** info) {
    State& s = state();
    const int offered = hints && hints->domain_attr ? hints->domain_attr->mr_mode : 0;
    if ((offered & s.demands.mr_mode) != s.demands.mr_mode) return -FI_ENODATA;
    const int code = real<decltype(::fi_getinfo)>("fi_getinfo")(version, node, service, flags, hints, info);
    if (code != 0) return code;
    for (fi_info* each = *info; each; each = each->next) {
        each->domain_attr->mr_mode |= s.demands.mr_mode;
        each->tx_attr->iov_limit = std::min(each->tx_attr->iov_limit, s.demands.segments);
        each->rx_attr->iov_limit = std::min(each->rx_attr->iov_limit, s.demands.segments);
        each->ep_attr->max_msg_size = std::min(each->ep_attr->max_msg_size, s.demands.most);
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
    const int code = real<decltype(::fi_fabric)>("fi_fabric")(attributes, result, context);
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
