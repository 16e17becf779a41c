#include "dsl/base/collective.hpp"

#include <xxhash.h>

#include <deque>
#include <map>
#include <mutex>

namespace hocket::dsl {
namespace {

constexpr std::size_t most_own = 60000;

// The collectives that files define. Rows are never removed, since plans and records name them.
class OwnCollectives {
  public:
    Collective add(OwnContract contract) {
        const std::lock_guard lock(mutex_);
        const auto [entry, is_new] = numbers_.try_emplace(contract.text, rows_.size());
        if (is_new) {
            if (rows_.size() == most_own) {
                numbers_.erase(entry);
                throw std::length_error("schedule files have defined more than 60000 different collectives");
            }
            rows_.emplace_back(std::move(contract));
        }
        return Collective{static_cast<std::uint16_t>(std::size(contracts) + entry->second)};
    }
    const Contract& at(Collective collective) {
        const std::size_t index = static_cast<std::size_t>(collective) - std::size(contracts);
        const std::lock_guard lock(mutex_);
        if (index >= rows_.size()) throw std::logic_error("a collective that the table does not have");
        return rows_[index].contract;
    }

  private:
    struct Row {
        explicit Row(OwnContract given) : own(std::move(given)) {
            const Effect effect = own.combines ? Effect::combines : Effect::copies;
            contract = {own.name, {own.input, own.input}, {own.output, own.output}, effect, &own};
        }
        Row(const Row&) = delete;
        OwnContract own;
        Contract contract;
    };

    std::mutex mutex_;
    std::deque<Row> rows_;  // a deque, so rows stay at their addresses
    std::map<std::string, std::size_t> numbers_;
};

OwnCollectives& own_collectives() {
    static OwnCollectives all;
    return all;
}

}  // namespace

Collective define(OwnContract contract) {
    return own_collectives().add(std::move(contract));
}

const Contract& own_contract(Collective collective) {
    return own_collectives().at(collective);
}

std::uint64_t identity_of(Collective collective) {
    if (!is_own(collective)) return static_cast<std::uint64_t>(collective);
    const std::string& text = own_contract(collective).own->text;
    return XXH3_64bits(text.data(), text.size());
}

}  // namespace hocket::dsl
