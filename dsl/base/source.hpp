// Source texts and places in them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hocket::dsl {

struct SourceFile {
    std::string path;  // as the user gave it, for messages
    std::string text;
};

// A half-open range of bytes of a file. The file must outlive it (the Library owns the files).
struct Span {
    const SourceFile* file = nullptr;
    std::uint32_t begin = 0, end = 0;

    std::string_view text() const {
        return file ? std::string_view(file->text).substr(begin, end - begin) : std::string_view();
    }
    friend bool operator==(const Span&, const Span&) = default;
};

// Returns the span from the start of the first to the end of the last.
inline Span join(Span first, Span last) {
    return {first.file, first.begin, last.end};
}

// Makes the span point into a copy of its file, and returns the copy, which must outlive the span instead.
// Returns null, and does nothing, if the span has no file.
std::shared_ptr<const SourceFile> keep_source(Span& span);

struct Position {
    int line = 1, column = 1;  // from 1; columns count bytes
};

Position position_of(const SourceFile& file, std::uint32_t offset);
std::string_view line_of(const SourceFile& file, std::uint32_t offset);  // without the line break

// Returns "schedules/ring.sched:5".
std::string location_of(Span span);

// Returns the span's text on one line, with runs of white space folded.
std::string folded_text(Span span);

}  // namespace hocket::dsl
