#include "dsl/synthesis/turns.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace hocket::dsl {
namespace {

constexpr double share_steps = 1099511627776;  // 2^40: shares that differ by rounding are the same

std::uint64_t mixed(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

// Returns a number for each link that says which pairs of ranks use it, with which shares of their messages,
// if the turn moves the ranks. On a way of one path its place counts, too; several paths at once list their
// links in no order.
std::vector<std::uint64_t> users_after(const Ways& ways, const Turn& turn, const Deadline& deadline) {
    std::vector<std::uint64_t> users(ways.network().links().size(), 0);
    for (Rank from = 0; from < ways.ranks(); ++from) {
        deadline.check("looking for symmetries");
        const auto row =
            static_cast<std::uint64_t>(turn.moved(from, 1)) * static_cast<std::uint64_t>(ways.ranks());
        for (Rank to = 0; to < ways.ranks(); ++to) {
            const std::uint64_t pair = mixed(row + static_cast<std::uint64_t>(turn.moved(to, 1)));
            const std::vector<Hop>& hops = ways.of(from, to);
            const bool is_one_path =
                std::all_of(hops.begin(), hops.end(), [](const Hop& hop) { return hop.share == 1; });
            for (std::size_t i = 0; i < hops.size(); ++i) {
                const auto share = static_cast<std::uint64_t>(std::llround(hops[i].share * share_steps));
                users[hops[i].link] += mixed(mixed(pair ^ share) + (is_one_path ? i : 0));
            }
        }
    }
    return users;
}

// Returns the link that the turn makes of each: of the same rate, and used by what it makes of the pairs that
// use the first. Returns nothing if there is none for some link.
std::optional<std::vector<LinkId>> images_of_links(const Ways& ways, const Turn& turn,
                                                   const Deadline& deadline) {
    const auto& links = ways.network().links();
    const auto in_order = [&](const Turn& by) {
        const std::vector<std::uint64_t> users = users_after(ways, by, deadline);
        std::vector<std::tuple<double, std::uint64_t, LinkId>> order;
        for (LinkId link = 0; link < links.size(); ++link)
            order.emplace_back(links[link].rate, users[link], link);
        std::sort(order.begin(), order.end());
        return order;
    };
    const auto before = in_order(Turn()), after = in_order(turn);
    std::vector<LinkId> image(links.size());
    for (std::size_t i = 0; i < links.size(); ++i) {
        const auto& [rate, users, link] = before[i];
        const auto& [moved_rate, moved_users, moved_link] = after[i];
        if (rate != moved_rate || users != moved_users) return std::nullopt;
        image[moved_link] = link;
    }
    return image;
}

bool leaves_ways(const Ways& ways, const Turn& turn, const Deadline& deadline) {
    for (Rank from = 0; from < ways.ranks(); ++from)
        for (Rank to = 0; to < ways.ranks(); ++to) {
            const Rank moved_from = turn.moved(from, 1), moved_to = turn.moved(to, 1);
            if (ways.of(from, to).size() != ways.of(moved_from, moved_to).size() ||
                ways.is_direct(from, to) != ways.is_direct(moved_from, moved_to))
                return false;
        }
    return images_of_links(ways, turn, deadline).has_value();
}

}  // namespace

// Looks at the coordinates from the innermost one on, and at each for the most values that turn.
std::vector<Turn> find_turns(const Ways& ways, const Deadline& deadline) {
    std::vector<Turn> turns;
    const Rank ranks = ways.ranks();
    for (Rank stride = 1; stride < ranks;) {
        Rank size = ranks / stride;
        const auto fits = [&] {
            return ranks / stride % size == 0 && leaves_ways(ways, {stride, size}, deadline);
        };
        while (size > 1 && !fits()) --size;
        if (size > 1) {
            turns.push_back({stride, size});
        } else {
            size = 2;
            while (ranks / stride % size != 0) ++size;
        }
        stride *= size;
    }
    return turns;
}

LinkOrbits::LinkOrbits(const Ways& ways, const std::vector<Turn>& turns)
    : ranks_(static_cast<std::size_t>(ways.ranks())) {
    unite(ways, turns);
    add_uses(ways, turns);
}

void LinkOrbits::unite(const Ways& ways, const std::vector<Turn>& turns) {
    const auto& links = ways.network().links();
    std::vector<LinkId> first(links.size());
    std::iota(first.begin(), first.end(), LinkId{0});
    const auto find = [&](LinkId link) {
        while (first[link] != link) link = first[link] = first[first[link]];
        return link;
    };
    for (const Turn& turn : turns)
        if (const auto image = images_of_links(ways, turn, no_deadline))
            for (LinkId link = 0; link < links.size(); ++link) first[find(link)] = find((*image)[link]);
    constexpr auto none = ~std::uint32_t{0};
    std::vector<std::uint32_t> number(links.size(), none);
    for (LinkId link = 0; link < links.size(); ++link) {
        std::uint32_t& orbit = number[find(link)];
        if (orbit == none) {
            orbit = count();
            rates_.push_back(links[link].rate);
            members_.push_back(0);
        }
        orbit_.push_back(orbit);
        ++members_[orbit];
    }
}

void LinkOrbits::add_uses(const Ways& ways, const std::vector<Turn>& turns) {
    const double count = images(turns);
    for (Rank from = 0; from < ways.ranks(); ++from)
        for (Rank to = 0; to < ways.ranks(); ++to) {
            std::vector<Use>& uses = uses_.emplace_back();
            for (const Hop& hop : ways.of(from, to)) {
                const double amount = hop.share * count / members_[of(hop.link)];
                const auto same = std::find_if(uses.begin(), uses.end(),
                                               [&](const Use& use) { return use.orbit == of(hop.link); });
                if (same != uses.end())
                    same->amount += amount;
                else
                    uses.push_back({of(hop.link), amount});
            }
        }
}

}  // namespace hocket::dsl
