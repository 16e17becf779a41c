// Checksums that servers send with an object.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/cache/objects/transfers.hpp"

namespace hocket::cache {

// Compares the body with x-amz-checksum-crc32, -crc32c, -crc64nvme, -sha1 and -sha256, and with Content-MD5,
// as far as the answer has them. Returns "" if all agree, else which does not. Checksums of S3 that are made
// of the parts of an upload are passed over: their bounds are not known.
std::string checksum_mismatch(const Answer& answer, std::span<const std::byte> body);

}  // namespace hocket::cache
