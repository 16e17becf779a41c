// Files that are opened by a name: one that a user gave, or that lies in a folder where others write, too.
// What is read is a regular file, and opening never waits: a FIFO would have it wait for its other end, and a
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

// What is returned, negative, for a name that leads to a FIFO, a socket or a device.
inline constexpr int irregular_file = EMEDIUMTYPE;

// open(2) of a regular file. Returns a descriptor that closes on exec, or -errno: -EISDIR for a folder.
int open_regular(const std::string& path, int flags) noexcept;

// Makes a regular file that is open for writing, in place of whatever had the name: no link is followed.
// Returns what open_regular does.
int make_regular(const std::string& path, unsigned mode) noexcept;

// What only this user may read: the mode of new files that have something of a job's data.
inline constexpr unsigned private_mode = 0600;

// Gives a new file the mode and the group of the one that it is about to replace, if that is a regular file
// of this user's: they were chosen for it. Where the group cannot be had, it gets no permission.
void take_over_mode(int descriptor, const std::string& replaced) noexcept;

// Takes what open(2) with O_NONBLOCK has returned, or -errno, and clears O_NONBLOCK. What is not a regular
// file is closed. Does not wait for a file system.
int only_regular(int opened) noexcept;

// Why open_regular has refused the name, and what to do, without the name itself.
std::string refusal_text(const std::string& path, int error);

// what() is the refusal's text.
class UnreadableFile : public std::runtime_error {
  public:
    UnreadableFile(const std::string& path, int error);
    const int error;  // errno
};

// A regular file that is read from its begin.
class InputFile final : public std::istream {
  public:
    explicit InputFile(const std::string& path);  // throws UnreadableFile

  private:
    __gnu_cxx::stdio_filebuf<char> buffer_;
};

// All of a file, or its first bytes if it has more. Throws UnreadableFile.
std::string read_text(const std::string& path, std::size_t most = std::string::npos);

// Writes a file as a whole: who opens it finds what was there before, or this. A file that is replaced keeps
// its mode; a new one gets the one given. Throws std::runtime_error with a text without the name; then the
// file is as before.
void replace_file(const std::string& path, const std::string& text, unsigned mode);

// A result that a user wants. Its name may lead to a device or a pipe, which is written as it is; a FIFO must
// have its reader already. Throws std::runtime_error with a text without the name.
class OutputFile final : public std::ostream {
  public:
    explicit OutputFile(const std::string& path);
    explicit OutputFile(int descriptor);  // takes it; -errno is an error
    int descriptor() { return buffer_.fd(); }
    void close();  // what is lost sets badbit

  private:
    __gnu_cxx::stdio_filebuf<char> buffer_;
};

}  // namespace hocket
