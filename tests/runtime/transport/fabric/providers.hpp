// The providers that the tests of Fabric run over.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/long_form.hpp"
#include "tests/support/once_for_children.hpp"
#include "tests/support/processes.hpp"

namespace hocket::test {

// Hocket's own, libfabric's, and one that demands what those of real networks do (support/demanding_fabric):
// "ofi+tcp that demands local,again=3". By RMA: though the provider drives no network card.
inline const std::vector<std::string> providers = {
    "tcp",
    "ofi+tcp",
    "net",
    "sockets",
    "udp",
    "ofi+tcp that demands local,virt_addr,allocated,prov_key",
    "ofi+tcp that demands local,endpoint,again=3,late=20",
    "ofi+tcp that demands local,segments=2",
    "net that demands local,again=2,segments=1",
    "ofi+tcp by RMA",
    "net by RMA",
    "sockets by RMA",
    "udp by RMA",
    "ofi+tcp that demands rma,sent=16384,card,local,virt_addr,allocated,prov_key,late=20",
    "net that demands rma,sent=16384,card,local,endpoint,again=3,late=20,segments=2",
    "sockets that demands rma,sent=16384,rx_cq_data,card,local,again=5,late=9",
    "cxi that demands "
    "cxi,tag_bits=48,rma,sent=16384,card,endpoint,live=300,prov_key,segments=1,again=9,late=9",
    "net that demands data_or_tags,late=9",
    "ofi+tcp that demands no_data,local,endpoint,again=3,late=20,segments=2",
    "net that demands no_data,local,again=5,segments=1",
    "ofi+tcp that demands no_data,rma,sent=16388,card,local,virt_addr,again=4,late=20",
    "net that demands no_data,rma,sent=16388,card,local,prov_key,segments=1,late=9",
    "ofi+tcp that demands no_data,no_delivery,rma,card,local,late=9",
};

// For tests with many cases.
inline const std::vector<std::string> few_providers = {
    "tcp",
    "ofi+tcp",
    "sockets",
    "net that demands local,again=2,segments=1",
    "ofi+tcp that demands local,endpoint,again=3,late=20",
    "net by RMA",
    "ofi+tcp that demands rma,sent=16384,card,local,virt_addr,prov_key,again=3,late=20",
    "ofi+tcp that demands rma,sent=16384,rx_cq_data,card,local,late=9",
    "net that demands no_data,local,again=2,segments=1,late=9",
    "ofi+tcp that demands no_data,rma,sent=16388,card,local,late=20",
};

// Returns true if a test that has several cases for each provider runs them all for this one.
inline bool runs_all(const std::string& provider) {
    return is_long_form() ||
           std::find(few_providers.begin(), few_providers.end(), provider) != few_providers.end();
}

// Returns the providers of the list that a test runs over, for from_range, once libfabric is loaded. Usually,
// that is every other one, and Hocket's own; tests whose `turn` is odd have the others.
inline std::vector<std::string> loaded(const std::vector<std::string>& list, std::size_t turn) {
    load_libfabric_for_children();
    std::vector<std::string> taken;
    for (std::size_t i = 0; i < list.size(); ++i)
        if (is_long_form() || list[i] == "tcp" || i % 2 == turn % 2) taken.push_back(list[i]);
    return taken;
}

// Prepares this process for a provider of the list, before its first endpoint; returns the name to open.
inline std::string prepare_provider(const std::string& provider) {
    static const std::string separator = " that demands ";
    static const std::string by_rma = " by RMA";
    if (provider.ends_with(by_rma)) {
        setenv("HOCKET_RMA", "on", 1);
        return provider.substr(0, provider.size() - by_rma.size());
    }
    const std::size_t at = provider.find(separator);
    if (at == provider.npos) return provider;
    setenv("HOCKET_LIBFABRIC", HOCKET_DEMANDING_LIBFABRIC, 1);
    setenv("HOCKET_DEMANDS", provider.substr(at + separator.size()).c_str(), 1);
    return provider.substr(0, at);
}

}  // namespace hocket::test
