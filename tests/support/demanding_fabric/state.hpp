// What this library demands (libfabric.cpp), and what it knows of the process's objects of libfabric.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace demanding {

[[noreturn, gnu::format(printf, 1, 2)]] inline void end_because(const char* format, ...) {
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
    bool rma = false, rx_cq_data = false, no_data = false, data_or_tags = false, no_delivery = false,
         card = false, cxi = false, down_first = false;
    unsigned tag_bits = 64, live = 0;
    std::size_t segments = SIZE_MAX, most = SIZE_MAX, sent = SIZE_MAX, locked = SIZE_MAX;
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
        no_data |= data_or_tags;
    }

    void take(const std::string& word) {
        static const std::map<std::string, int> modes = {{"local", FI_MR_LOCAL},
                                                         {"endpoint", FI_MR_ENDPOINT},
                                                         {"prov_key", FI_MR_PROV_KEY},
                                                         {"virt_addr", FI_MR_VIRT_ADDR},
                                                         {"allocated", FI_MR_ALLOCATED}};
        static const std::map<std::string, bool Demands::*> traits = {
            {"rma", &Demands::rma},
            {"rx_cq_data", &Demands::rx_cq_data},
            {"no_data", &Demands::no_data},
            {"data_or_tags", &Demands::data_or_tags},
            {"no_delivery", &Demands::no_delivery},
            {"card", &Demands::card},
            {"cxi", &Demands::cxi},
            {"down_first", &Demands::down_first}};
        if (const auto trait = traits.find(word); trait != traits.end()) {
            this->*trait->second = true;
            return;
        }
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
        else if (name == "sent")
            sent = value;
        else if (name == "locked")
            locked = value;
        else if (name == "again")
            again = static_cast<unsigned>(value);
        else if (name == "late")
            late = static_cast<unsigned>(value);
        else if (name == "tag_bits")
            tag_bits = static_cast<unsigned>(value);
        else if (name == "live")
            live = static_cast<unsigned>(value);
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

class Writes;

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
    unsigned registered = 0;
    std::map<void*, std::vector<Region*>> in_flight;  // by context
    std::map<const fid_cq*, std::vector<Held>> late;
    unsigned long completed = 0;
    std::map<const fid_cq*, fi_cq_err_entry> failed;  // that is not read yet
    std::map<const fid*, const fid_cq*> queues;       // by their fid, to wait on
    const fi_ops* queue = nullptr;
    std::map<const fid*, Writes*> writes;  // by endpoint
    std::vector<Writes*> closed_writes;
    std::map<std::string, fi_addr_t> addresses;
    const fi_ops_av* table = nullptr;
};

inline State& state() {
    static auto& only = *new State;
    return only;
}

// Hocket calls the endpoints of several communicators from several threads.
inline std::recursive_mutex& mutex() {
    static auto& only = *new std::recursive_mutex;
    return only;
}

// A number of polls that something waits for.
inline unsigned some_polls() {
    State& s = state();
    return s.demands.late ? static_cast<unsigned>(s.random() % s.demands.late) : 0;
}

inline bool finds_no_room() {
    State& s = state();
    return s.demands.again && s.random() % s.demands.again == 0;
}

// Checks that memory of a message or write lies in a live registration that allows `access`.
inline void check_place(const iovec& place, Region* region, std::uint64_t access) {
    State& s = state();
    if (!s.regions.contains(region)) end_because("a message's memory has no live registration");
    const auto* begin = static_cast<const char*>(place.iov_base);
    if (begin < region->begin || begin + place.iov_len > region->begin + region->bytes)
        end_because("a message goes beyond its registered memory");
    if (!(region->access & access)) end_because("a registration does not allow this direction");
    if (s.demands.mr_mode & FI_MR_ENDPOINT && !region->is_enabled)
        end_because("a registration is not bound to the endpoint and enabled");
}

// Checks the memory that a program sends from, receives into or writes from, and returns its registrations.
inline std::vector<Region*> check_places(const iovec* places, void** descriptors, std::size_t count,
                                         std::uint64_t access) {
    State& s = state();
    if (count > s.demands.segments) end_because("a message of %zu segments", count);
    std::size_t bytes = 0;
    std::vector<Region*> regions;
    for (std::size_t i = 0; i < count; ++i) {
        bytes += places[i].iov_len;
        if (!(s.demands.mr_mode & FI_MR_LOCAL)) continue;
        regions.push_back(static_cast<Region*>(descriptors ? descriptors[i] : nullptr));
        check_place(places[i], regions.back(), access);
    }
    if (bytes > s.demands.most) end_because("a message of %zu bytes", bytes);
    return regions;
}

}  // namespace demanding
