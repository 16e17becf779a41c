// schedc import: makes a schedule of an algorithm of MSCCL or MSCCL++.
#pragma once

#include <string>
#include <vector>

#include "tools/schedc/messages.hpp"

namespace hocket::tools {

struct ImportRequest {
    std::string input;    // file of MSCCL's XML or of MSCCL++'s JSON; "-": standard input
    std::string output;   // file; empty: standard output
    double timeout = 60;  // seconds, of the proof
    MessageOptions messages;
    std::vector<std::string> search_path;
    dsl::Watcher* watcher = nullptr;  // told how far it is
};

// Writes the schedule once it is proved. Returns 0, or 1 if it is refused. Throws DiagnosticError for a file
// that is none of theirs or that cannot be expressed, and NotFoundError.
int run_import(const ImportRequest& request);

}  // namespace hocket::tools
