// Sets of ranks against sets of the standard library: whatever is united, equal sets have one number.
#include "dsl/proof/symbols/contributions.hpp"

#include <map>
#include <random>
#include <set>

#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Contributions;
using dsl::Rank;
using dsl::SetId;
using Plain = std::set<Rank>;

namespace {

class Both {
  public:
    explicit Both(Rank ranks) : ranks_(ranks), sets_(ranks) {
        for (Rank rank = 0; rank < ranks; ++rank) add({rank}, sets_.single(rank));
        Plain all;
        for (Rank rank = 0; rank < ranks; ++rank) all.insert(rank);
        add(all, sets_.everyone());
    }

    // Returns the index of the last set that was made.
    std::size_t unite(std::size_t i, std::size_t j) {
        const auto [a, left] = all_[i % all_.size()];
        const auto [b, right] = all_[j % all_.size()];
        Plain sum = a;
        bool overlaps = false;
        for (const Rank rank : b) overlaps |= !sum.insert(rank).second;
        const SetId found = sets_.unite(left, right);
        CHECK((found == Contributions::overlap) == overlaps);
        if (overlaps)
            CHECK(a.contains(sets_.common(left, right)));
        else
            add(sum, found);
        return all_.size() - 1;
    }

  private:
    void add(const Plain& plain, SetId set) {
        CHECK(numbers_.emplace(plain, set).first->second == set);
        CHECK(plains_.emplace(set, plain).first->second == plain);
        bool is_same = sets_.size(set) == static_cast<Rank>(plain.size());
        for (Rank rank = 0; rank < ranks_; ++rank)
            is_same &= sets_.contains(set, rank) == plain.contains(rank);
        CHECK(is_same);
        CHECK(sets_.lowest(set) == *plain.begin());
        CHECK(sets_.highest(set) == *plain.rbegin());
        all_.emplace_back(plain, set);
    }

    Rank ranks_;
    Contributions sets_;
    std::vector<std::pair<Plain, SetId>> all_;
    std::map<Plain, SetId> numbers_;
    std::map<SetId, Plain> plains_;
};

}  // namespace

TEST_CASE("sets of ranks are equal exactly if their numbers are, as runs and as bits") {
    std::mt19937 random(1);
    for (const Rank ranks : {1, 2, 5, 63, 64, 65, 127, 128, 129, 200, 640, 1000}) {
        INFO(ranks << " ranks");
        Both both(ranks);
        for (int i = 0; i < test::in_long_form(500, 150); ++i) both.unite(random(), random());
        // A neighbour's rank makes a run longer; every other rank makes many runs, and then bits.
        for (const Rank stride : {1, 2, 3}) {
            std::size_t sum = 0;
            for (Rank rank = stride; rank < ranks; rank += stride)
                sum = both.unite(sum, static_cast<std::size_t>(rank));
        }
    }
}
