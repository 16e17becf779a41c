// libfabric's objects behind one endpoint, from the fabric up to the enabled endpoint.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <memory>
#include <string>

namespace hocket::transport {

template <class T>
struct FidDeleter {
    void operator()(T* object) const { fi_close(&object->fid); }
};
template <class T>
using Fid = std::unique_ptr<T, FidDeleter<T>>;

struct EndpointObjects {
    Fid<fid_fabric> fabric;
    Fid<fid_domain> domain;
    Fid<fid_av> addresses;
    Fid<fid_cq> completions;
    Fid<fid_ep> endpoint;
    int wait_fd = -1;           // the completion queue's, if the provider has one
    std::string local_address;  // in the provider's own form

    void close();          // in the order that libfabric requires
    void keep_for_ever();  // replaces close(): the provider is no longer called for them. Thread-safe.
};

// Throws Error(transport).
EndpointObjects open_endpoint(fi_info& info);

// Throws Error(transport) if code is a libfabric error: "libfabric's provider 'tcp' cannot ...: why".
void check_fabric(const std::string& provider, const char* what, long code);

}  // namespace hocket::transport
