#include "dsl/synthesis/turns.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hocket::dsl {
namespace {

// Links are brought to each other by the ways they are on, of which one that takes several paths at once says
// little: it lists its links in no order.
bool is_one_path(const std::vector<Hop>& hops) {
    return std::all_of(hops.begin(), hops.end(), [](const Hop& hop) { return hop.share == 1; });
}

// The turn must bring each link to one other, of the same rate.
class LinkImages {
  public:
    explicit LinkImages(const std::vector<NetworkLink>& links)
        : links_(links), image_(links.size(), none), source_(image_) {}

    bool add(LinkId from, LinkId to) {
        if (image_[from] == none && source_[to] == none) image_[from] = to, source_[to] = from;
        return image_[from] == to && source_[to] == from && links_[from].rate == links_[to].rate;
    }

  private:
    static constexpr LinkId none = ~LinkId{0};
    const std::vector<NetworkLink>& links_;
    std::vector<LinkId> image_, source_;
};

bool leaves_ways(const Ways& ways, const Turn& turn, const Deadline& deadline) {
    LinkImages images(ways.network().links());
    for (Rank from = 0; from < ways.ranks(); ++from) {
        deadline.check("looking for symmetries");
        for (Rank to = 0; to < ways.ranks(); ++to) {
            const auto &one = ways.of(from, to), &other = ways.of(turn.moved(from, 1), turn.moved(to, 1));
            if (one.size() != other.size() || is_one_path(one) != is_one_path(other)) return false;
            if (!is_one_path(one)) continue;
            for (std::size_t i = 0; i < one.size(); ++i)
                if (!images.add(one[i].link, other[i].link)) return false;
        }
    }
    return true;
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
        for (Rank from = 0; from < ways.ranks(); ++from)
            for (Rank to = 0; to < ways.ranks(); ++to) {
                const auto &one = ways.of(from, to), &other = ways.of(turn.moved(from, 1), turn.moved(to, 1));
                if (is_one_path(one))
                    for (std::size_t i = 0; i < one.size(); ++i)
                        first[find(one[i].link)] = find(other[i].link);
            }
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
