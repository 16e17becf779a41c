#include "capi/joining.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>

#include "capi/errors.hpp"
#include "capi/growth.hpp"
#include "runtime/base/error.hpp"
#include "runtime/transport/bootstrap/invitation.hpp"
#include "runtime/transport/net/own_address.hpp"

namespace hocket::capi {
namespace {

using Clock = std::chrono::steady_clock;

// Rank 0 puts a text with this prefix into the store if it cannot invite the others, so that they need not
// wait.
constexpr std::string_view refusal = "rank 0 failed: ";

[[noreturn]] void store_failed(const char* function, const std::string& key, int code) {
    throw Error(Status::bootstrap,
                fmt::format("hkt_store.{} failed for the key {}, with {}: see what the store says", function,
                            key, code));
}

void put(const hkt_store& store, const std::string& key, const std::string& text) {
    if (const int code = store.set(store.user, key.c_str(), text.data(), text.size()))
        store_failed("set", key, code);
}

hkt_unique_id invite_in(const hkt_store& store, const std::string& key) {
    hkt_unique_id id;
    try {
        invite(id);
    } catch (const std::exception& error) {
        const std::string text = std::string(refusal) + error.what();
        store.set(store.user, key.c_str(), text.data(), text.size());
        throw;
    }
    try {
        put(store, key, text_of(id));
    } catch (const Error&) {
        transport::take_lobby(transport::Invitation::parse(text_of(id)));  // no rank will join there
        throw;
    }
    return id;
}

hkt_unique_id find_in(const hkt_store& store, const std::string& key, std::chrono::milliseconds timeout) {
    char value[1024];
    std::size_t bytes = 0;
    const auto began = Clock::now();
    if (const int code = store.get(store.user, key.c_str(), value, sizeof value, &bytes, timeout.count())) {
        if (Clock::now() - began >= timeout * 9 / 10)  // the ranks' clocks differ
            throw Error(
                Status::timeout,
                fmt::format("rank 0 has not put the key {} into the store within {} ms (hkt_store.get "
                            "returned {}); look at the output of rank 0 first",
                            key, timeout.count(), code));
        store_failed("get", key, code);
    }
    const std::string text(value, std::min(bytes, sizeof value));
    if (text.starts_with(refusal)) throw Error(Status::bootstrap, text);
    hkt_unique_id id{};
    try {
        transport::Invitation::parse(text);
    } catch (const Error&) {
        refuse(fmt::format(
            "hkt_store.get gave {} bytes for the key {}, which are not the text that rank 0 has set", bytes,
            key));
    }
    text.copy(id.text, std::min(text.size(), sizeof id.text - 1));
    return id;
}

std::string key_of(const hkt_store& store) {
    return std::string(store.prefix) + "/hocket";
}

hkt_store checked(const hkt_store& given) {
    const hkt_store store = read_options(&given);
    if (store.set == nullptr || store.get == nullptr)
        refuse(fmt::format("hkt_store.{} is null: every rank gives both functions",
                           store.set == nullptr ? "set" : "get"));
    if (store.prefix == nullptr || *store.prefix == '\0')
        refuse("hkt_store.prefix is null or empty: give each communicator of the job another one");
    return store;
}

}  // namespace

void invite(hkt_unique_id& id) {
    const std::string text = transport::invite(transport::own_address()).text();
    if (text.size() >= sizeof id.text)
        refuse(fmt::format("hkt_unique_id_create: \"{}\" is longer than an id may be", text));
    std::memset(id.text, 0, sizeof id.text);
    text.copy(id.text, text.size());
}

std::string text_of(const hkt_unique_id& id) {
    return std::string(id.text, strnlen(id.text, sizeof id.text));
}

std::size_t waiting_at(const hkt_unique_id& id) {
    const auto waiting = transport::waiting_at(transport::Invitation::parse(text_of(id)));
    if (!waiting)
        refuse(
            "hkt_unique_id_waiting: the id was not made in this process, or has been used or destroyed: the "
            "process that called hkt_unique_id_create asks, before it is rank 0 of a communicator of the id");
    return *waiting;
}

void close_door(const hkt_unique_id& id) {
    const auto lobby = transport::take_lobby(transport::Invitation::parse(text_of(id)));
    if (!lobby)
        refuse("hkt_unique_id_destroy: the id was not made in this process, or has been used or destroyed");
    lobby->turn_all_away("its id was destroyed (hkt_unique_id_destroy): look for another one");
}

bool meets_by_invitation(const hkt_comm_options& given) {
    const bool has_address = (given.master_addr && *given.master_addr) || given.master_port != 0 ||
                             given.listen_fd != 0 || (given.secret && *given.secret);
    const char* const by = given.unique_id ? "unique_id" : "store";
    if (given.unique_id && given.store)
        refuse("hkt_comm_options.unique_id and store both say where the ranks meet: set one of them");
    if (!given.unique_id && !given.store) return false;
    if (has_address)
        refuse(
            fmt::format("hkt_comm_options.{} says where the ranks meet: then master_addr, master_port, "
                        "listen_fd and secret must not be set",
                        by));
    return true;
}

void accept_invitation(const hkt_comm_options& given, engine::Options& options) {
    if (!given.unique_id && !given.store) return;
    const bool is_first = options.rank == 0 && !options.is_newcomer;
    hkt_unique_id id{};
    if (given.unique_id) {
        id = *given.unique_id;
    } else {
        const hkt_store store = checked(*given.store);
        if (options.world_size == 1) return;
        const std::string key = key_of(store);
        const auto began = Clock::now();
        id = is_first ? invite_in(store, key) : find_in(store, key, options.join_timeout);
        // Reduces the join timeout by the time that the wait took.
        const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
        options.join_timeout = std::max(options.join_timeout - waited, std::chrono::milliseconds(1));
    }
    const auto invitation = transport::Invitation::parse(text_of(id));
    options.master_addr = invitation.at.host;
    options.master_port = invitation.at.port;
    options.secret = invitation.secret;
    if (!is_first) return;
    options.lobby = transport::take_lobby(invitation);
    if (options.world_size > 1 && !options.lobby)
        refuse(
            "hkt_comm_options.unique_id was not made in this process, or has been used: rank 0 calls "
            "hkt_unique_id_create, once for each communicator");
}

Error with_rendezvous(const hkt_comm_options& given, const Error& error) {
    if (!given.store || !given.store->prefix || error.status() != Status::bootstrap) return error;
    return Error(error.status(),
                 fmt::format("{}; the ranks meet at the address under the key {} of hkt_comm_options.store: "
                             "was it set for an earlier communicator? Then give this one another prefix",
                             error.what(), key_of(*given.store)));
}

}  // namespace hocket::capi
