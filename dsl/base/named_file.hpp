// Opens files by a name that a user gave, or that lies in a folder where others write, too. Only regular
// files are read, and opening never blocks: a FIFO would block until its other end is opened, and reading a
// device may never end. Thread-safe.
#pragma once

#include <ext/stdio_filebuf.h>

#include <cerrno>
#include <cstddef>
#include <istream>
#include <ostream>
#include <stdexcept>
#include <string>

namespace hocket {

// Returned, negated, for a name that leads to a FIFO, a socket or a device.
inline constexpr int irregular_file = EMEDIUMTYPE;

// Opens a regular file as open(2) does. Returns a descriptor that closes on exec, or -errno: -EISDIR for a
// folder.
int open_regular(const std::string& path, int flags) noexcept;

// Creates a regular file that is open for writing, and replaces whatever had the name; no link is followed.
// Returns like open_regular().
int make_regular(const std::string& path, unsigned mode) noexcept;

// The mode of new files that hold some of a job's data: only this user may read them.
inline constexpr unsigned private_mode = 0600;

// Gives a new file the mode and the group of the file that it is about to replace, if that is a regular file
// of this user's, because they were chosen for that file. If the group cannot be set, the group gets no
// permission.
void take_over_mode(int descriptor, const std::string& replaced) noexcept;

// Takes what open(2) with O_NONBLOCK has returned, or -errno, and clears O_NONBLOCK. Closes the descriptor of
// anything but a regular file. Does not wait for a file system.
int only_regular(int opened) noexcept;

// Returns why open_regular refused the name, and what to do about it, without the name itself.
std::string refusal_text(const std::string& path, int error);

// what() returns the refusal's text.
class UnreadableFile : public std::runtime_error {
  public:
    UnreadableFile(const std::string& path, int error);
    const int error;  // errno
};

// A regular file, read from its start.
class InputFile final : public std::istream {
  public:
    explicit InputFile(const std::string& path);  // throws UnreadableFile

  private:
    __gnu_cxx::stdio_filebuf<char> buffer_;
};

// Returns the whole file, or its first `most` bytes if it is longer. Throws UnreadableFile.
std::string read_text(const std::string& path, std::size_t most = std::string::npos);

// Writes a file as a whole: a reader sees either the old content or the new one. A file that is replaced
// keeps its mode; a new one gets the one given. If it throws std::runtime_error, whose text does not have the
// name, the file is unchanged.
void replace_file(const std::string& path, const std::string& text, unsigned mode);

// A file for results. Its name may lead to a device or a pipe, which is written directly; a FIFO must already
// have a reader. Throws std::runtime_error with a text without the name.
class OutputFile final : public std::ostream {
  public:
    explicit OutputFile(const std::string& path);
    explicit OutputFile(int descriptor);  // takes ownership; throws for -errno
    int descriptor() { return buffer_.fd(); }
    void close();  // sets badbit if data are lost

  private:
    __gnu_cxx::stdio_filebuf<char> buffer_;
};

}  // namespace hocket
