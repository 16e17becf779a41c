#include "runtime/transport/libfabric/endpoint_objects.hpp"

#include <fmt/format.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <deque>
#include <mutex>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::transport {
namespace {

fid_cq* open_completions(const fi_info& info, fid_domain* domain, int& wait_fd) {
    fi_cq_attr attributes{};
    attributes.format = FI_CQ_FORMAT_TAGGED;
    attributes.size = info.tx_attr->size + info.rx_attr->size;
    if ((info.caps & FI_RMA) != 0)
        attributes.size += info.rx_attr->size;  // immediate data, which comes unasked
    attributes.wait_obj = FI_WAIT_FD;
    fid_cq* completions = nullptr;
    if (fi_cq_open(domain, &attributes, &completions, nullptr) == 0) {
        if (fi_control(&completions->fid, FI_GETWAIT, &wait_fd) == 0) return completions;
        wait_fd = -1;
        fi_close(&completions->fid);
    }
    attributes.wait_obj = FI_WAIT_NONE;
    check_fabric(info.fabric_attr->prov_name, "cannot open a completion queue",
                 fi_cq_open(domain, &attributes, &completions, nullptr));
    return completions;
}

std::string address_of(const std::string& provider, fid_ep* endpoint) {
    std::size_t size = 0;
    fi_getname(&endpoint->fid, nullptr, &size);  // fails, but gives the size
    std::string address(size, '\0');
    check_fabric(provider, "cannot tell its address", fi_getname(&endpoint->fid, address.data(), &size));
    address.resize(size);
    return address;
}

}  // namespace

void check_fabric(const std::string& provider, const char* what, long code) {
    if (code < 0)
        throw Error(Status::transport, fmt::format("libfabric's provider '{}' {}: {}", provider, what,
                                                   fi_strerror(static_cast<int>(-code))));
}

EndpointObjects open_endpoint(fi_info& info) {
    const std::string provider = info.fabric_attr->prov_name;
    EndpointObjects objects;
    fid_fabric* fabric = nullptr;
    check_fabric(provider, "cannot open the fabric", fi_fabric(info.fabric_attr, &fabric, nullptr));
    objects.fabric.reset(fabric);

    fid_domain* domain = nullptr;
    check_fabric(provider, "cannot open the domain", fi_domain(fabric, &info, &domain, nullptr));
    objects.domain.reset(domain);

    fi_av_attr attributes{};
    attributes.type = FI_AV_TABLE;
    fid_av* addresses = nullptr;
    check_fabric(provider, "cannot open the address table",
                 fi_av_open(domain, &attributes, &addresses, nullptr));
    objects.addresses.reset(addresses);
    objects.completions.reset(open_completions(info, domain, objects.wait_fd));

    fid_ep* endpoint = nullptr;
    check_fabric(provider, "cannot open an endpoint", fi_endpoint(domain, &info, &endpoint, nullptr));
    objects.endpoint.reset(endpoint);
    check_fabric(provider, "cannot bind the address table", fi_ep_bind(endpoint, &addresses->fid, 0));
    check_fabric(provider, "cannot bind the completion queue",
                 fi_ep_bind(endpoint, &objects.completions->fid, FI_TRANSMIT | FI_RECV));
    check_fabric(provider, "cannot enable the endpoint", fi_enable(endpoint));
    objects.local_address = address_of(provider, endpoint);
    return objects;
}

void EndpointObjects::close() {
    endpoint.reset();
    completions.reset();
    addresses.reset();
    domain.reset();
    fabric.reset();
}

void EndpointObjects::keep_for_ever() {
    static std::mutex mutex;
    static auto& kept = *new std::deque<EndpointObjects>;  // never destroyed, which would close them
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(*this));
    wait_fd = -1;
}

}  // namespace hocket::transport
