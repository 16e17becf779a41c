#include "runtime/transport/net/sealing.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "runtime/base/environment.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/forks.hpp"
#include "runtime/base/random.hpp"

namespace hocket::transport {
namespace {

static_assert(std::endian::native == std::endian::little, "lengths travel as they lie in memory");
static_assert(RecordCipher::tag_size == crypto_aead_aes256gcm_ABYTES &&
              RecordCipher::tag_size == crypto_aead_chacha20poly1305_ietf_ABYTES);
static_assert(key_size == crypto_aead_aes256gcm_KEYBYTES && key_size == crypto_scalarmult_SCALARBYTES &&
              key_size == crypto_aead_chacha20poly1305_ietf_KEYBYTES);

constexpr std::uint32_t bit_of(Cipher cipher) {
    return std::uint32_t{1} << static_cast<std::uint32_t>(cipher);
}

unsigned char* unsigned_bytes(std::byte* bytes) {
    return reinterpret_cast<unsigned char*>(bytes);
}

const unsigned char* unsigned_bytes(const std::byte* bytes) {
    return reinterpret_cast<const unsigned char*>(bytes);
}

std::string_view text_of(const Key& key) {
    return {reinterpret_cast<const char*>(key.data()), key.size()};
}

// HMAC-SHA512 of the parts of a message, in two keys.
std::array<Key, 2> two_keys(std::string_view secret, std::initializer_list<std::string_view> parts) {
    crypto_auth_hmacsha512_state state;
    crypto_auth_hmacsha512_init(&state, reinterpret_cast<const unsigned char*>(secret.data()), secret.size());
    for (const std::string_view part : parts)
        crypto_auth_hmacsha512_update(&state, reinterpret_cast<const unsigned char*>(part.data()),
                                      part.size());
    std::array<Key, 2> keys;
    static_assert(sizeof keys == crypto_auth_hmacsha512_BYTES);
    crypto_auth_hmacsha512_final(&state, keys[0].data());
    sodium_memzero(&state, sizeof state);
    return keys;
}

}  // namespace

std::string_view name_of(Cipher cipher) {
    switch (cipher) {
        case Cipher::none:
            return "none";
        case Cipher::chacha20_poly1305:
            return "ChaCha20-Poly1305";
        case Cipher::aes256_gcm:
            return "AES-256-GCM";
    }
    return "unknown";
}

// sodium_init finds out which instructions the processor has; calls after the first do nothing.
std::uint32_t known_ciphers() {
    if (sodium_init() < 0) throw Error(Status::internal, "libsodium cannot be initialised");
    return bit_of(Cipher::chacha20_poly1305) |
           (crypto_aead_aes256gcm_is_available() != 0 ? bit_of(Cipher::aes256_gcm) : 0);
}

Cipher best_cipher(std::uint32_t offered) {
    const std::uint32_t common = offered & known_ciphers();
    for (const Cipher cipher : {Cipher::aes256_gcm, Cipher::chacha20_poly1305})
        if ((common & bit_of(cipher)) != 0) return cipher;
    return Cipher::none;
}

namespace {

// What a process has chosen; a forked child chooses anew.
struct Choice {
    std::atomic<bool> is_on = [] {
        const Environment environment = process_environment();
        return EnvironmentReader(environment).is_on(encryption_variable, false);
    }();
};

}  // namespace

bool encrypts_connections() {
    return forks::own<Choice>().is_on;
}

void encrypt_connections(bool on) {
    forks::own<Choice>().is_on = on;
}

KeyHalves fresh_key_halves() {
    KeyHalves halves;
    std::string random = random_bytes(key_size);
    std::copy(random.begin(), random.end(), halves.hidden.begin());
    sodium_memzero(random.data(), random.size());
    halves.shown.resize(crypto_scalarmult_BYTES);
    crypto_scalarmult_base(reinterpret_cast<unsigned char*>(halves.shown.data()), halves.hidden.data());
    return halves;
}

ConnectionKeys::~ConnectionKeys() {
    sodium_memzero(from_guest.data(), from_guest.size());
    sodium_memzero(from_host.data(), from_host.size());
}

std::optional<ConnectionKeys> agree_on_keys(std::string_view secret, const KeyHalves& own,
                                            std::string_view shown_by_peer, std::string_view transcript) {
    static_assert(sizeof(Key) == crypto_scalarmult_BYTES);
    if (shown_by_peer.size() != sizeof(Key)) return std::nullopt;
    Key shared;
    if (crypto_scalarmult(shared.data(), own.hidden.data(),
                          reinterpret_cast<const unsigned char*>(shown_by_peer.data())) != 0)
        return std::nullopt;
    std::array<Key, 2> keys = two_keys(secret, {text_of(shared), "hocket connection keys 1", transcript});
    sodium_memzero(shared.data(), shared.size());
    ConnectionKeys result;
    result.from_guest = keys[0];
    result.from_host = keys[1];
    sodium_memzero(keys.data(), sizeof keys);
    return result;
}

// ---- Records ---------------------------------------------------------------------------------------------

RecordCipher::RecordCipher(Cipher cipher, const Key& key) : cipher_(cipher), key_(key) {
    use_key();
}

RecordCipher::~RecordCipher() {
    sodium_memzero(key_.data(), key_.size());
    sodium_memzero(&expanded_, sizeof expanded_);
}

void RecordCipher::use_key() {
    if (cipher_ == Cipher::aes256_gcm) crypto_aead_aes256gcm_beforenm(&expanded_, key_.data());
}

std::array<unsigned char, 12> RecordCipher::nonce() const {
    std::array<unsigned char, 12> nonce{};
    static_assert(nonce.size() == crypto_aead_aes256gcm_NPUBBYTES &&
                  nonce.size() == crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
    std::memcpy(nonce.data(), &number_, sizeof number_);
    return nonce;
}

void RecordCipher::count() {
    if (++number_ % records_of_a_key != 0) return;
    std::array<Key, 2> keys = two_keys(text_of(key_), {"hocket next key 1"});
    key_ = keys[0];
    sodium_memzero(keys.data(), sizeof keys);
    use_key();
}

void RecordCipher::seal(const std::byte* text, std::size_t bytes, std::byte* record) {
    const auto length = static_cast<std::uint32_t>(bytes);
    std::memcpy(record, &length, sizeof length);
    unsigned char* const sealed = unsigned_bytes(record + header_size);
    unsigned char* const tag = sealed + bytes;
    if (cipher_ == Cipher::aes256_gcm)
        crypto_aead_aes256gcm_encrypt_detached_afternm(sealed, tag, nullptr, unsigned_bytes(text), bytes,
                                                       unsigned_bytes(record), header_size, nullptr,
                                                       nonce().data(), &expanded_);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(sealed, tag, nullptr, unsigned_bytes(text), bytes,
                                                           unsigned_bytes(record), header_size, nullptr,
                                                           nonce().data(), key_.data());
    count();
}

bool RecordCipher::open(const std::byte* record, std::size_t bytes, std::byte* text) {
    const unsigned char* const sealed = unsigned_bytes(record + header_size);
    const unsigned char* const tag = sealed + bytes;
    const int wrong = cipher_ == Cipher::aes256_gcm
                          ? crypto_aead_aes256gcm_decrypt_detached_afternm(
                                unsigned_bytes(text), nullptr, sealed, bytes, tag, unsigned_bytes(record),
                                header_size, nonce().data(), &expanded_)
                          : crypto_aead_chacha20poly1305_ietf_decrypt_detached(
                                unsigned_bytes(text), nullptr, sealed, bytes, tag, unsigned_bytes(record),
                                header_size, nonce().data(), key_.data());
    if (wrong != 0) return false;
    count();
    return true;
}

// ---- A connection ----------------------------------------------------------------------------------------

SealedBytes::SealedBytes(Cipher cipher, const Key& sends, const Key& receives)
    : kind_(cipher),
      sender_(cipher, sends),
      receiver_(cipher, receives),
      out_(new std::byte[buffer_size]),
      in_(new std::byte[buffer_size]) {}

// What was decrypted may hold the secrets of groups.
SealedBytes::~SealedBytes() {
    sodium_memzero(in_.get(), buffer_size);
}

Transfer SealedBytes::send(int socket, std::span<iovec> pieces) {
    if (taken_ == 0) seal(pieces);
    while (out_begin_ < out_end_) {
        iovec rest{out_.get() + out_begin_, out_end_ - out_begin_};
        const Transfer sent = send_to_kernel(socket, {&rest, 1});
        if (sent.bytes == 0) return sent;
        out_begin_ += sent.bytes;
    }
    return {std::exchange(taken_, 0)};
}

// Fills records, all but the last to the brim. A record that one piece fills is made without a copy.
void SealedBytes::seal(std::span<iovec> pieces) {
    out_begin_ = out_end_ = 0;
    std::size_t length = 0;  // of the text that was copied to the record that is being filled
    const auto finish = [&](const std::byte* text, std::size_t bytes) {
        if (bytes == 0) return;
        sender_.seal(text, bytes, out_.get() + out_end_);
        out_end_ += bytes + RecordCipher::overhead;
        length = 0;
    };
    for (const iovec& piece : pieces) {
        const auto* const from = static_cast<const std::byte*>(piece.iov_base);
        for (std::size_t done = 0, n = 0; done < piece.iov_len; done += n, taken_ += n) {
            if (out_end_ == buffer_size) return;
            std::byte* const copy = out_.get() + out_end_ + RecordCipher::header_size;
            n = std::min(piece.iov_len - done, most_in_record - length);
            if (n == most_in_record) {
                finish(from + done, n);
                continue;
            }
            std::memcpy(copy + length, from + done, n);
            length += n;
            if (length == most_in_record) finish(copy, length);
        }
    }
    finish(out_.get() + out_end_ + RecordCipher::header_size, length);
}

// Returns 0 if it is not there yet.
std::size_t SealedBytes::next_length() const {
    std::uint32_t length = 0;
    if (in_end_ - in_begin_ >= sizeof length) std::memcpy(&length, in_.get() + in_begin_, sizeof length);
    return length;
}

// A damaged record counts as whole, because nothing after it matters.
bool SealedBytes::has_whole_record() const {
    if (opened_ > 0 || in_end_ - in_begin_ < RecordCipher::header_size) return false;
    const std::size_t length = next_length();
    return length == 0 || length > most_in_record || in_end_ - in_begin_ >= length + RecordCipher::overhead;
}

// Receives until a record is whole. Returns false if none is; the transfer then says why.
bool SealedBytes::fill(int socket, Transfer& transfer) {
    while (!has_whole_record()) {
        std::memmove(in_.get(), in_.get() + in_begin_, in_end_ - in_begin_);
        in_end_ -= std::exchange(in_begin_, 0);
        iovec room{in_.get() + in_end_, buffer_size - in_end_};
        transfer = receive_from_kernel(socket, {&room, 1});
        if (transfer.bytes == 0) return false;
        in_end_ += transfer.bytes;
    }
    return true;
}

Transfer SealedBytes::receive(int socket, std::span<iovec> room) {
    Transfer transfer;
    if (is_damaged_) return {0, true, damaged_record};
    if (opened_ == 0 && !fill(socket, transfer)) return transfer;
    std::size_t filled = 0;
    for (const iovec& piece : room) {
        for (std::size_t done = 0, n = 0; done < piece.iov_len; done += n, filled += n) {
            if (opened_ == 0 && !has_whole_record()) return {filled};
            std::byte* const to = static_cast<std::byte*>(piece.iov_base) + done;
            n = opened_ > 0 ? take_opened(to, piece.iov_len - done) : open_next(to, piece.iov_len - done);
            if (is_damaged_) return {0, true, damaged_record};
        }
    }
    return {filled};
}

std::size_t SealedBytes::take_opened(std::byte* to, std::size_t room) {
    const std::size_t n = std::min(room, opened_);
    std::memcpy(to, in_.get() + in_begin_, n);
    in_begin_ += n;
    opened_ -= n;
    if (opened_ == 0) in_begin_ += RecordCipher::tag_size;
    return n;
}

// Opens the record that comes next: to `to` if there is room for it, else in its place. Returns how many
// bytes it has written to `to`.
std::size_t SealedBytes::open_next(std::byte* to, std::size_t room) {
    const std::size_t length = next_length();
    std::byte* const record = in_.get() + in_begin_;
    const bool is_direct = length <= room;
    std::byte* const text = is_direct ? to : record + RecordCipher::header_size;
    if (length == 0 || length > most_in_record || !receiver_.open(record, length, text)) {
        is_damaged_ = true;
        return 0;
    }
    in_begin_ += is_direct ? length + RecordCipher::overhead : RecordCipher::header_size;
    if (!is_direct) opened_ = length;
    return is_direct ? length : 0;
}

}  // namespace hocket::transport
