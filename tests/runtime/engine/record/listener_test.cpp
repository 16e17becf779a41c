#include "runtime/engine/record/listener.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include "tests/support/eventually.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;

TEST_CASE("a request that is a FIFO is not waited for, and the next one is heard") {
    const test::TemporaryFolder folder;
    const std::string request = folder.path() + "/" + record::request_file;
    std::mutex mutex;
    std::string heard;
    const record::Listener listener(folder.path(), 0, [&](const std::string&, const std::string& text) {
        const std::lock_guard lock(mutex);
        heard = text;
    });
    REQUIRE(mkfifo(request.c_str(), 0600) == 0);
    usleep(600'000);  // the listener looks at it meanwhile
    std::ofstream(request + ".new") << "please\nand more\n";
    std::filesystem::rename(request + ".new", request);
    CHECK(test::eventually([&] {
        const std::lock_guard lock(mutex);
        return heard == "please";
    }));
}
