// The thread of a server of the parameter service.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/random.hpp"
#include "runtime/params/links/dialling.hpp"
#include "runtime/params/server/checkpoints.hpp"
#include "runtime/params/server/front.hpp"
#include "runtime/params/server/options.hpp"
#include "runtime/params/service/note.hpp"
#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/mailbox.hpp"

namespace hocket::params {

using Json = nlohmann::json;
using Time = transport::Clock;
using transport::ProtocolError;

class ServerService final : private Link::Owner {
  public:
    explicit ServerService(ServerOptions options);
    ~ServerService();

    transport::Endpoint endpoint() const { return endpoint_; }
    bool wait(Time::time_point until);
    void finish();
    void checkpoint() {
        mailbox_.post([this] { write_checkpoint(); });
    }
    std::string stats();

  private:
    void leave();
    void run();
    void serve();
    void remove_closed_links();
    void tick();
    void look_at_first(Time::time_point now);
    void done();
    Json state() const;
    std::string waits_for() const;
    std::string own_name() const;  // for logs
    void end(std::exception_ptr failure);
    void say_that_it_leaves();
    void admit(transport::Admitted admitted);
    void dial_first();
    void dial_first_later();
    void dialled_first(Dialling::Result result);
    void begin(const Front::Beginning& beginning);
    void restore();
    void have_shard(ShardName name, std::optional<Clock> clock);
    void write_checkpoint();
    void write_last_checkpoint();

    void received(Link& link, const Json& note) override;
    void received(Link& link, Message message) override;
    void broke(Link& link, const std::string& why) override;
    ChunkShape shape_of(const Link& link, Chunk chunk) const override;
    Bounds bounds(const Link& link) const override;
    PriorityGate* gate() const override { return gate_.get(); }
    void take(Link& link, const Json& note);
    void take_checkpoint(Worker worker, std::uint64_t number);
    void take_from_first(const Json& note);
    void drop(Link& link, const std::string& why);
    void forget(Link& link, const std::string& why);

    ServerOptions options_;
    transport::Socket listener_;
    transport::Endpoint endpoint_;
    transport::SocketLoop loop_{transport::SocketLoop::Way::epoll};
    transport::Mailbox mailbox_;
    const std::shared_ptr<Memory> memory_ = Memory::make();
    std::unique_ptr<transport::Admission> admission_;
    std::list<Link> links_;                      // to workers and, at the first server, to other servers
    std::vector<std::pair<Link*, Json>> early_;  // notes for a shard that has not begun
    std::unique_ptr<Front> front_;               // set at the first server
    std::optional<Link> first_;                  // at other servers: the connection to the first server
    std::unique_ptr<Dialling> dialling_;
    Time::time_point first_deadline_;
    std::string first_trouble_;           // why the first server cannot be reached now
    bool first_has_left_ = false;         // the first server has announced that it leaves
    std::optional<std::uint32_t> index_;  // empty until the first server has assigned it
    bool is_unused_ = false;
    // Set at the first server; with the incarnation.
    std::optional<std::pair<ShardName, std::uint32_t>> restored_;
    std::unique_ptr<PriorityGate> gate_;  // set once there is a job
    std::unique_ptr<Shard> shard_;
    std::string run_;                            // the shard's run of the job
    const std::string process_ = random_hex(8);  // identifies this process to the first server
    std::unique_ptr<Checkpoints> checkpoints_;
    std::string trouble_;                               // the trouble last reported to workers
    std::string trouble_of_moment_, trouble_of_whole_;  // of the last checkpoint of each kind
    std::string last_checkpoint_trouble_;
    Time::time_point next_tick_{};

    std::atomic<bool> is_leaving_ = false;
    std::mutex mutex_;  // guards the members below
    std::condition_variable changed_;
    bool is_done_ = false, has_ended_ = false;
    std::exception_ptr failure_;
    std::thread thread_;
};

}  // namespace hocket::params
