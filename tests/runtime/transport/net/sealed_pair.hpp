// A connection with both ends in this process, encrypted with random keys or not at all.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/random.hpp"
#include "runtime/transport/net/sealing.hpp"
#include "tests/runtime/transport/streams/stream_pair.hpp"

namespace hocket::test {

inline transport::Key random_key() {
    const std::string bytes = random_bytes(transport::key_size);
    transport::Key key;
    std::copy(bytes.begin(), bytes.end(), key.begin());
    return key;
}

struct SealedPair : ConnectedPair {
    explicit SealedPair(transport::Cipher cipher) {
        if (cipher == transport::Cipher::none) return;
        ours.seal(std::make_unique<transport::SealedBytes>(cipher, to_theirs, to_ours));
        theirs.seal(std::make_unique<transport::SealedBytes>(cipher, to_ours, to_theirs));
    }
    const transport::Key to_ours = random_key(), to_theirs = random_key();
};

// The ciphers that this processor has, and none.
inline std::vector<transport::Cipher> ways_to_send() {
    using transport::Cipher;
    std::vector<Cipher> ways{Cipher::none, Cipher::chacha20_poly1305};
    if ((transport::known_ciphers() >> static_cast<int>(Cipher::aes256_gcm) & 1) != 0)
        ways.push_back(Cipher::aes256_gcm);
    return ways;
}

}  // namespace hocket::test
