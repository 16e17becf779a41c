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
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "runtime/record/listener.hpp"

namespace hocket::tools {
namespace {

namespace fs = std::filesystem;

std::string this_host() {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return name;
}

}  // namespace

std::vector<record::Recording> read_recordings(const std::string& folder) {
    std::vector<record::Recording> recordings;
    std::error_code ignored;  // a folder that is not there has none
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
        if (entry.path().extension() != ".json") continue;
        std::ifstream file(entry.path());
        if (auto one = record::parse_recording(std::string(std::istreambuf_iterator<char>(file), {})))
            recordings.push_back(std::move(*one));
    }
    return recordings;
}

void RecordingFolder::ask() {
    static int asked = 0;
    request_ = fmt::format("hocket-run {} {}", getpid(), ++asked);
    const std::string file = path() + "/" + record::request_file, unfinished = file + ".new";
    std::ofstream(unfinished) << request_ << "\n";
    std::rename(unfinished.c_str(), file.c_str());
}

std::vector<record::Recording> RecordingFolder::read(const std::vector<int>& process_groups) const {
    std::vector<record::Recording> recordings = read_recordings(path());
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
