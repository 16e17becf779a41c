#include "runtime/transport/bootstrap/join.hpp"

#include <fmt/format.h>

#include "runtime/base/error.hpp"
#include "runtime/transport/bootstrap/member.hpp"

namespace hocket::transport {
namespace {

class WorldOfOne : public Bootstrap {
  public:
    int rank() const override { return 0; }
    int world_size() const override { return 1; }
    std::vector<std::string> all_gather(std::string_view mine, std::chrono::milliseconds,
                                        std::optional<std::uint64_t>) override {
        return {std::string(mine)};
    }
    void come() override {}
    bool all_have_come(Clock::time_point) override { return true; }
    std::optional<std::vector<int>> absent(std::chrono::milliseconds) override { return std::vector<int>(); }
    std::optional<Loss> loss() const override { return std::nullopt; }
    void report(std::string_view) override {}
    std::optional<Report> reported() const override { return std::nullopt; }
    bool has_bad_news() const override { return false; }
    std::optional<Clock::time_point> bad_news_since() const override { return std::nullopt; }
    std::optional<Report> reported_by(int) const override { return std::nullopt; }
    void wait_in(std::uint64_t) override {}
    void on_question(Asked) override {}
    void tell(const Account&) override {}
    std::optional<Difference> difference() const override { return std::nullopt; }
    std::map<int, Idleness> idle_in(std::uint64_t) const override { return {}; }
    bool has_heard_host_since(Clock::time_point) const override { return true; }
    bool has_left(int) const override { return left_; }
    int event_fd() const override { return -1; }
    void leave() override { left_ = true; }

  private:
    bool left_ = false;
};

void check(const BootstrapOptions& options) {
    if (options.is_newcomer) return;
    if (options.world_size < 1)
        throw Error(Status::bootstrap,
                    fmt::format("WORLD_SIZE is {}; a job has at least one rank", options.world_size));
    if (options.rank < 0 || options.rank >= options.world_size)
        throw Error(Status::bootstrap, fmt::format("RANK is {}; with WORLD_SIZE {} it must be one of 0 to {}",
                                                   options.rank, options.world_size, options.world_size - 1));
    if (options.world_size == 1) return;
    if (options.secret.empty())
        throw Error(Status::bootstrap,
                    "a job of several ranks needs a secret: set HOCKET_SECRET to the same text, "
                    "hard to guess, on all ranks");
    const bool listens = options.rank == 0 && (options.lobby || options.listen_fd >= 0);
    if (!listens && (options.master_port < 1 || options.master_port > 65535))
        throw Error(Status::bootstrap,
                    fmt::format("MASTER_PORT is {}; set it to a free port of rank 0's host, the "
                                "same on all ranks",
                                options.master_port));
}

}  // namespace

std::unique_ptr<Bootstrap> Bootstrap::join(const BootstrapOptions& options) {
    check(options);
    if (options.world_size == 1) return std::make_unique<WorldOfOne>();
    BootstrapOptions own = options;  // a newcomer is told its rank
    std::unique_ptr<Member> member;
    const auto prepare = [&] { member = std::make_unique<Member>(own); };
    std::vector<Link> links;
    if (options.rank == 0 && !options.is_newcomer) {
        links = admit_guests(options, prepare);
    } else {
        links.push_back(join_host(own, prepare));
    }
    member->begin(std::move(links));
    return member;
}

}  // namespace hocket::transport
