#include "runtime/engine/job/agreement.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "dsl/graph/topology.hpp"
#include "runtime/base/error.hpp"
#include "runtime/engine/job/tuning.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/transport/net/texts.hpp"
#include "runtime/transport/streams/mesh.hpp"

namespace hocket::engine {
namespace {

using Json = nlohmann::json;

constexpr const char* host_id_is_set = "setting HOCKET_HOST_ID";

// The boot id distinguishes hosts that have the same name. Containers on one host have the same boot id;
// those that share neither name nor network are distinguished by name and network.
std::string this_host() {
    char name[256] = "", network[64] = "";
    gethostname(name, sizeof name - 1);
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    [[maybe_unused]] const auto length = readlink("/proc/self/ns/net", network, sizeof network - 1);
    return fmt::format("{}/{}/{}", name, boot, network);
}

// Returns an id that no other communicator has.
std::string fresh_id() {
    static std::atomic<unsigned> made{0};
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return fmt::format("{}:{}:{}", name, getpid(), made++);
}

std::vector<int> usable_cores() {
    std::vector<int> usable;
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        for (int core = 0; core < CPU_SETSIZE; ++core)
            if (CPU_ISSET(core, &cores)) usable.push_back(core);
    return usable;
}

void compare_cards(const std::vector<Json>& cards, const char* key) {
    std::map<std::string, std::vector<int>> ranks_by_value;
    for (std::size_t rank = 0; rank < cards.size(); ++rank)
        ranks_by_value[cards[rank].at(key).get<std::string>()].push_back(static_cast<int>(rank));
    if (ranks_by_value.size() == 1) return;
    std::string text = fmt::format("the ranks differ in {}:", key);
    for (const auto& [value, ranks] : ranks_by_value)
        text += fmt::format("\n  \"{}\" on {}", value, transport::all_ranks_text(ranks));
    text +=
        "\n  hint: give all ranks the same value, by this variable or by the option in its place (hocket-run "
        "passes its environment on to all)";
    throw Error(Status::mismatch, text);
}

}  // namespace

Agreement agree(transport::Bootstrap& bootstrap, const Options& options, const std::string& invitation,
                const transport::Endpoint& recovery) {
    const Json mine = {{"Hocket's version", HOCKET_VERSION},
                       {"HOCKET_TOPOLOGY", options.topology},
                       {"HOCKET_PROBE", options.probes_links ? "on" : "off"},
                       {"HOCKET_RAILS", std::to_string(transport::most_rails())},
                       {"HOCKET_SCHEDULE", options.schedule},
                       {"HOCKET_PROVIDER", options.provider},
                       {"HOCKET_CUDA_PLANS", options.cuda_plans ? "on" : "off"},
                       {"HOCKET_PROVIDER_FOR_ALL", options.provider_carries_all ? options.provider : ""},
                       {host_id_is_set, options.host_id.empty() ? "no" : "yes"},
                       {"host", options.host_id.empty() ? this_host() : options.host_id},
                       {"memory", invitation},
                       {"recovery", recovery.host},
                       {"recovery's port", recovery.port},
                       {"cores", usable_cores()},
                       {"fences others", LocalPeers::can_fence_others()},
                       {"tuning", tuning_to_share(options)},
                       {"tuning file", options.tuning},
                       {"rank in the job", options.job_rank},
                       {"id", options.rank == 0 ? fresh_id() : ""}};
    // Texts from the environment need not be UTF-8.
    const std::string card = mine.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::vector<Json> cards;
    for (const std::string& text : bootstrap.all_gather(card, options.join_timeout)) {
        cards.push_back(Json::parse(text, nullptr, false));
        if (!cards.back().is_object() || !cards.back().contains("Hocket's version"))
            throw Error(
                Status::mismatch,
                fmt::format("rank {} runs another version of Hocket than {}; install the same on all hosts",
                            cards.size() - 1, HOCKET_VERSION));
    }
    // The version comes first: the meaning of the other fields depends on it.
    for (const char* key :
         {"Hocket's version", "HOCKET_TOPOLOGY", "HOCKET_PROBE", "HOCKET_RAILS", "HOCKET_SCHEDULE",
          "HOCKET_PROVIDER_FOR_ALL", "HOCKET_PROVIDER", "HOCKET_CUDA_PLANS", host_id_is_set})
        compare_cards(cards, key);
    Agreement agreement;
    std::vector<std::set<int>> cores;  // by host: the cores that its ranks may use together
    agreement.tuning = cards[0].at("tuning").get<std::string>();
    agreement.tuning_file = cards[0].at("tuning file").get<std::string>();
    agreement.id = cards[0].at("id").get<std::string>();
    std::map<std::string, int> numbers;
    for (const Json& card : cards) {
        const auto host = card.at("host").get<std::string>();
        agreement.hosts.push_back(numbers.emplace(host, static_cast<int>(numbers.size())).first->second);
        agreement.invitations.push_back(card.at("memory").get<std::string>());
        agreement.recoveries.push_back(
            {card.at("recovery").get<std::string>(), card.at("recovery's port").get<int>()});
        agreement.job_ranks.push_back(card.at("rank in the job").get<int>());
        agreement.fences_others &= card.at("fences others").get<bool>();
        cores.resize(numbers.size());
        const auto usable = card.at("cores").get<std::vector<int>>();
        cores[static_cast<std::size_t>(agreement.hosts.back())].insert(usable.begin(), usable.end());
    }
    const auto fewest = std::min_element(cores.begin(), cores.end(),
                                         [](const auto& a, const auto& b) { return a.size() < b.size(); });
    agreement.cores = std::max(1, static_cast<int>(fewest->size()));
    return agreement;
}

std::string topology_of(const Agreement& agreement) {
    const auto ranks = static_cast<dsl::Rank>(agreement.hosts.size());
    if (ranks == 1) return "1";
    const dsl::Rank hosts = 1 + *std::max_element(agreement.hosts.begin(), agreement.hosts.end());
    const dsl::Rank local = ranks / hosts;
    for (dsl::Rank rank = 0; rank < ranks; ++rank)
        if (agreement.hosts[static_cast<std::size_t>(rank)] != rank / local) return std::to_string(ranks);
    return dsl::host_topology(local, hosts, agreement.cores < local ? agreement.cores : 0).name;
}

std::vector<std::string> gather_all(transport::Bootstrap& bootstrap, const std::string& mine,
                                    const transport::Patience& patience) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(patience.deadline - transport::Clock::now());
    return bootstrap.all_gather(mine, left);
}

void connect_all(transport::Bootstrap& bootstrap, transport::Fabric& fabric,
                 const transport::Patience& patience) {
    fabric.connect(gather_all(bootstrap, fabric.local_address(), patience), patience);
}

}  // namespace hocket::engine
