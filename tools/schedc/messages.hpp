// What schedc says about schedules: for people, as JSON or as SARIF.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "dsl/planning/check_files.hpp"

namespace hocket::tools {

enum class MessageFormat : std::uint8_t { human, json, sarif };
enum class Colour : std::uint8_t { by_terminal, always, never };

struct MessageOptions {
    MessageFormat format = MessageFormat::human;
    Colour colour = Colour::by_terminal;
    bool quiet = false;  // only what is wrong
};

// The colours for stderr. by_terminal: as NO_COLOR, CLICOLOR_FORCE and TERM ask for, otherwise on a terminal.
dsl::Palette palette_of(Colour colour);

// Returns the report in an error; of one that has none, its text.
dsl::Report report_of(const std::exception& error);

// An object, without a line break: an error or a warning, or what is right.
std::string json_of(const dsl::Report& report);
std::string json_of(const dsl::RightDefinition& definition);
// A log of one run with all reports (SARIF 2.1.0).
std::string sarif_of(const std::vector<dsl::Report>& reports);

// Human: what is right goes to stdout, what is wrong to stderr. JSON: each is a line of stdout. SARIF: what
// is wrong is one document on stdout, which end() writes.
class Messages {
  public:
    explicit Messages(const MessageOptions& options)
        : options_(options), palette_(palette_of(options.colour)) {}

    void right(const dsl::RightDefinition& definition);
    void say_of(const dsl::Report& report);  // an error, or a warning
    void wrong(const std::exception& error) { say_of(report_of(error)); }
    bool is_for_people() const { return options_.format == MessageFormat::human; }
    void end();  // before the tool ends

  private:
    const MessageOptions options_;
    const dsl::Palette palette_;
    std::vector<dsl::Report> reports_;  // for SARIF
};

}  // namespace hocket::tools
