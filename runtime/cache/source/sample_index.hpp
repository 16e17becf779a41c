// The index of objects and of the samples within them, as hocket-cache index makes it. Text: after a line
// "# hocket index 1",
//
//   object BYTES NAME                      an object, relative to the source's URL
//   sample OFFSET BYTES CHECKSUM [KEY]     a sample in the object above
//   end SAMPLES                            their number: an index that was cut off does not pass for a whole
//   one
//
// Numbers are decimal, the checksum (XXH3, 64 bits) has 16 hexadecimal digits. Names and keys are encoded
// like paths of URLs. A sample without a key is called like its object, one with a key OBJECT/KEY.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::cache {

// Where it is looked for below a URL.
inline constexpr const char* sample_index_name = "hocket.index";

struct IndexedObject {
    std::string name;
    std::uint64_t bytes = 0;
    bool operator==(const IndexedObject&) const = default;
};
struct IndexedSample {
    std::uint32_t object = 0;  // its place in SampleIndex::objects
    std::uint64_t offset = 0, bytes = 0, checksum = 0;
    std::string key;  // "": none
    bool operator==(const IndexedSample&) const = default;
};
struct SampleIndex {
    std::vector<IndexedObject> objects;
    std::vector<IndexedSample> samples;
    bool operator==(const SampleIndex&) const = default;

    std::string name_of(const IndexedSample& sample) const {
        const std::string& object = objects[sample.object].name;
        return sample.key.empty() ? object : object + "/" + sample.key;
    }
};

// Tells this index from that of one packed file.
bool is_sample_index(std::string_view text);

// Throws Error(invalid_argument) with `path` (the index's, for the text) and the line. Every sample lies in
// its object.
SampleIndex parse_sample_index(std::string_view text, const std::string& path);

std::string write_sample_index(const SampleIndex& index);

}  // namespace hocket::cache
