#include "runtime/transport/libfabric/provider.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/log.hpp"
#include "runtime/transport/fabric/fabric.hpp"
#include "runtime/transport/libfabric/registrations.hpp"

namespace hocket::transport {
namespace {

// Processes that use this provider hang each other if one is killed while it holds a lock in shared memory.
constexpr const char* withheld = "shm";

// The tags of messages, and the bits that remote_writes.hpp adds.
constexpr int needed_tag_bits = tag_bits + 3;

// Takes immediate data with messages, as its attributes say, and refuses it with writes, which no attribute
// says (FI_EBADFLAGS).
constexpr const char* tells_nothing_by_writes = "cxi";

// Where the kernel lists network cards with RDMA: of InfiniBand, RoCE, EFA and Omni-Path; of Slingshot.
constexpr const char* lists_of_cards[] = {"/sys/class/infiniband", "/sys/class/cxi"};

// The bytes that are to be carried beside a message (remote CQ data), best first: some providers take the
// room from tags, so the next one is asked for where nothing with long tags is found.
constexpr std::size_t data_sizes[] = {sizeof(std::uint32_t), 0};

Info make_hints(const std::string& provider, std::size_t data_bytes) {
    Info hints(fi_allocinfo());
    if (!hints) throw Error(Status::out_of_memory, "libfabric has no memory for fi_allocinfo");
    hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->cq_data_size = data_bytes;
    hints->domain_attr->mr_mode = accepted_mr_modes;
    if (!provider.empty()) hints->fabric_attr->prov_name = strdup(provider.c_str());
    return hints;
}

// Hints for a provider by which ranks write to each other's memory.
Info make_rma_hints(const std::string& provider, std::size_t data_bytes) {
    Info hints = make_hints(provider, data_bytes);
    hints->caps |= FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
    hints->mode |= FI_RX_CQ_DATA;
    return hints;
}

Info query(const Info& hints, const std::string& source_address) {
    fi_info* list = nullptr;
    const char* node = source_address.empty() ? nullptr : source_address.c_str();
    const int code = fi_getinfo(FI_VERSION(1, 17), node, nullptr, node ? FI_SOURCE : 0, hints.get(), &list);
    return Info(code == 0 ? list : nullptr);
}

std::string existing_providers() {
    const Info list = query(make_hints("", 0), "");
    std::set<std::string> names = {"tcp"};
    for (const fi_info* info = list.get(); info; info = info->next)
        if (info->fabric_attr->prov_name != std::string_view(withheld))
            names.insert(info->fabric_attr->prov_name);
    return fmt::format("{}", fmt::join(names, ", "));
}

// Returns the rank of an address; lower is better.
int order_of(const fi_info& info) {
    if (info.addr_format == FI_SOCKADDR_IN && info.src_addr) {
        const auto& address = *static_cast<const sockaddr_in*>(info.src_addr);
        return ntohl(address.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET ? 2 : 0;
    }
    if (info.addr_format == FI_SOCKADDR_IN6 && info.src_addr) {
        const auto& address = static_cast<const sockaddr_in6*>(info.src_addr)->sin6_addr;
        if (IN6_IS_ADDR_LOOPBACK(&address)) return 3;
        return IN6_IS_ADDR_LINKLOCAL(&address) ? 4 : 1;  // link-local: useless without an interface's name
    }
    return 0;
}

// Bits that a provider does not offer are the upper ones of the format.
bool has_long_tags(const fi_info& info) {
    const std::uint64_t format = info.ep_attr->mem_tag_format;
    return format == 0 || std::bit_width(format) >= needed_tag_bits;
}

// Takes those with long tags out of the list.
Info take_with_long_tags(Info& list) {
    Info taken, left;
    fi_info *taken_end = nullptr, *left_end = nullptr;
    const auto append = [](Info& to, fi_info*& end, fi_info* info) {
        end ? void(end->next = info) : to.reset(info);
        end = info;
    };
    for (fi_info* info = list.release(); info;) {
        fi_info* const next = std::exchange(info->next, nullptr);
        has_long_tags(*info) ? append(taken, taken_end, info) : append(left, left_end, info);
        info = next;
    }
    list = std::move(left);
    return taken;
}

// Returns infos with long tags, if there are any; else those that there are.
Info find_provider(const std::string& provider, const std::string& source_address) {
    std::vector<std::string> names = {provider};
    if (provider.find(';') == provider.npos) names.push_back(provider + ";ofi_rxm");
    Info others;
    for (const std::size_t data_bytes : data_sizes)
        for (const std::string& name : names) {
            Info list = query(make_hints(name, data_bytes), source_address);
            if (Info found = take_with_long_tags(list)) return found;
            if (!others) others = std::move(list);
        }
    return others;
}

bool is_down(const fi_info& info) {
    return info.nic && info.nic->link_attr && info.nic->link_attr->state == FI_LINK_DOWN;
}

// The list's first provider, at its best address; a port whose link is down is the last one to be taken.
Info best_of(const Info& list) {
    const auto badness = [](const fi_info& info) { return std::pair(is_down(info), order_of(info)); };
    const fi_info* best = list.get();
    for (const fi_info* info = list.get(); info; info = info->next)
        if (std::strcmp(info->fabric_attr->prov_name, list->fabric_attr->prov_name) == 0 &&
            badness(*info) < badness(*best))
            best = info;
    return Info(fi_dupinfo(best));
}

bool is_same_port(const fi_info& one, const fi_info& other) {
    const auto is_same = [](const char* a, const char* b) { return a && b && std::strcmp(a, b) == 0; };
    return is_same(one.fabric_attr->prov_name, other.fabric_attr->prov_name) &&
           is_same(one.fabric_attr->name, other.fabric_attr->name) &&
           is_same(one.domain_attr->name, other.domain_attr->name) && one.src_addrlen == other.src_addrlen &&
           (one.src_addrlen == 0 || std::memcmp(one.src_addr, other.src_addr, one.src_addrlen) == 0);
}

// Returns what the hints find of the port; nullptr if that is nothing.
Info query_port(const Info& hints, const std::string& source_address, const fi_info& port) {
    const Info list = query(hints, source_address);
    for (const fi_info* info = list.get(); info; info = info->next)
        if (is_same_port(*info, port)) return Info(fi_dupinfo(info));
    return nullptr;
}

bool is_device(const fid_nic& card) {
    // Not all providers tell both.
    const bool has_name = card.device_attr && card.device_attr->name;
    const bool has_bus = card.bus_attr && card.bus_attr->bus_type == FI_BUS_PCI;
    return has_name || has_bus;
}

// Returns true if the provider's network card moves data by itself, as far as the provider says: then it
// wants memory registered, or has addresses that are not IP's. One that sends through sockets may name a
// card, too.
bool drives_network_card(const fi_info& info) {
    if (!info.nic || !is_device(*info.nic) || is_down(info)) return false;
    const bool has_ip_address = info.addr_format == FI_SOCKADDR || info.addr_format == FI_SOCKADDR_IN ||
                                info.addr_format == FI_SOCKADDR_IN6;
    return info.domain_attr->mr_mode != 0 || !has_ip_address;
}

// Replaces the info by one of the same port that has RMA, if there is one that tells the end of writes.
Rma find_rma(Info& info, const std::string& source_address) {
    const std::string provider = info->fabric_attr->prov_name;
    Info hints = make_rma_hints(provider, carries_data(*info) ? data_sizes[0] : 0);
    Info found = query_port(hints, source_address, *info);
    if (!found) return {RmaWay::none, "no RMA, which this provider does not offer"};
    const bool takes_receives = (found->mode & FI_RX_CQ_DATA) != 0;
    if (carries_data(*found) && !takes_receives && provider != tells_nothing_by_writes) {
        info = std::move(found);
        return {RmaWay::with_immediate_data, "long messages by RMA, told with immediate data"};
    }
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    if (!query_port(hints, source_address, *info))
        return {RmaWay::none, "no RMA, whose end this provider does not tell"};
    info = std::move(found);
    return {RmaWay::with_signal, "long messages by RMA, told by messages"};
}

void warn_of_sent_messages(const std::string& provider, const std::string& why) {
    static std::atomic<bool> said{false};  // the same of each communicator
    if (!said.exchange(true))
        log_line(
            "hocket: warning: libfabric's provider '{}' sends long messages, and does not write them to "
            "where "
            "they are received: {}; HOCKET_RMA=off asks for no RMA",
            provider, why);
}

}  // namespace

Info choose_provider(const std::string& provider, const std::string& source_address) {
    if (provider == withheld)
        throw Error(
            Status::transport,
            "libfabric's provider 'shm' is not used: ranks of one host work on each other's memory "
            "without it, and faster, if neither HOCKET_PROVIDER nor HOCKET_PROVIDER_FOR_ALL names it");
    const Info list = find_provider(provider, source_address);
    if (!list)
        throw Error(
            Status::transport,
            fmt::format(
                "libfabric has no provider '{}' with reliable datagrams and tagged messages here. tcp is "
                "Hocket's own, which is taken if neither HOCKET_PROVIDER nor HOCKET_PROVIDER_FOR_ALL names "
                "another; ofi+tcp is libfabric's tcp; libfabric has here: {}",
                provider, existing_providers()));
    Info best = best_of(list);
    if (!has_long_tags(*best))
        throw Error(Status::transport,
                    fmt::format("libfabric's provider '{}' takes tags of {} bits, and Hocket needs {}; use "
                                "another provider, or Hocket's tcp",
                                provider, std::bit_width(best->ep_attr->mem_tag_format), needed_tag_bits));
    return best;
}

bool may_have_network_card() {
    if (const char* named = std::getenv("HOCKET_LIBFABRIC"); named && *named) return true;
    const auto has_entries = [](const char* folder) {
        std::error_code error;
        return std::filesystem::directory_iterator(folder, error) != std::filesystem::directory_iterator();
    };
    return std::any_of(std::begin(lists_of_cards), std::end(lists_of_cards), has_entries);
}

Info find_card(const std::string& source_address) {
    for (const std::size_t data_bytes : data_sizes) {
        const Info list = query(make_rma_hints("", data_bytes), source_address);
        for (const fi_info* info = list.get(); info; info = info->next)
            if (drives_network_card(*info) && has_long_tags(*info) &&
                info->fabric_attr->prov_name != std::string_view(withheld))
                return Info(fi_dupinfo(info));
    }
    return nullptr;
}

Rma choose_rma(Info& info, const std::string& source_address) {
    const char* named = std::getenv("HOCKET_RMA");
    const std::string_view asked = named ? named : "";
    if (!asked.empty() && asked != "on" && asked != "off")
        throw Error(Status::invalid_argument,
                    fmt::format("HOCKET_RMA is '{}'; set it to on or off, or not at all, for "
                                "RMA by network cards alone",
                                asked));
    if (asked == "off") return {RmaWay::none, "no RMA (HOCKET_RMA=off)"};
    if (asked.empty() && !drives_network_card(*info))
        return {RmaWay::none, "no RMA, which this provider leaves to the processor"};
    Rma rma = find_rma(info, source_address);
    if (rma.way == RmaWay::none) warn_of_sent_messages(info->fabric_attr->prov_name, rma.why);
    return rma;
}

bool carries_data(const fi_info& info) {
    return info.domain_attr->cq_data_size >= data_sizes[0];
}

bool has_rxm(const fi_info& info) {
    return std::string_view(info.fabric_attr->prov_name).find("ofi_rxm") != std::string_view::npos;
}

}  // namespace hocket::transport
