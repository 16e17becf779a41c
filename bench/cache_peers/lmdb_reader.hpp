// Samples in LMDB on the local disk: the first epoch fills it from the slow source, later ones read it.
#pragma once

#include <lmdb.h>

#include <filesystem>
#include <memory>
#include <mutex>

#include "source.hpp"

namespace cache_peers {

class LmdbReader {
  public:
    // Synced only at the end of an epoch, not with each transaction: that favours LMDB.
    LmdbReader(const Source& source, std::string folder) : source_(source), folder_(std::move(folder)) {
        std::filesystem::create_directories(folder_);
        MDB_env* made = nullptr;
        expect(mdb_env_create(&made));
        environment_.reset(made);
        expect(mdb_env_set_mapsize(made, 2 * source.all_bytes() + (std::size_t{1} << 30)));
        expect(mdb_env_open(made, folder_.c_str(), MDB_NOSYNC | MDB_NORDAHEAD, 0666));
    }
    ~LmdbReader() {
        environment_.reset();
        std::filesystem::remove_all(folder_);
    }

    std::uint64_t epoch(const Keys& keys, unsigned threads) {
        if (filled_) return read(keys);
        filled_ = true;
        return fill(keys, threads);
    }

  private:
    struct Close {
        void operator()(MDB_env* environment) const { mdb_env_close(environment); }
        void operator()(MDB_txn* transaction) const { mdb_txn_abort(transaction); }
    };
    using Transaction = std::unique_ptr<MDB_txn, Close>;

    static void expect(int code) {
        if (code != MDB_SUCCESS) throw std::runtime_error(std::string("LMDB: ") + mdb_strerror(code));
    }
    static MDB_val value(const void* data, std::size_t bytes) { return {bytes, const_cast<void*>(data)}; }

    Transaction begin(unsigned flags) {
        MDB_txn* transaction = nullptr;
        expect(mdb_txn_begin(environment_.get(), nullptr, flags, &transaction));
        expect(mdb_dbi_open(transaction, nullptr, MDB_INTEGERKEY, &table_));
        return Transaction(transaction);
    }

    void store(const std::uint64_t key, const std::vector<char>& sample) {
        const std::lock_guard lock(mutex_);
        Transaction transaction = begin(0);
        MDB_val name = value(&key, sizeof key), bytes = value(sample.data(), source_.bytes(key));
        expect(mdb_put(transaction.get(), table_, &name, &bytes, 0));
        expect(mdb_txn_commit(transaction.release()));
    }

    std::uint64_t fill(const Keys& keys, unsigned threads) {
        std::atomic<std::size_t> next = 0;
        std::atomic<std::uint64_t> sum = 0;
        on_threads(threads, [&](unsigned) {
            std::vector<char> sample(source_.most_bytes());
            for (std::size_t i; (i = next++) < keys.size();) {
                source_.read_file(keys[i], sample.data());
                store(keys[i], sample);
                sum += checksum(keys[i], sample.data(), source_.bytes(keys[i]));
            }
        });
        expect(mdb_env_sync(environment_.get(), 1));
        return sum;
    }

    std::uint64_t read(const Keys& keys) {
        const Transaction transaction = begin(MDB_RDONLY);
        std::uint64_t sum = 0;
        for (const std::uint64_t key : keys) {
            MDB_val name = value(&key, sizeof key), bytes;
            expect(mdb_get(transaction.get(), table_, &name, &bytes));
            sum += checksum(key, bytes.mv_data, bytes.mv_size);
        }
        return sum;
    }

    const Source& source_;
    const std::string folder_;
    std::unique_ptr<MDB_env, Close> environment_;
    MDB_dbi table_ = 0;
    std::mutex mutex_;
    bool filled_ = false;
};

}  // namespace cache_peers
