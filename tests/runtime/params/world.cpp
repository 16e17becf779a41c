#include "tests/runtime/params/world.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "runtime/params/protocol/wire.hpp"
#include "tests/runtime/params/digest.hpp"

namespace hocket::params {
namespace {

// The updates in a value, as (worker, round), each as often as it counts. Real weights have only their sum.
using Counted = std::vector<std::pair<Worker, Clock>>;

Value counted_value(Counted counted) {
    std::sort(counted.begin(), counted.end());
    return std::make_shared<const Counted>(std::move(counted));
}

const Counted& counted_in(const Value& value) {
    return *static_cast<const Counted*>(value.get());
}

class Counting final : public Arithmetic {
  public:
    Value sum(Chunk, const std::vector<Value>& parts) override {
        Counted all;
        for (const Value& part : parts)
            all.insert(all.end(), counted_in(part).begin(), counted_in(part).end());
        return counted_value(std::move(all));
    }
    Value updated(Chunk chunk, Clock, const Value& weights, const std::vector<Value>& parts,
                  const std::vector<Worker>&) override {
        std::vector<Value> all = parts;
        all.push_back(weights);
        return sum(chunk, all);
    }
};

Counting counting;

std::string name_of(Worker worker) {
    return worker == the_server ? "S" : std::to_string(worker);
}

std::string text_of(const Value& value) {
    return value ? fmt::format("{}", counted_in(value)) : "-";
}

// As it is when it has gone over a connection.
std::shared_ptr<const Message> by_wire(const Message& message, Chunk chunks) {
    Message read = decode(encode(message), {.workers = 100, .chunks = chunks});
    if (auto* const sum = std::get_if<Sum>(&read)) sum->value = std::get<Sum>(message).value;
    if (auto* const weights = std::get_if<Weights>(&read)) weights->value = std::get<Weights>(message).value;
    return std::make_shared<const Message>(std::move(read));
}

}  // namespace

// The digest covers the contents of values, not their addresses. These functions are found by their
// argument's namespace.
void write_to(Digest& digest, const Value& value) {
    digest(value != nullptr);
    if (value) digest(counted_in(value));
}
void write_to(Digest& digest, const Epoch& epoch) {
    digest(epoch.incarnation, epoch.number);
}
void write_to(Digest& digest, const Member& member) {
    digest(member.worker, member.parent, member.first);
}
void write_to(Digest& digest, const Expected& member) {
    digest(member.worker, member.first);
}
void write_to(Digest& digest, const Departed& gone) {
    digest(gone.worker, gone.first, gone.end);
}
void write_to(Digest& digest, const Lost& lost) {
    digest(lost.worker, lost.first, lost.end);
}
void write_to(Digest& digest, const Announcement& told) {
    digest(told.epoch, told.members, told.clocks, told.departed, told.expected);
}
void write_to(Digest& digest, const Sum& sum) {
    digest(sum.epoch, sum.chunk, sum.clock, sum.workers, sum.value);
}
void write_to(Digest& digest, const Want& want) {
    digest(want.epoch, want.chunk, want.clock);
}
void write_to(Digest& digest, const Weights& told) {
    digest(told.epoch, told.chunk, told.clock, told.value);
}
void write_to(Digest& digest, const ParentLost& lost) {
    digest(lost.epoch);
}
void write_to(Digest& digest, const Covered& told) {
    digest(told.epoch, told.clock);
}
void write_to(Digest& digest, const Message& message) {
    digest(message.index());
    std::visit([&](const auto& content) { digest(content); }, message);
}

// The whole state of the two state machines.
struct Inspection {
    // The clock that a worker should have been told of.
    static Clock covered(Root root, Worker worker) {
        root.covered_.clear();
        root.letters_.clear();
        root.tell_what_is_covered();
        for (const Letter& letter : root.letters_)
            if (letter.to == worker) return std::get<Covered>(letter.message).clock;
        return 0;
    }
    static void write(Digest& digest, const Root& root) {
        digest(root.epoch_, root.clocks_, root.applied_, root.covered_);
        for (const auto& [clock, cut] : root.cuts_) digest(clock, cut.weights);
        digest(root.cuts_.size(), root.kept_from_, root.saved_departed_, root.seen_, root.has_resumed_,
               root.departed_before_);
        digest(root.departed_, root.missed_, root.members_.size());
        for (const auto& [worker, standing] : root.members_) {
            digest(worker, standing.first, standing.is_here, standing.leaves_after, standing.is_suspected);
            digest(standing.was_before, standing.is_given_up, standing.pushed_before);
            digest(root.tree_.contains(worker));
            if (root.tree_.contains(worker)) digest(root.tree_.parent(worker));
        }
        digest(root.apart_, root.weights_);
        for (const auto& chunk : root.waiting_) digest(chunk.sums, chunk.wants);
    }

    static void write(Digest& digest, const Node& node) {
        digest(node.epoch_, node.parent_, node.first_, node.below_, node.applied_, node.covered_, node.seen_);
        digest(node.has_recollected_);
        digest(node.departed_, node.expected_, node.updates_, node.partial_);
        for (const auto& cached : node.cache_) digest(cached.clock, cached.value);
        for (const auto& wants : node.wants_) digest(wants.own, wants.asked, wants.children, wants.pulls);
        digest(node.early_);
    }
};

std::string Event::text() const {
    static const std::vector<std::string> names = {
        "deliver",        "overtake",         "overtake_sums", "crash",      "crash_and_lose",
        "come",           "reserve",          "join",          "break_link", "cut",
        "mend",           "snapshot",         "replace",       "give_up",    "restart",
        "give_up_living", "announce_leaving", "blackout",      "leave",      "close"};
    return fmt::format("{} (server {}) {} -> {}", names[static_cast<std::size_t>(kind)], server,
                       name_of(from), name_of(to));
}

namespace {

// Each server has a tree of its own.
Shape shape_of(const Setup& setup, int server) {
    Shape shape = setup.shape;
    shape.server_groups.assign(static_cast<std::size_t>(setup.servers), -1);
    shape.server = static_cast<std::size_t>(server);
    return shape;
}

}  // namespace

World::World(const Setup& setup) : setup_(setup), left_(setup.faults) {
    Snapshot first{
        1, std::vector<Value>(setup.chunks, counted_value({})), std::vector<Clock>(setup.chunks, 0), {}};
    lost_.resize(static_cast<std::size_t>(setup.servers));
    cuts_.resize(static_cast<std::size_t>(setup.servers), {{0, first}});
    for (int server = 0; server < setup.servers; ++server) {
        roots_.emplace_back(std::in_place, first, shape_of(setup, server), counting, setup.staleness);
        if (has_snapshots()) root(server).keep_what_lacks(first);
        root(server).cut_every(setup.cut_every);
    }
    for (int worker = 0; worker < setup.workers; ++worker) {
        const auto number = static_cast<Worker>(worker);
        add_worker(number);
        for (int server = 0; server < setup.servers; ++server) root(server).join(number, worker % 2, 0);
        workers_.at(number).has_begun = true;
        workers_.at(number).joined = static_cast<std::size_t>(setup.servers);
    }
    for (const auto& root : roots_) snapshots_.push_back(root->snapshot());
    // Other tests cover how the workers joined: announcements from before all had joined are left out.
    for (auto& root : roots_) {
        std::vector<Letter> letters = root->letters();
        letters.erase(letters.begin(), letters.end() - setup.workers);
        const auto server = static_cast<int>(&root - roots_.data());
        post(server, the_server, std::move(letters));
    }
    settle();
}

void World::add_worker(Worker number) {
    Place& worker = workers_[number];
    for (int server = 0; server < setup_.servers; ++server)
        worker.nodes.emplace_back(number, setup_.chunks, counting, setup_.staleness);
}

// ---- Possible events
// ---------------------------------------------------------------------------------------

namespace {

// The first that has only sums before it, if it may overtake those.
auto overtaking_want(const std::deque<std::shared_ptr<const Message>>& messages) {
    const auto is_sum = [](const auto& message) { return message && std::holds_alternative<Sum>(*message); };
    const auto first = std::find_if_not(messages.begin(), messages.end(), is_sum);
    if (first == messages.end() || !*first) return messages.end();
    const auto* const want = std::get_if<Want>(&**first);
    return want && want->clock > 0 ? first : messages.end();
}

// The first that has only sums of other chunks before it.
auto overtaking_sum(const std::deque<std::shared_ptr<const Message>>& messages) {
    std::set<Chunk> passed;
    for (auto message = messages.begin(); message != messages.end() && *message; ++message) {
        const auto* const sum = std::get_if<Sum>(&**message);
        if (!sum) break;
        if (passed.insert(sum->chunk).second && passed.size() > 1) return message;
    }
    return messages.end();
}

// Comes next.
template <typename Messages, typename Place>
void move_to_front(Messages& messages, Place place) {
    const auto begin = messages.begin() + (place - messages.cbegin());
    std::rotate(messages.begin(), begin, begin + 1);
}

}  // namespace

std::vector<Event> World::events() const {
    using Kind = Event::Kind;
    std::vector<Event> events;
    for (const auto& [link, messages] : links_) {
        const auto add = [&, of = link](Kind kind) {
            events.push_back({kind, std::get<0>(of), std::get<1>(of), std::get<2>(of)});
        };
        if (!messages.empty()) add(Kind::deliver);
        const auto want = overtaking_want(messages);
        if (setup_.wants_overtake && want != messages.begin() && want != messages.end()) add(Kind::overtake);
        if (setup_.sums_overtake && overtaking_sum(messages) != messages.end()) add(Kind::overtake_sums);
    }
    for (const auto& [number, worker] : workers_) {
        if (worker.is_dead) {
            for (int server = 0; server < setup_.servers; ++server)
                if (root(server).has(number) && !links_.contains({server, number, the_server}))
                    events.push_back({Kind::give_up, server, number});
            continue;
        }
        const bool leaves = left_.leaves > 0 || worker.is_closing;
        if (leaves && worker.is_done && !worker.has_announced)
            events.push_back({Kind::announce_leaving, 0, number});
        if (leaves && may_leave(worker)) events.push_back({Kind::leave, 0, number});
        for (int server = 0; may_close(worker) && server < setup_.servers; ++server)
            events.push_back({Kind::close, server, number});
        if (left_.crashes > 0) {
            events.push_back({Kind::crash, 0, number});
            events.push_back({Kind::crash_and_lose, 0, number});
        }
        if (!worker.has_begun) {
            const auto servers = static_cast<std::size_t>(setup_.servers);
            const auto next = static_cast<int>(worker.reserved.size());
            if (worker.reserved.size() == servers)
                events.push_back({Kind::join, static_cast<int>(worker.joined), number});
            else if (!root(next).expects_anybody() || root(next).has_resumed())  // else it waits
                events.push_back({Kind::reserve, next, number});
        }
        for (int server = 0; server < setup_.servers; ++server) {
            if (cut_.contains({server, number})) {
                events.push_back({Kind::mend, server, number});
                if (left_.give_ups > 0 && root(server).has(number))
                    events.push_back({Kind::give_up_living, server, number});
                continue;
            }
            if (!root(server).tree().contains(number)) continue;
            if (left_.cuts > 0 && worker.has_begun) events.push_back({Kind::cut, server, number});
            const Worker parent = worker.nodes[static_cast<std::size_t>(server)].parent();
            if (left_.broken_links > 0 && parent != the_server && !workers_.at(parent).is_dead)
                events.push_back({Kind::break_link, server, number, parent});
        }
    }
    if (left_.joins > 0) events.push_back({Kind::come});
    if (left_.blackouts > 0) events.push_back({Kind::blackout});
    for (int server = 0; left_.restarts > 0 && server < setup_.servers; ++server)
        events.push_back({Kind::restart, server});
    for (int server = 0; left_.server_crashes > 0 && server < setup_.servers; ++server) {
        if (root(server).lowest_clock() >
            *std::min_element(snapshots_[static_cast<std::size_t>(server)].clocks.begin(),
                              snapshots_[static_cast<std::size_t>(server)].clocks.end()))
            events.push_back({Kind::snapshot, server});
        events.push_back({Kind::replace, server});
    }
    return events;
}

void World::happen(const Event& event) {
    using Kind = Event::Kind;
    switch (event.kind) {
        case Kind::overtake:
        case Kind::overtake_sums: {
            auto& messages = links_.at({event.server, event.from, event.to});
            move_to_front(messages, event.kind == Kind::overtake ? overtaking_want(messages)
                                                                 : overtaking_sum(messages));
            deliver(event);
            break;
        }
        case Kind::deliver:
            deliver(event);
            break;
        case Kind::crash:
        case Kind::crash_and_lose:
            crash(event);
            break;
        case Kind::come:
            --left_.joins;
            add_worker(workers_.rbegin()->first + 1);
            break;
        case Kind::reserve:
            reserve(event);
            break;
        case Kind::join:
            join(event);
            break;
        case Kind::break_link:
            --left_.broken_links;
            links_.erase({event.server, event.from, event.to});
            links_.erase({event.server, event.to, event.from});
            node(event.server, event.from).parent_lost();
            node(event.server, event.to).child_lost(event.from);
            break;
        case Kind::cut:
            cut(event);
            break;
        case Kind::mend:
            mend(event);
            break;
        case Kind::snapshot:
            snapshots_[static_cast<std::size_t>(event.server)] = root(event.server).snapshot();
            root(event.server).keep_what_lacks(snapshots_[static_cast<std::size_t>(event.server)]);
            break;
        case Kind::replace:
            --left_.server_crashes;
            replace(event.server);
            break;
        case Kind::give_up_living:
            --left_.give_ups;
            workers_.at(event.from).given_up[event.server] = {root(event.server).epoch().incarnation,
                                                              UINT32_MAX};
            [[fallthrough]];
        case Kind::give_up:
            root(event.server).remove(event.from);
            break;
        case Kind::restart:
            --left_.restarts;
            snapshots_[static_cast<std::size_t>(event.server)] = root(event.server).snapshot();
            replace(event.server);
            break;
        case Kind::blackout:
            --left_.blackouts;
            black_out();
            break;
        case Kind::announce_leaving:
            workers_.at(event.from).has_announced = true;
            for (int server = 0; server < setup_.servers; ++server)
                root(server).leave_after(event.from, workers_.at(event.from).clock);
            break;
        case Kind::leave:
            if (!workers_.at(event.from).is_closing) --left_.leaves;
            leave(event.from);
            break;
        case Kind::close:
            close(event);
            break;
    }
    settle();
}

void World::deliver(const Event& event) {
    auto& messages = links_.at({event.server, event.from, event.to});
    const std::shared_ptr<const Message> message = std::move(messages.front());
    messages.pop_front();
    if (event.to == the_server) {
        message ? root(event.server).receive(event.from, *message) : root(event.server).remove(event.from);
        return;
    }
    Node& receiver = node(event.server, event.to);
    if (message)
        receiver.receive(event.from, *message);
    else {
        receiver.child_lost(event.from);
        if (receiver.parent() == event.from) receiver.parent_lost();
    }
}

// Messages that the others have not received yet still arrive, or are lost with the process.
void World::crash(const Event& event) {
    --left_.crashes;
    for (auto& [link, messages] : links_)
        if (std::get<1>(link) == event.from && event.kind == Event::Kind::crash_and_lose) messages.clear();
    leave(event.from);
}

void World::leave(Worker number) {
    workers_.at(number).is_dead = true;
    workers_.at(number).nodes.clear();
    for (auto& [link, messages] : links_) {
        if (std::get<2>(link) == number) messages.clear();
        if (std::get<1>(link) == number && std::get<2>(link) != the_server) messages.emplace_back(nullptr);
    }
    for (int server = 0; server < setup_.servers; ++server) {
        if (!cut_.erase({server, number})) links_[{server, number, the_server}].emplace_back(nullptr);
    }
}

bool World::may_close(const Place& worker) const {
    return left_.closes > 0 && worker.has_begun && !worker.is_done &&
           std::all_of(worker.nodes.begin(), worker.nodes.end(),
                       [](const Node& node) { return node.epoch().number > 0; });
}

// It takes no notice of weights that still come.
void World::close(const Event& event) {
    --left_.closes;
    Place& worker = workers_.at(event.from);
    worker.is_done = worker.is_closing = true;
    worker.awaited.clear();
    const Value update = counted_value({{event.from, worker.clock}});
    if (worker.clock < setup_.rounds) node(event.server, event.from).push(0, worker.clock, update);
}

void World::cut(const Event& event) {
    --left_.cuts;
    cut_.emplace(event.server, event.from);
    links_.erase({event.server, event.from, the_server});
    links_.erase({event.server, the_server, event.from});
    root(event.server).suspect(event.from);
}

// If servers write checkpoints, a worker may leave once a checkpoint has all its updates.
bool World::may_leave(const Place& worker) const {
    if (!worker.has_announced) return false;
    // It does not wait for ever, and there is no further snapshot.
    if (worker.is_closing && left_.server_crashes == 0) return true;
    return !has_snapshots() || std::all_of(worker.nodes.begin(), worker.nodes.end(), [&](const Node& node) {
        return std::max(node.covered(), worker.first) >= worker.clock;
    });
}

void World::black_out() {
    for (auto& [number, worker] : workers_) {
        worker.is_dead = true;
        worker.nodes.clear();
    }
    links_.clear();
    cut_.clear();
    Clock common = 0;
    for (const auto& [clock, cut] : cuts_[0])
        if (std::all_of(cuts_.begin(), cuts_.end(),
                        [clock = clock](const auto& cuts) { return cuts.contains(clock); }))
            common = clock;
    for (int server = 0; server < setup_.servers; ++server) {
        auto& cuts = cuts_[static_cast<std::size_t>(server)];
        Snapshot snapshot = cuts.at(common);
        cuts.erase(cuts.upper_bound(common), cuts.end());
        snapshot.incarnation = root(server).epoch().incarnation + 1;
        snapshot.firsts.clear();
        snapshots_[static_cast<std::size_t>(server)] = snapshot;
        roots_[static_cast<std::size_t>(server)].emplace(snapshot, shape_of(setup_, server), counting,
                                                         setup_.staleness);
        root(server).cut_every(setup_.cut_every);
    }
    went_back_ = common;
    add_worker(workers_.rbegin()->first + 1);
}

// Checks that, of the updates from before all processes ended, the weights have exactly those of the rounds
// before the clock that the job went back to, in all chunks of all servers.
void World::check_whole(const Node::Pulled& pulled, const std::string& where) {
    Counted expected, before;
    for (Worker number = 0; number < static_cast<Worker>(setup_.workers); ++number)
        for (Clock round = 0; round < *went_back_; ++round) expected.emplace_back(number, round);
    for (const auto& update : counted_in(pulled.weights))
        if (update.first < static_cast<Worker>(setup_.workers)) before.push_back(update);
    if (before != expected) complain(where + "rounds are in a part of the weights");
}

// With a new connection. A worker that is refused ends.
void World::mend(const Event& event) {
    cut_.erase({event.server, event.from});
    Place& worker = workers_.at(event.from);
    if (!come_back(event)) return leave(event.from);
    if (const auto without = worker.given_up.find(event.server); without != worker.given_up.end())
        without->second.second = std::min(without->second.second, root(event.server).epoch().incarnation);
}

bool World::come_back(const Event& event) {
    Root& server = root(event.server);
    Node& place = node(event.server, event.from);
    // It does not know yet that it takes part: it sends its first round once more.
    if (place.epoch().number == 0) return server.join(event.from, 0, workers_.at(event.from).first);
    const Recollection recollection = place.recollect();
    if (place.epoch().incarnation != server.epoch().incarnation)
        return server.resume(event.from, 0, recollection);
    server.trust(event.from);
    return server.has(event.from);
}

void World::reserve(const Event& event) {
    Place& worker = workers_.at(event.from);
    worker.reserved.push_back(root(event.server).reserve(event.from));
    if (!setup_.staleness || worker.reserved.size() < static_cast<std::size_t>(setup_.servers)) return;
    const Clock first = *std::max_element(worker.reserved.begin(), worker.reserved.end());
    // A server that was replaced since knows nothing of it: it cannot join, and comes again.
    for (const auto& known : roots_)
        if (!known->has(event.from)) return;
    // Those who went on without a worker may have got further than it. If it is the first that comes back to
    // a successor, that one does not know how far.
    for (const auto& [number, other] : workers_)
        if (!other.given_up.empty()) return;
    for (const auto& [number, other] : workers_)
        if (!other.is_dead && other.has_begun && other.clock > std::max(first, other.first))
            complain(fmt::format("worker {} takes part from round {} on, and worker {} has ended round {}",
                                 event.from, first, number, other.clock - 1));
}

void World::join(const Event& event) {
    Place& worker = workers_.at(event.from);
    worker.first = worker.clock = *std::max_element(worker.reserved.begin(), worker.reserved.end());
    if (!root(event.server).join(event.from, 0, worker.first)) return leave(event.from);
    if (++worker.joined == static_cast<std::size_t>(setup_.servers)) worker.has_begun = true;
}

void World::replace(int server) {
    for (auto& [link, messages] : links_)
        if (std::get<0>(link) == server &&
            (std::get<1>(link) == the_server || std::get<2>(link) == the_server))
            messages.clear();
    Snapshot snapshot = snapshots_[static_cast<std::size_t>(server)];
    snapshot.incarnation = root(server).epoch().incarnation + 1;
    roots_[static_cast<std::size_t>(server)].emplace(snapshot, shape_of(setup_, server), counting,
                                                     setup_.staleness);
    root(server).keep_what_lacks(snapshot);
    root(server).cut_every(setup_.cut_every);
    for (const auto& [number, worker] : workers_)
        if (!worker.is_dead && worker.joined > static_cast<std::size_t>(server)) cut_.emplace(server, number);
}

// ---- Consequences
// --------------------------------------------------------------------------------------------

void World::post(int server, Worker from, std::vector<Letter> letters) {
    for (Letter& letter : letters) {
        const Worker other = letter.to == the_server ? from : letter.to;
        const bool is_cut = (from == the_server || letter.to == the_server) && cut_.contains({server, other});
        if (is_cut || (letter.to != the_server && workers_.at(letter.to).is_dead)) continue;
        links_[{server, from, letter.to}].emplace_back(by_wire(letter.message, setup_.chunks));
    }
}

void World::settle() {
    for (bool has_moved = true; has_moved;) {
        has_moved = false;
        for (int server = 0; server < setup_.servers; ++server) {
            for (const Lost& lost : root(server).lost())
                lost_[static_cast<std::size_t>(server)].push_back(lost);
            for (const Snapshot& cut : root(server).take_cuts()) {
                root(server).keep_what_lacks(cut);
                snapshots_[static_cast<std::size_t>(server)] = cut;
                cuts_[static_cast<std::size_t>(server)].insert_or_assign(cut.clocks[0], cut);
            }
            post(server, the_server, root(server).letters());
            for (auto& [number, worker] : workers_) {
                if (worker.is_dead) continue;
                Node& place = node(server, number);
                for (const Node::Pulled& pulled : place.pulled()) {
                    if (worker.is_closing) continue;
                    check(number, worker.clock, server, pulled);
                    if (has_snapshots())
                        worker.seen[{server, pulled.chunk}].insert(counted_in(pulled.weights).begin(),
                                                                   counted_in(pulled.weights).end());
                    worker.awaited.erase({server, pulled.chunk});
                }
                post(server, number, place.letters());
            }
        }
        for (auto& [number, worker] : workers_)
            if (!worker.is_dead) has_moved |= go_on(number, worker);
    }
    std::erase_if(links_, [](const auto& link) { return link.second.empty(); });
}

// A worker's program: pull, push, clock; and a last pull when all have pushed all.
bool World::go_on(Worker number, Place& worker) {
    if (!worker.has_begun || worker.is_done || !worker.awaited.empty()) return false;
    const bool has_pulled = std::exchange(worker.has_pulled, !worker.has_pulled);
    const bool is_last = worker.clock >= setup_.rounds;
    if (has_pulled && is_last) {
        worker.is_done = true;
        return true;
    }
    for (int server = 0; server < setup_.servers; ++server)
        for (Chunk chunk = 0; chunk < setup_.chunks; ++chunk)
            if (has_pulled) {
                node(server, number).push(chunk, worker.clock, counted_value({{number, worker.clock}}));
            } else {
                worker.awaited.emplace(server, chunk);
                const Clock least = is_last
                                        ? setup_.rounds
                                        : worker.clock - std::min(worker.clock, setup_.staleness.value_or(0));
                node(server, number).pull(chunk, least);
            }
    if (has_pulled) ++worker.clock;
    return true;
}

void World::check(Worker by, Clock clock, int server, const Node::Pulled& pulled) {
    const auto where = fmt::format("worker {} at clock {} pulled chunk {} of server {} at clock {}: {}: ", by,
                                   clock, pulled.chunk, server, pulled.clock, text_of(pulled.weights));
    if (!setup_.staleness) return check_unbounded(by, clock, pulled, where);
    // The weights may be those of a server that was replaced meanwhile.
    const std::uint32_t incarnation = node(server, by).epoch().incarnation;
    check_seen(server, incarnation, pulled, where);
    if (went_back_) check_whole(pulled, where);
    const Clock least = clock >= setup_.rounds ? setup_.rounds : clock - std::min(clock, *setup_.staleness);
    if (pulled.clock < least) complain(where + "too old");
    std::map<Worker, std::set<Clock>> rounds;
    for (const auto& [worker, round] : counted_in(pulled.weights)) {
        if (!rounds[worker].insert(round).second) complain(where + "an update counts twice");
        if (round >= pulled.clock) complain(where + "an update of a later round");
    }
    for (const auto& [number, worker] : workers_)
        for (Clock round = worker.first;
             counts(worker, server, incarnation) && worker.has_begun && has_heard(worker, server) &&
             !will_be_refused(server, number) && round < pulled.clock &&
             !(worker.is_closing && round >= worker.clock);
             ++round)
            if (!rounds[number].contains(round)) complain(where + "an update is lost");
}

// Whether it lives, and that server did not go on without it.
bool World::counts(const Place& worker, int server, std::uint32_t incarnation) const {
    const auto without = worker.given_up.find(server);
    return !worker.is_dead && (without == worker.given_up.end() || incarnation < without->second.first ||
                               incarnation >= without->second.second);
}

// That it takes part. If that server is replaced before, by one that does not know it, it must come again.
bool World::has_heard(const Place& worker, int server) {
    return worker.nodes[static_cast<std::size_t>(server)].epoch().number > 0;
}

// Each worker's updates are there from its first round on without a gap, and all of one's own.
void World::check_unbounded(Worker by, Clock clock, const Node::Pulled& pulled, const std::string& where) {
    std::map<Worker, Clock> next;
    for (const auto& [worker, round] : counted_in(pulled.weights))
        if (round != next[worker]++) complain(where + "an update counts twice, or one is left out");
    if (next[by] != clock) complain(where + "an own update is not there");
    if (counted_in(pulled.weights).size() != pulled.clock) complain(where + "its clock is not its updates");
}

// Checks that every update that a worker has seen in a server's weights is in all later weights.
void World::check_seen(int server, std::uint32_t incarnation, const Node::Pulled& pulled,
                       const std::string& where) {
    for (const auto& [number, worker] : workers_) {
        const auto seen = worker.seen.find({server, pulled.chunk});
        if (!counts(worker, server, incarnation) || seen == worker.seen.end() ||
            will_be_refused(server, number))
            continue;
        for (const auto& update : seen->second)
            if (update.second < pulled.clock && vanished(server, update, pulled.weights))
                complain(where + fmt::format("the update {}, which worker {} has seen, is not there", update,
                                             number));
    }
}

// Returns whether the update is missing although the server has not declared it lost.
bool World::vanished(int server, const std::pair<Worker, Clock>& update, const Value& weights) const {
    const Counted& counted = counted_in(weights);
    const auto& lost = lost_[static_cast<std::size_t>(server)];
    return !std::binary_search(counted.begin(), counted.end(), update) &&
           std::none_of(lost.begin(), lost.end(), [&](const Lost& said) {
               return said.worker == update.first && said.first <= update.second &&
                      update.second < said.end.value_or(most_clock);
           });
}

// A worker has no connection, and the server goes on without it; when it connects, it is refused, with an
// error. Nobody else who lives has heard that it takes part here, so nothing can tell a server that has
// replaced another one of it. Or the last server took it back, but a member comes to this one that has not
// heard of that, only that the server before had given it up.
bool World::will_be_refused(int server, Worker number) const {
    return cut_.contains({server, number}) && !root(server).has(number) &&
           (workers_.at(number).given_up.contains(server) || !is_known(server, number));
}

bool World::is_known(int server, Worker number) const {
    return std::any_of(workers_.begin(), workers_.end(), [&](const auto& other) {
        if (other.first == number || other.second.is_dead) return false;
        Node node = other.second.nodes[static_cast<std::size_t>(server)];
        const std::vector<Expected> members = node.recollect().members;
        return std::any_of(members.begin(), members.end(),
                           [&](const Expected& member) { return member.worker == number; });
    });
}

void World::complain(const std::string& text) {
    if (wrong_.empty()) wrong_ = text;
}

// Returns the updates of a dead worker that were declared lost, but are in all chunks of the weights.
std::string World::declared_in_vain(int server, const Lost& said) const {
    const Place& worker = workers_.at(said.worker);
    if (!worker.is_dead || !worker.given_up.empty()) return "";  // the worker may have pushed them again
    std::map<Clock, Chunk> chunks;                               // by round: those that have its update
    for (Chunk chunk = 0; chunk < setup_.chunks; ++chunk)
        for (const auto& [worker, round] : counted_in(root(server).weights(chunk)))
            if (worker == said.worker) ++chunks[round];
    std::string text;
    for (const auto& [round, having] : chunks)
        if (said.first <= round && round < said.end.value_or(most_clock) && having == setup_.chunks)
            text += fmt::format("server {} has the update ({}, {}), which it has declared lost\n", server,
                                said.worker, round);
    return text;
}

std::string World::unfinished() const {
    std::string text;
    for (const auto& [number, worker] : workers_)
        for (const auto& [place, seen] : worker.seen)
            for (const auto& update : seen)
                if (!worker.is_dead && vanished(place.first, update, root(place.first).weights(place.second)))
                    text += fmt::format("server {} has not the update {} of chunk {}, which was pulled\n",
                                        place.first, update, place.second);
    for (std::size_t server = 0; server < lost_.size(); ++server)
        for (const Lost& said : lost_[server]) text += declared_in_vain(static_cast<int>(server), said);
    for (const auto& [number, worker] : workers_)
        if (!worker.is_dead && !worker.is_done)
            text += fmt::format("worker {} waits at clock {}\n", number, worker.clock);
    for (const auto& [number, worker] : workers_)
        for (int server = 0; !worker.is_dead && server < setup_.servers; ++server)
            if (worker.nodes[static_cast<std::size_t>(server)].covered() <
                Inspection::covered(root(server), number))
                text += fmt::format("worker {} has not heard what server {} covers\n", number, server);
    return text;
}

std::string World::digest() const {
    Digest digest;
    digest(left_.crashes, left_.joins, left_.broken_links, left_.cuts, left_.server_crashes, left_.restarts,
           left_.give_ups, left_.leaves, left_.blackouts, left_.closes);
    for (const auto& cuts : cuts_)
        for (const auto& [clock, cut] : cuts)
            if (left_.blackouts > 0) digest(clock);
    digest(went_back_, lost_);
    for (const auto& root : roots_) Inspection::write(digest, *root);
    for (const auto& snapshot : snapshots_)
        if (has_snapshots())
            digest(snapshot.clocks, snapshot.firsts, snapshot.applied, snapshot.departed, snapshot.weights);
    for (const auto& [number, worker] : workers_) {
        digest(number, worker.clock, worker.has_begun, worker.has_pulled, worker.is_done, worker.is_dead);
        digest(worker.awaited, worker.reserved, worker.joined, worker.nodes.size());
        if (!worker.is_dead) digest(worker.seen, worker.given_up, worker.has_announced, worker.is_closing);
        for (const Node& node : worker.nodes) Inspection::write(digest, node);
    }
    digest(links_.size());
    for (const auto& [link, messages] : links_) {
        digest(std::get<0>(link), std::get<1>(link), std::get<2>(link), messages.size());
        for (const auto& message : messages) {
            digest(message != nullptr);
            if (message) digest(*message);
        }
    }
    digest(cut_);
    return digest.take();
}

}  // namespace hocket::params
