// Proves texts beside the conversation with an editor, so that nobody who types waits for a proof.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/source.hpp"

namespace hocket::tools::lsp {

struct Proved {
    std::string uri;
    std::uint64_t version = 0;
    std::vector<dsl::Report> wrong;
};

// One thread proves one text at a time. A newer text of the same document takes the place of one that waits,
// and stops one that is being proved. For one thread, but for what it starts itself.
class Prover {
  public:
    // seconds: of each definition on each topology.
    Prover(std::vector<std::string> search_path, double seconds);
    ~Prover();  // stops what is being proved
    Prover(const Prover&) = delete;
    Prover& operator=(const Prover&) = delete;

    // version: larger than all before. Returns at once.
    void prove(const std::string& uri, std::uint64_t version, dsl::SourceFile source);
    void forget(const std::string& uri);  // a document that was closed

    // Readable when something is proved.
    int descriptor() const { return ready_; }
    std::vector<Proved> take();

  private:
    struct Task {
        std::string uri;
        std::uint64_t version = 0;
        dsl::SourceFile source;
    };
    class Stop;

    void run();
    std::optional<Task> next_task();
    Proved proved(const Task& task);

    const std::vector<std::string> search_path_;
    const double seconds_;
    const int ready_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Task> waiting_;  // in order
    std::vector<Proved> done_;
    std::string current_;                // the document that is being proved
    std::atomic<bool> is_stale_{false};  // nobody needs the current proof
    bool is_ending_ = false;
    std::thread thread_;
};

}  // namespace hocket::tools::lsp
