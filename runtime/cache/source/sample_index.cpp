#include "runtime/cache/source/sample_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/url.hpp"
#include "runtime/cache/objects/whole_number.hpp"

namespace hocket::cache {
namespace {

constexpr std::string_view line_of_version = "# hocket index 1\n";

std::string_view take_field(std::string_view& line) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return word;
}

// Returns true for the last line. Throws Error with the reason alone.
bool take_line(std::string_view line, SampleIndex& index) {
    const auto refuse = [](const char* why) { return Error(Status::invalid_argument, why); };
    const std::string_view kind = take_field(line);
    if (kind == "object") {
        const auto bytes = whole_number(take_field(line));
        const std::string_view name = take_field(line);
        if (!bytes || name.empty() || !line.empty()) throw refuse("it must be \"object BYTES NAME\"");
        index.objects.push_back({percent_decoded(name), *bytes});
    } else if (kind == "sample") {
        const auto offset = whole_number(take_field(line)), bytes = whole_number(take_field(line)),
                   checksum = whole_number(take_field(line), 16);
        const std::string_view key = take_field(line);
        if (!offset || !bytes || !checksum || !line.empty())
            throw refuse("it must be \"sample OFFSET BYTES CHECKSUM [KEY]\"");
        if (index.objects.empty()) throw refuse("a sample comes before the first object");
        const std::uint64_t end = index.objects.back().bytes;
        if (*offset > end || *bytes > end - *offset)
            throw refuse("the sample does not lie inside its object");
        index.samples.push_back({static_cast<std::uint32_t>(index.objects.size() - 1), *offset, *bytes,
                                 *checksum, percent_decoded(key)});
    } else if (kind == "end") {
        if (whole_number(line) != index.samples.size()) throw refuse("the number of samples is another one");
        return true;
    } else {
        throw refuse("it begins with none of object, sample and end");
    }
    return false;
}

}  // namespace

bool is_sample_index(std::string_view text) {
    return text.starts_with(line_of_version);
}

SampleIndex parse_sample_index(std::string_view text, const std::string& path) {
    const auto refuse = [&](const std::string& why) {
        return Error(Status::invalid_argument,
                     fmt::format("the index {}{}; make it anew with hocket-cache index", path, why));
    };
    if (!is_sample_index(text)) throw refuse(" does not begin with the line \"# hocket index 1\"");
    SampleIndex index;
    text.remove_prefix(line_of_version.size());
    bool is_complete = false;
    for (std::size_t number_of_line = 2; !text.empty() && !is_complete; ++number_of_line) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        try {
            is_complete = take_line(text.substr(0, end), index);
        } catch (const Error& error) {
            throw refuse(fmt::format(":{}: {}", number_of_line, error.what()));
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!is_complete || !text.empty()) throw refuse(" does not end with its line \"end SAMPLES\"");
    return index;
}

std::string write_sample_index(const SampleIndex& index) {
    std::string text(line_of_version);
    const auto out = std::back_inserter(text);
    auto sample = index.samples.begin();
    for (std::uint32_t i = 0; i < index.objects.size(); ++i) {
        const IndexedObject& object = index.objects[i];
        fmt::format_to(out, "object {} {}\n", object.bytes, percent_encoded(object.name, "/"));
        for (; sample != index.samples.end() && sample->object == i; ++sample)
            fmt::format_to(out, "sample {} {} {:016x}{}{}\n", sample->offset, sample->bytes, sample->checksum,
                           sample->key.empty() ? "" : " ", percent_encoded(sample->key, "/"));
    }
    fmt::format_to(out, "end {}\n", index.samples.size());
    return text;
}

}  // namespace hocket::cache
