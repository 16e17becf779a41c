#include "tools/cache/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <stdexcept>

#include "tools/address.hpp"
#include "tools/quantity_options.hpp"
#include "tools/version_option.hpp"

namespace hocket::cache_tool {
namespace {

constexpr const char* about =
    "Looks after a folder of Hocket's data cache: samples on the local disk, for training jobs to read.";

constexpr const char* examples = R"(Examples:
  hocket-cache warm /nvme/cache --source /mnt/imagenet/train --disk 200GiB
      before a job: all samples onto the disk; samples that are there are not read from the source again
  hocket-cache warm /nvme/cache --source /mnt/train.tfrecord --index /mnt/train.idx --dataset v2
  hocket-cache index train.index https://data.example/train-{000..146}.tar
  hocket-cache warm /nvme/cache --source https://data.example/ --index train.index
  hocket-cache stat /nvme/cache
  hocket-cache verify /nvme/cache --json
  HOCKET_SECRET=... hocket-cache serve /nvme/cache --source /mnt/imagenet/train --listen :7070
      for jobs with HOCKET_CACHE_SERVERS=thishost:7070 and the same HOCKET_SECRET

Sizes: bytes, or with a unit: KB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB of 1024,
and so are the letters alone.
It ends with 0; with 1 if something failed, or verify found damage of which the folder has no intact copy;
with 2 if the command line is wrong; with 128 + the signal's number if one ended warm or verify early.)";

std::string refuse_zero(std::string& text) {
    return text == "0" ? "a limit of 0 bytes has no room; leave it out for the default" : "";
}

class Parser {
  public:
    explicit Parser(Options& options) : options_(options) {
        app_.require_subcommand(1);
        app_.footer(examples);
        tools::add_version(app_, "hocket-cache");
        auto* warm = add(Command::warm, "warm", "Loads all samples of a source onto the disk");
        add_cache_options(*warm);
        warm->add_option("--servers", options_.servers,
                         "HOST:PORT,HOST:PORT of hocket-cache serve, asked before the source")
            ->envname("HOCKET_CACHE_SERVERS");
        auto* stat = add(Command::stat, "stat",
                         "Shows what lies in the folder, of all datasets; does not read the samples, so it "
                         "finds less damage than verify");
        stat->add_flag("--json", options_.json, "as JSON");
        auto* verify =
            add(Command::verify, "verify", "Reads and checks all that lies in the folder; changes nothing");
        verify->add_flag("--json", options_.json, "as JSON");
        auto* serve = add(Command::serve, "serve", "Gives samples to the caches of other hosts");
        add_cache_options(*serve);
        serve
            ->add_option("--listen", listen_,
                         "HOST:PORT, [IPV6]:PORT or :PORT (all addresses); port 0: any that is free")
            ->required();
        add_index();
    }

    void parse(int argc, char** argv) {
        check_command(argc, argv);
        app_.parse(argc, argv);
        // Options from the environment reach all commands. But a server that asked itself for samples would
        // wait for itself.
        if (options_.command != Command::warm) options_.servers.clear();
        if (listen_.empty()) return;
        try {
            tools::parse_address(listen_, options_.host, options_.port);
        } catch (const std::invalid_argument& error) {
            throw CLI::ValidationError("--listen", error.what());
        }
    }

    int exit(const CLI::Error& error) const { return app_.exit(error) == 0 ? 0 : 2; }

  private:
    void check_command(int argc, char** argv) const {
        const std::string word = argc < 2 ? "" : argv[1];
        if (word.starts_with('-')) return;
        std::string commands;
        for (const CLI::App* sub : app_.get_subcommands({})) {
            if (sub->get_name() == word) return;
            commands += (commands.empty() ? "" : ", ") + sub->get_name();
        }
        throw CLI::ValidationError(
            fmt::format("{}; commands: {}",
                        word.empty() ? "a command is missing" : "there is no command " + word, commands));
    }

    CLI::App* add(Command command, const char* name, const char* description) {
        CLI::App* sub = app_.add_subcommand(name, description);
        sub->callback([this, command] { options_.command = command; });
        auto* folder = sub->add_option("FOLDER", options_.folder, "the cache's folder on the local disk");
        folder->required();
        if (command == Command::stat || command == Command::verify) folder->check(CLI::ExistingDirectory);
        return sub;
    }

    void add_index() {
        auto* index = app_.add_subcommand(
            "index", "Makes the index of tar shards, or of other objects, by reading them once");
        index->callback([this] { options_.command = Command::index; });
        index->add_option("INDEX", options_.index_file, "the file to write")->required();
        index
            ->add_option(
                "SOURCE", options_.sources,
                "a tar shard, or an object that is one sample: a path, or a URL; or a folder of them: a "
                "path, or s3://BUCKET/PREFIX/")
            ->required();
    }

    void add_cache_options(CLI::App& sub) {
        sub.add_option("--source", options_.source,
                       "the origin of samples: a folder, whose files they are, a packed file, or a URL: "
                       "https://, http:// or s3://")
            ->required();
        sub.add_option(
            "--index", options_.index,
            "of a packed file: lines \"OFFSET BYTES\", by default its name and \".idx\"; or of what "
            "lies at a URL, made by hocket-cache index");
        sub.add_option("--dataset", options_.dataset,
                       "name and version of the samples; the same text as in the jobs that use them");
        add_size(sub, "--disk", options_.disk_bytes,
                 "limit of the folder, e.g. 100GiB; by default HOCKET_CACHE_DISK, else half of what is free");
        add_size(sub, "--memory", options_.memory_bytes,
                 "limit of the memory, e.g. 1GiB; by default HOCKET_CACHE_MEMORY, else 1GiB");
        sub.add_option("--depth", options_.depth, "samples on their way at once")
            ->check(CLI::Range(1, 1024))
            ->capture_default_str();
    }

    static void add_size(CLI::App& sub, const char* name, std::uint64_t& value, const char* description) {
        sub.add_option(name, value, description)
            ->transform(tools::as_size())
            ->check(CLI::Validator(refuse_zero, ""));
    }

    Options& options_;
    CLI::App app_{about, "hocket-cache"};
    std::string listen_;
};

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, int& exit_code) {
    Options options;
    Parser parser(options);
    try {
        parser.parse(argc, argv);
        return options;
    } catch (const CLI::ParseError& error) {
        exit_code = parser.exit(error);
        return std::nullopt;
    }
}

}  // namespace hocket::cache_tool
