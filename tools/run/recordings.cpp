#include "tools/run/recordings.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "dsl/base/named_file.hpp"
#include "runtime/engine/record/listener.hpp"
#include "tools/tool.hpp"

namespace hocket::tools {
namespace {

namespace fs = std::filesystem;

std::string this_host() {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return name;
}

}  // namespace

std::vector<record::Recording> read_recordings(const std::string& folder, std::string& remarks) {
    std::vector<record::Recording> recordings;
    std::error_code ignored;  // a missing folder has no entries
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
        if (entry.path().extension() != ".json") continue;
        try {
            if (auto one = record::parse_recording(read_text(entry.path())))
                recordings.push_back(std::move(*one));
        } catch (const UnreadableFile& refused) {
            remarks +=
                fmt::format("passed over: {} cannot be read: {}\n", entry.path().string(), refused.what());
        }
    }
    return recordings;
}

void RecordingFolder::ask() {
    static int asked = 0;
    request_ = fmt::format("hocket-run {} {}", getpid(), ++asked);
    const std::string file = path() + "/" + record::request_file;
    try {
        replace_file(file, request_ + "\n", private_mode);
    } catch (const std::runtime_error& error) {  // the report then uses what the ranks have written before
        say("hocket-run: the ranks cannot be asked: {} cannot be written: {}", file, error.what());
    }
}

std::vector<record::Recording> RecordingFolder::read(const std::vector<int>& process_groups) const {
    std::string nobody_reads;  // dropped: the folder may be read many times
    std::vector<record::Recording> recordings = read_recordings(path(), nobody_reads);
    std::erase_if(recordings, [&, host = this_host()](const record::Recording& one) {
        return one.origin.host != host ||
               std::ranges::find(process_groups, one.origin.process_group) == process_groups.end();
    });
    return recordings;
}

bool RecordingFolder::is_answered(const std::vector<record::Recording>& recordings) const {
    return std::ranges::all_of(recordings, [this](const record::Recording& one) {
        return one.request == request_ || one.reason == "failure" || kill(one.origin.pid, 0) != 0;
    });
}

}  // namespace hocket::tools
