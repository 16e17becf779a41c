// Forwards the ranks' output to hocket-run's: whole lines, each preceded by its rank.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace hocket::tools {

// hocket-run's stdout and stderr. Lines are queued, and written when poll() reports room. So a stalled reader
// never keeps hocket-run from its signals and deadlines. After a stream has failed, its output is dropped.
class Console {
  public:
    Console();

    bool stdout_is_terminal() const { return out_.terminal; }

    // stream: 1 or 2. rank -1: hocket-run's own line.
    void line(int stream, int rank, std::string_view text);

    // Shows text as the terminal's last line, until the next live() or a line of the same rank.
    void live(int rank, std::string_view text);

    bool pending(int stream) const { return !(stream == 1 ? out_ : err_).queue.empty(); }
    bool full() const { return out_.queue.size() + err_.queue.size() > (1u << 20); }

    // Writes what fits without blocking; call it when poll() reports POLLOUT.
    void write_some(int stream);

    // Returns the errno with which stdout failed; 0 if it works.
    int stdout_error() const { return out_.error; }

  private:
    struct Sink {
        int fd;
        bool terminal;
        std::string queue = {};
        int error = 0;  // the error that ended it
    };
    Sink& sink_of(int stream);
    void append_line(Sink& sink, int rank, std::string_view text);

    Sink out_, err_;
    bool colour_;
    std::string live_text_;  // empty: there is no live line
    int live_rank_ = -1;
};

// One stream of one rank, cut into lines. A carriage return restarts the line, as on a terminal: the last
// version is printed when the line ends; before that it is shown live if the output is a terminal.
class LineReader {
  public:
    LineReader(Console& console, int rank, int stream) : console_(&console), rank_(rank), stream_(stream) {}
    void add(std::string_view bytes);
    void finish();  // prints a last line that has no line break

  private:
    void print(std::string_view line);
    Console* console_;
    int rank_, stream_;
    std::string partial_;
};

}  // namespace hocket::tools
