// Encrypted connections: bytes travel in records that only the two ends can make and read.
//
//   record   length n (4 bytes, little-endian, 1 to most_in_record), n encrypted bytes, tag (16 bytes)
//
// The tag authenticates the length, too. Each direction has a key of its own, and numbers its records; the
// number is the nonce, so a record that is changed, repeated, left out or moved is refused. After each
// records_of_a_key records the key is replaced by a hash of it. A record that is cut off at the end of a
// connection is not told from a peer that has ended.
#pragma once

#include <sodium.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/transport/net/kernel_transfer.hpp"

namespace hocket::transport {

enum class Cipher : std::uint32_t { none, chacha20_poly1305, aes256_gcm };

// Returns "AES-256-GCM" and so on.
std::string_view name_of(Cipher cipher);

// Returns a set of ciphers that this processor has, one bit for each. Thread-safe.
std::uint32_t known_ciphers();
// Returns the fastest cipher of a set that this processor has, too; none if there is none.
Cipher best_cipher(std::uint32_t offered);

// Returns whether this process encrypts its connections: as this variable said when it was first asked,
// because connections are also made by threads, which must not read an environment that the program may
// change. Throws Error(invalid_argument) for a value other than on and off. Thread-safe.
inline constexpr const char* encryption_variable = "HOCKET_ENCRYPTION";
bool encrypts_connections();
// Decides it whatever the variable says, for connections that are made later.
void encrypt_connections(bool on);

inline constexpr std::size_t key_size = 32, most_in_record = 16 * 1024;
inline constexpr std::uint64_t records_of_a_key = 1 << 20;
using Key = std::array<unsigned char, key_size>;

// Half of a key that two processes agree upon (X25519). The shown half is sent, and serves as a nonce.
struct KeyHalves {
    Key hidden{};
    std::string shown;
    ~KeyHalves() { sodium_memzero(hidden.data(), hidden.size()); }
};
KeyHalves fresh_key_halves();

// The keys of a connection's two directions.
struct ConnectionKeys {
    Key from_guest{}, from_host{};
    ~ConnectionKeys();
};
// Derives them from the secret, the shared point of both halves, and all that both ends have shown. Returns
// nullopt if the peer's half is no key.
std::optional<ConnectionKeys> agree_on_keys(std::string_view secret, const KeyHalves& own,
                                            std::string_view shown_by_peer, std::string_view transcript);

// The records of one direction, in order.
class RecordCipher {
  public:
    static constexpr std::size_t header_size = 4, tag_size = 16, overhead = header_size + tag_size;

    RecordCipher(Cipher cipher, const Key& key);
    ~RecordCipher();
    RecordCipher(const RecordCipher&) = delete;

    // Makes the record of `bytes` bytes at `text`, which may be its place in the record.
    void seal(const std::byte* text, std::size_t bytes, std::byte* record);
    // Writes a record's text of `bytes` bytes to `text`, which may be its place in the record. Returns false
    // if it is not the record that comes next.
    bool open(const std::byte* record, std::size_t bytes, std::byte* text);

  private:
    void use_key();
    void count();
    std::array<unsigned char, 12> nonce() const;

    const Cipher cipher_;
    Key key_;
    std::uint64_t number_ = 0;
    alignas(16) crypto_aead_aes256gcm_state expanded_;  // of AES-256-GCM
};

// What a sealed socket has besides its descriptor. One thread may send while another one receives.
class SealedBytes {
  public:
    SealedBytes(Cipher cipher, const Key& sends, const Key& receives);
    ~SealedBytes();
    SealedBytes(const SealedBytes&) = delete;

    Cipher cipher() const { return kind_; }

    // As send_some and receive_some.
    Transfer send(int socket, std::span<iovec> pieces);
    Transfer receive(int socket, std::span<iovec> room);

    std::size_t bytes_begun() const { return taken_; }
    bool has_more() const { return opened_ > 0 || has_whole_record(); }

  private:
    static constexpr std::size_t records_at_once = 4,
                                 buffer_size = records_at_once * (most_in_record + RecordCipher::overhead);

    void seal(std::span<iovec> pieces);
    bool fill(int socket, Transfer& transfer);
    std::size_t take_opened(std::byte* to, std::size_t room);
    std::size_t open_next(std::byte* to, std::size_t room);
    std::size_t next_length() const;
    bool has_whole_record() const;

    const Cipher kind_;
    RecordCipher sender_, receiver_;

    // Records that the kernel has not taken, and how many bytes of text they hold.
    std::unique_ptr<std::byte[]> out_;
    std::size_t out_begin_ = 0, out_end_ = 0, taken_ = 0;

    // Bytes that have arrived. The first record's text may have been opened in its place: opened_ bytes of
    // it are left, from in_begin_ on, and its tag.
    std::unique_ptr<std::byte[]> in_;
    std::size_t in_begin_ = 0, in_end_ = 0, opened_ = 0;
    bool is_damaged_ = false;
};

}  // namespace hocket::transport
