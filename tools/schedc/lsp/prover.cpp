#include "tools/schedc/lsp/prover.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>

#include "dsl/planning/check_files.hpp"
#include "runtime/base/thread.hpp"

namespace hocket::tools::lsp {
namespace {

// Typing goes on: a text that follows within this time is proved instead.
constexpr auto pause_after_typing = std::chrono::milliseconds(200);

int new_event() {
    const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    return event;
}

// No runtime_error: those are reported as a schedule's faults.
struct Stopped : std::exception {};

}  // namespace

// Looks in the middle of a proof whether it is still needed.
class Prover::Stop : public dsl::Watcher {
  public:
    explicit Stop(const std::atomic<bool>& is_stale) : is_stale_(is_stale) {}
    void look(std::string_view, std::uint64_t, std::uint64_t) override {
        if (is_stale_) throw Stopped();
    }

  private:
    const std::atomic<bool>& is_stale_;
};

Prover::Prover(std::vector<std::string> search_path, double seconds)
    : search_path_(std::move(search_path)),
      seconds_(seconds),
      ready_(new_event()),
      thread_(start_thread("hocket-prover", [this] { run(); })) {}

Prover::~Prover() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = is_stale_ = true;
    }
    changed_.notify_all();
    thread_.join();
    close(ready_);
}

void Prover::prove(const std::string& uri, std::uint64_t version, dsl::SourceFile source) {
    forget(uri);
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back({uri, version, std::move(source)});
    }
    changed_.notify_all();
}

void Prover::forget(const std::string& uri) {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const Task& task) { return task.uri == uri; });
    if (current_ == uri) is_stale_ = true;
}

std::vector<Proved> Prover::take() {
    std::uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t got = read(ready_, &ignored, sizeof ignored);
    const std::lock_guard lock(mutex_);
    return std::move(done_);
}

std::optional<Prover::Task> Prover::next_task() {
    std::unique_lock lock(mutex_);
    current_.clear();
    while (true) {
        changed_.wait(lock, [&] { return is_ending_ || !waiting_.empty(); });
        if (is_ending_) return std::nullopt;
        const std::uint64_t newest = waiting_.back().version;
        const bool goes_on = changed_.wait_for(lock, pause_after_typing, [&] {
            return is_ending_ || waiting_.empty() || waiting_.back().version != newest;
        });
        if (goes_on) continue;
        Task task = std::move(waiting_.front());
        waiting_.erase(waiting_.begin());
        current_ = task.uri;
        is_stale_ = false;
        return task;
    }
}

Proved Prover::proved(const Task& task) {
    Proved result{task.uri, task.version, {}};
    Stop stop(is_stale_);
    dsl::CheckOptions options;
    options.files = {task.source.path};
    options.texts = {{task.source.path, task.source.text}};
    options.search_path = search_path_;
    options.timeout = seconds_;
    options.watcher = &stop;
    dsl::check_files(options, {[](const dsl::RightDefinition&) {},
                               [&](const dsl::Report& report) { result.wrong.push_back(report); }});
    return result;
}

void Prover::run() {
    while (const std::optional<Task> task = next_task()) {
        Proved result;
        try {
            result = proved(*task);
        } catch (const Stopped&) {
            continue;
        } catch (const std::exception& error) {
            result = {task->uri, task->version, {{{}, error.what(), {}, ""}}};
        }
        const std::lock_guard lock(mutex_);
        done_.push_back(std::move(result));
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t put = write(ready_, &one, sizeof one);
    }
}

}  // namespace hocket::tools::lsp
