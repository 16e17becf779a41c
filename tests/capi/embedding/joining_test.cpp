// The rendezvous without a port that all ranks know beforehand: by an id, by a store of the program's own (as
// torch's Store is one), and by a socket that already listens.
#include <hocket.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "tests/capi/comm.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
namespace fs = std::filesystem;

namespace {

// Keys are files.
class FileStore {
  public:
    FileStore(std::string folder, std::string prefix)
        : folder_(std::move(folder)), prefix_(std::move(prefix)) {
        store_.prefix = prefix_.c_str();
        store_.user = this;
        store_.set = [](void* user, const char* key, const void* value, std::size_t bytes) {
            const FileStore& own = *static_cast<FileStore*>(user);
            const std::string path = own.path_of(key), unfinished = path + "." + std::to_string(getpid());
            std::ofstream(unfinished)
                .write(static_cast<const char*>(value), static_cast<std::streamsize>(bytes));
            return std::rename(unfinished.c_str(), path.c_str());
        };
        store_.get = [](void* user, const char* key, void* value, std::size_t room, std::size_t* bytes,
                        std::int64_t timeout_ms) {
            const FileStore& own = *static_cast<FileStore*>(user);
            const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
            while (!fs::exists(own.path_of(key))) {
                if (std::chrono::steady_clock::now() > until) return 7;
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            std::ifstream file(own.path_of(key));
            const std::string text(std::istreambuf_iterator<char>(file), {});
            std::memcpy(value, text.data(), std::min(room, text.size()));
            *bytes = text.size();
            return 0;
        };
    }
    hkt_store& store() { return store_; }
    std::string path_of(std::string key) const {
        for (char& c : key) c = c == '/' ? '_' : c;
        return folder_ + "/" + key;
    }

  private:
    std::string folder_, prefix_;
    hkt_store store_ = HKT_STORE_INIT;
};

// Nothing of the launcher's but the rank.
const std::map<std::string, std::string> bare = {
    {"MASTER_ADDR", ""}, {"MASTER_PORT", ""}, {"HOCKET_SECRET", ""}, {"HOCKET_LISTEN_FD", ""}};

hkt_status create(hkt_store* store, hkt_comm** comm, std::int64_t timeout_ms = 20'000) {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.store = store;
    options.timeout_ms = timeout_ms;
    return hkt_comm_create(&options, comm);
}

void require_sum(hkt_comm* comm) {
    std::int64_t sum = hkt_comm_rank(comm) + 1;
    must(comm, hkt_all_reduce(&sum, &sum, 1, HKT_INT64, HKT_SUM, comm, nullptr));
    expect(sum == hkt_comm_size(comm) * (hkt_comm_size(comm) + 1) / 2, "the sum is " + std::to_string(sum));
}

void expect_failure(hkt_status status, hkt_status right, const std::string& words) {
    expect(status == right && std::string(hkt_last_error()).find(words) != std::string::npos,
           "instead of \"" + words + "\": " + hkt_last_error());
}

}  // namespace

TEST_CASE("the ranks meet by an id that rank 0 has made") {
    auto* const ids = static_cast<hkt_unique_id*>(shared_memory(2 * sizeof(hkt_unique_id)));
    auto* const ready = static_cast<std::atomic<int>*>(shared_memory(sizeof(std::atomic<int>)));
    const auto outcomes = run_ranks({3, bare}, [&](int rank) {
        for (int i = 0; i < 2; ++i) {
            if (rank == 0) {
                expect(hkt_unique_id_create(&ids[i]) == HKT_SUCCESS, hkt_last_error());
                *ready = i + 1;
            }
            while (*ready <= i) std::this_thread::yield();
            hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
            options.unique_id = &ids[i];
            const Comm comm = join(&options);
            require_sum(comm.get());
            hkt_comm* again = nullptr;
            if (rank == 0) {
                expect(hkt_comm_create(&options, &again) == HKT_ERROR_INVALID_ARGUMENT, "an id is used once");
                expect(std::string(hkt_last_error()).find("has been used") != std::string::npos,
                       hkt_last_error());
            }
            options.master_port = 1234;
            expect(hkt_comm_create(&options, &again) == HKT_ERROR_INVALID_ARGUMENT, "an id and a port");
            must(comm.get(), hkt_barrier(comm.get()));
        }
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a text that is no id is refused") {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.rank = 1;
    options.world_size = 2;
    hkt_unique_id id = {};
    options.unique_id = &id;
    for (const std::string text :
         {"", "hocket1", "hocket1 127.0.0.1 0 00112233445566778899aabbccddeeff",
          "hocket1 127.0.0.1 99999 0011", "hocket2 127.0.0.1 1000 00112233445566778899aabbccddeeff",
          "hocket1 127.0.0.1 1000 00112233 x y"}) {
        std::memset(id.text, 'x', sizeof id.text);  // an id need not end with a zero
        text.copy(id.text, text.size());
        if (text.size() < sizeof id.text) id.text[text.size()] = '\0';
        hkt_comm* comm = nullptr;
        CHECK(hkt_comm_create(&options, &comm) == HKT_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(hkt_last_error(), Catch::Contains("hkt_unique_id_create"));
    }
    std::memset(id.text, 'x', sizeof id.text);
    hkt_comm* comm = nullptr;
    CHECK(hkt_comm_create(&options, &comm) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_unique_id_create(nullptr) == HKT_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("rank 0 brings its own listening socket") {
    auto* const port = static_cast<std::atomic<int>*>(shared_memory(sizeof(std::atomic<int>)));
    const std::map<std::string, std::string> bare = {{"MASTER_PORT", ""}, {"HOCKET_LISTEN_FD", ""}};
    const auto outcomes = run_ranks({2, bare}, [&](int rank) {
        hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
        int fd = -1;
        if (rank == 0) {
            fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            sockaddr_in address = {};
            address.sin_family = AF_INET;
            address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            socklen_t size = sizeof address;
            expect(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(fd, 8) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0,
                   "a socket");
            options.listen_fd = fd;
            *port = ntohs(address.sin_port);
        } else {
            while (*port == 0) std::this_thread::yield();
            options.master_port = *port;
        }
        const Comm comm = join(&options);
        require_sum(comm.get());
        if (rank == 0) close(fd);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks meet in a store, several communicators one after another, by their prefixes") {
    const TemporaryFolder folder;
    const auto outcomes = run_ranks({3, bare}, [&](int) {
        for (int i = 0; i < 3; ++i) {
            FileStore store(folder.path(), "group" + std::to_string(i));
            hkt_comm* made = nullptr;
            expect(create(&store.store(), &made) == HKT_SUCCESS, hkt_last_error());
            const Comm comm(made);
            require_sum(comm.get());
        }
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank that comes before rank 0 waits in the store, and no longer than its deadline") {
    const TemporaryFolder folder;
    const auto outcomes = run_ranks({2, bare}, [&](int rank) {
        hkt_comm* comm = nullptr;
        if (rank == 1) {
            FileStore none(folder.path(), "nobody");
            expect_failure(create(&none.store(), &comm, 300), HKT_ERROR_TIMEOUT,
                           "rank 0 has not put the key nobody/hocket into the store within 300 ms");
        }
        FileStore store(folder.path(), "late");
        if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(700));
        expect(create(&store.store(), &comm) == HKT_SUCCESS, hkt_last_error());
        const Comm made(comm);
        require_sum(made.get());
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("what a store does wrong is said, and with which key") {
    const TemporaryFolder folder;
    const auto outcomes = run_ranks({2, bare}, [&](int rank) {
        hkt_comm* comm = nullptr;
        FileStore store(folder.path(), "p");
        hkt_store broken = store.store();
        broken.set = [](void*, const char*, const void*, std::size_t) { return 5; };
        broken.get = [](void*, const char*, void*, std::size_t, std::size_t*, std::int64_t) { return 6; };
        expect_failure(create(&broken, &comm), HKT_ERROR_BOOTSTRAP,
                       rank == 0 ? "hkt_store.set failed for the key p/hocket, with 5"
                                 : "hkt_store.get failed for the key p/hocket, with 6");
        for (const std::size_t bytes : {0, 200, 100'000}) {
            if (rank == 0) break;
            std::ofstream(store.path_of("p/hocket")) << std::string(bytes, 'x');
            expect_failure(create(&store.store(), &comm), HKT_ERROR_INVALID_ARGUMENT,
                           "gave " + std::to_string(bytes) + " bytes");
        }
        hkt_store without = store.store();
        without.get = nullptr;
        expect_failure(create(&without, &comm), HKT_ERROR_INVALID_ARGUMENT, "hkt_store.get is null");
        without = store.store();
        without.prefix = "";
        expect_failure(create(&without, &comm), HKT_ERROR_INVALID_ARGUMENT, "hkt_store.prefix");
        hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
        options.store = &store.store();
        options.master_port = 1000;
        expect_failure(hkt_comm_create(&options, &comm), HKT_ERROR_INVALID_ARGUMENT,
                       "hkt_comm_options.store says where the ranks meet");
        options.master_port = 0;
        const hkt_unique_id id = {};
        options.unique_id = &id;
        expect_failure(hkt_comm_create(&options, &comm), HKT_ERROR_INVALID_ARGUMENT, "set one of them");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("if rank 0 cannot listen, the others hear it from the store") {
    const TemporaryFolder folder;
    const auto outcomes = run_ranks({3, bare}, [&](int rank) {
        if (rank == 0) setenv("HOCKET_FABRIC_ADDR", "192.0.2.1", 1);  // no host's address
        FileStore store(folder.path(), "p");
        hkt_comm* comm = nullptr;
        // They do not wait for it: their deadline is later than the test's.
        expect_failure(create(&store.store(), &comm, 600'000), HKT_ERROR_BOOTSTRAP,
                       rank == 0 ? "192.0.2.1" : "rank 0 failed: ");
        expect_failure(create(&store.store(), &comm, 600'000), HKT_ERROR_BOOTSTRAP, "192.0.2.1");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a world of one needs nothing of its store") {
    FileStore store("/nonexistent", "p");
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.rank = 0;
    options.world_size = 1;
    options.store = &store.store();
    hkt_comm* comm = nullptr;
    CHECK(hkt_comm_create(&options, &comm) == HKT_SUCCESS);
    hkt_comm_destroy(comm);
}
