// Damaged files: the directory never returns wrong bytes, intact samples can be read, and the space of
// damaged ones is given back.
#include <signal.h>
#include <sys/file.h>

#include <atomic>
#include <set>

#include "runtime/cache/directory/directory.hpp"
#include "tests/runtime/cache/folders.hpp"
#include "tests/support/going_on.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/sizes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace hocket::test;

namespace {

constexpr std::uint64_t page = segment_page;
const std::vector<std::uint64_t> sizes{100, 0, 333, 8, 700, 1};

// A segment's file, damaged and mended again.
class Patient {
  public:
    explicit Patient(bool sealed)
        : segment(make_small_segment(sizes, sealed)), path(folder.path() + "/" + segment.name) {
        write_all(path, segment.bytes);
        fd = Descriptor(files.open(path, O_RDWR));
    }

    void flip(std::size_t bit) {
        segment.bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        files.write(fd.get(), &segment.bytes[bit / 8], 1, bit / 8);
    }

    struct Diagnosis {
        std::size_t readable = 0, wrong = 0;
        std::uint64_t corrupt = 0, reported = 0;  // by stats(), by verify()
    };
    Diagnosis examine(bool writable = false) {
        Directory directory(files, options_for(folder.path(), 0, writable));
        Diagnosis found;
        const auto verification = directory.verify(nullptr);
        found.reported = verification.bad_segments + verification.bad_records;
        CHECK(found.reported == verification.findings.size());
        for (std::uint64_t key = 0; key < sizes.size(); ++key) {
            const auto payload = get(directory, files, key);
            found.readable += payload.has_value();
            found.wrong += payload && *payload != payload_of(key, sizes[key]);
        }
        found.corrupt = directory.stats().corrupt;
        found.wrong += directory.keys().size() != found.readable;
        return found;
    }

    const Files files;
    const TemporaryFolder folder{fast_folder()};
    SmallSegment segment;
    std::string path;
    Descriptor fd;
};

// Flips each bit of [from, from + bytes) in turn. least: how many payloads must be readable still.
void flip_all(Patient& patient, std::size_t from, std::size_t bytes, std::size_t least) {
    const std::size_t step = test::in_long_form(1, 11);  // that is each bit of a byte, in turn
    for (std::size_t bit = from * 8; bit < (from + bytes) * 8; bit += step) {
        patient.flip(bit);
        const auto found = patient.examine();
        patient.flip(bit);
        INFO("bit " << bit % 8 << " of byte " << bit / 8);
        REQUIRE(found.wrong == 0);
        REQUIRE(found.corrupt > 0);
        REQUIRE(found.readable >= least);
    }
}

}  // namespace

TEST_CASE(
    "whichever bit of a sealed segment's entries, footer or payloads is wrong, the others stay readable") {
    Patient patient(true);
    REQUIRE(patient.examine().readable == sizes.size());
    REQUIRE(patient.examine().corrupt == 0);
    REQUIRE(patient.examine().reported == 0);
    flip_all(patient, page, sizes.size() * entry_bytes, sizes.size() - 1);
    flip_all(patient, patient.segment.bytes.size() - page, page, sizes.size());
    const std::uint64_t first_payload = decode_header(patient.segment.bytes)->data_begin();
    flip_all(patient, first_payload, sizes[0], sizes.size() - 1);
}

TEST_CASE("whichever bit of a sealed segment's header is wrong, it is not used") {
    Patient patient(true);
    flip_all(patient, 0, page, 0);
}

TEST_CASE("whichever bit of an abandoned segment's header or entries is wrong, nothing wrong is read") {
    Patient patient(false);
    REQUIRE(patient.examine().readable == sizes.size());
    REQUIRE(patient.examine().corrupt == 0);
    flip_all(patient, 0, 200, 0);
    flip_all(patient, page, sizes.size() * entry_bytes, sizes.size() - 1);
}

TEST_CASE("what is damaged is adopted as far as it is right, and damage is counted once") {
    for (std::size_t bit = page * 8; bit < (page + sizes.size() * entry_bytes) * 8;
         bit += test::in_long_form(7, 17)) {
        Patient patient(false);
        patient.flip(bit);
        const auto found = patient.examine(true);
        REQUIRE(found.wrong == 0);
        REQUIRE(found.readable == sizes.size() - 1);
        REQUIRE(found.corrupt == 1);
        const auto again = patient.examine(true);
        REQUIRE(again.readable == sizes.size() - 1);
        REQUIRE(again.corrupt == 0);
    }
}

TEST_CASE("a file without a right header is counted, reported and removed") {
    Patient patient(true);
    patient.flip(100);
    CHECK(patient.examine(false).corrupt == 1);
    CHECK(std::filesystem::exists(patient.path));
    const Descriptor user(patient.files.open(patient.path, O_RDONLY));
    REQUIRE(patient.files.lock(user.get(), LOCK_SH) == 0);
    CHECK(patient.examine(true).corrupt == 1);
    CHECK(std::filesystem::exists(patient.path));
    REQUIRE(patient.files.lock(user.get(), LOCK_UN) == 0);
    const auto found = patient.examine(true);
    CHECK(found.corrupt == 1);
    CHECK(found.reported == 1);
    CHECK_FALSE(std::filesystem::exists(patient.path));
    CHECK(patient.examine(true).corrupt == 0);
}

TEST_CASE("a copy of a segment under another name is not taken for one") {
    Patient patient(true);
    const std::string copy = patient.folder.path() + "/00000000000000000000000000000001.seg";
    write_all(copy, patient.segment.bytes);
    const auto found = patient.examine(true);
    CHECK(found.readable == sizes.size());
    CHECK(found.corrupt == 1);
    CHECK_FALSE(std::filesystem::exists(copy));
}

TEST_CASE("of a segment that is cut off at any byte what lies before can be read") {
    for (const bool sealed : {true, false}) {
        Patient patient(sealed);
        const auto header = *decode_header(patient.segment.bytes);
        const std::size_t whole = patient.segment.bytes.size();
        std::uint64_t data_end = header.data_begin();
        for (const std::uint64_t size : sizes) data_end += align_up(size, 8);
        // Behind the last payload an unsealed file holds nothing.
        for (std::size_t size = sealed ? whole - 1 : data_end + page; size + 1 > 0; --size) {
            std::size_t expected = 0;
            std::uint64_t offset = header.data_begin();
            bool is_edge = false;
            for (const std::uint64_t bytes : sizes) {
                expected += offset + bytes <= size;
                is_edge |= offset + bytes == size || offset + bytes == size + 1;
                offset += align_up(bytes, 8);
            }
            if (!is_edge && size % test::in_long_form(1, 11) != 0) continue;
            REQUIRE(patient.files.truncate(patient.fd.get(), size) == 0);
            const auto found = patient.examine();
            INFO("cut off at " << size);
            REQUIRE(found.wrong == 0);
            REQUIRE(found.readable == expected);
            REQUIRE(((found.corrupt > 0) == (sealed || expected < sizes.size())));
        }
    }
}

TEST_CASE("a segment that was cut off is adopted without growing") {
    const SmallSegment original = make_small_segment(sizes, false);
    for (std::size_t size = 0; size < 4 * page + 100; size += 61) {
        const Files files;
        const TemporaryFolder folder(fast_folder());
        Bytes cut(original.bytes.begin(), original.bytes.begin() + static_cast<std::ptrdiff_t>(size));
        write_all(folder.path() + "/" + original.name, cut);
        const std::uint64_t before = folder_bytes(folder.path());
        Directory directory(files, options_for(folder.path(), 64 * 1024));
        REQUIRE(folder_bytes(folder.path()) <= before);
        for (const std::uint64_t key : directory.keys())
            REQUIRE(get(directory, files, key) == payload_of(key, sizes[key]));
        REQUIRE(directory.stats().corrupt + directory.stats().records >= 1);
    }
}

TEST_CASE("verify finds payloads that have changed, says where, and can be stopped") {
    const Files files;
    const TemporaryFolder folder;
    {
        Directory directory(files, options_for(folder.path()));
        for (std::uint64_t key = 0; key < 50; ++key)
            REQUIRE(put(directory, files, key, payload_of(key, key % 2 ? 100'000 : 50)));
    }
    Directory directory(files, options_for(folder.path()));
    const auto place = *directory.find(7);
    std::string path;
    for (const auto& each : files_with(folder.path(), ".seg"))
        if (each == place.segment->path()) path = each;
    const Descriptor fd(files.open(path, O_RDWR));
    REQUIRE(files.write(fd.get(), "x", 1, place.entry.offset + 77'777) == 1);

    std::uint64_t last = 0, most = 0;
    int calls = 0;
    auto stopped = directory.verify([&](std::uint64_t, std::uint64_t) { return ++calls < 1; });
    CHECK(calls == 1);
    CHECK(stopped.records < 50);
    const auto found = directory.verify([&](std::uint64_t done, std::uint64_t all) {
        CHECK(done > last);
        last = done;
        most = all;
        return true;
    });
    CHECK(last == most);
    CHECK(found.bad_records + stopped.bad_records == 1);
    CHECK(found.bad_segments == 0);
    CHECK(found.segments == 2);
    const auto& findings = found.findings.empty() ? stopped.findings : found.findings;
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].find(path + ": at offset " + std::to_string(place.entry.offset)) == 0);
    CHECK_FALSE(directory.find(7));
    CHECK(directory.stats().corrupt == 1);
    CHECK(directory.stats().records == 49);
}

// ---- Space ----------------------------------------------------------------------------------------

namespace {

// Samples on the disk, some of them damaged there.
class Ward {
  public:
    static constexpr std::uint64_t limit = 8 * MiB;

    // The size of a sample: small ones and large ones.
    static std::uint64_t size_of(std::uint64_t key) { return key % 2 ? 100 + key : 20'000 + key; }

    explicit Ward(std::uint64_t samples, const std::string& below = std::filesystem::temp_directory_path())
        : folder(below) {
        Directory directory(files, options_for(folder.path(), limit));
        for (std::uint64_t key = 0; key < samples; ++key) {
            REQUIRE(put(directory, files, key, payload_of(key, size_of(key))));
            right.insert(key);
        }
    }

    // Overwrites the bodies of all samples but of one in `each`; 0: of all.
    void damage_all_but_one_in(std::uint64_t each) {
        Directory directory(files, options_for(folder.path(), 0, false));
        for (const std::uint64_t key : directory.keys()) {
            if (each != 0 && key / 2 % each == 0) continue;
            const Place place = *directory.find(key);
            const Descriptor fd(files.open(place.segment->path(), O_RDWR));
            const Bytes garbage(place.entry.bytes, std::byte{0x5a});
            REQUIRE(files.write(fd.get(), garbage.data(), garbage.size(), place.entry.offset) ==
                    static_cast<std::int64_t>(garbage.size()));
            right.erase(key);
        }
    }

    // Reads all samples that the directory knows, which finds the damaged ones.
    void read_all(Directory& directory) const {
        for (const std::uint64_t key : directory.keys()) {
            const auto payload = get(directory, files, key);
            REQUIRE(payload.has_value() == right.contains(key));
            if (payload) REQUIRE(*payload == payload_of(key, size_of(key)));
        }
    }

    void check() const {
        Directory directory(files, options_for(folder.path(), limit, false));
        check(directory);
    }
    void check(Directory& directory) const {
        for (const std::uint64_t key : right)
            REQUIRE(get(directory, files, key) == payload_of(key, size_of(key)));
    }

    std::uint64_t bytes() const { return folder_bytes(folder.path()); }
    // The most bytes that the right samples may take up: their own pages, one more each, and indices, lock
    // and footers.
    std::uint64_t fair_bytes() const {
        std::uint64_t fair = files_with(folder.path(), ".seg").size() * 4 * page + 2 * page;
        for (const std::uint64_t key : right) fair += align_up(size_of(key), page) + page;
        return fair;
    }

    const Files files;
    const TemporaryFolder folder;
    std::set<std::uint64_t> right;  // keys
};

}  // namespace

TEST_CASE("what is damaged gives its space back, and what is right stays, for others who read it, too") {
    for (const bool by_verify : {false, true}) {
        Ward ward(300);
        ward.damage_all_but_one_in(10);
        const std::uint64_t before = ward.bytes();
        REQUIRE(ward.fair_bytes() < before / 4);
        Directory other(ward.files, options_for(ward.folder.path(), Ward::limit));
        {
            Directory directory(ward.files, options_for(ward.folder.path(), Ward::limit));
            CHECK(directory.stats().damage == "");
            by_verify ? void(directory.verify(nullptr)) : ward.read_all(directory);
            if (!by_verify) directory.close();
            CHECK(ward.bytes() <= ward.fair_bytes());
            const std::string damage = directory.stats().damage;
            CHECK(damage.find(ward.folder.path() + ": 270 records (") == 0);
            CHECK(damage.find("; " + std::to_string(before - ward.bytes()) +
                              " bytes of the disk were given back for them so far;") != std::string::npos);
            ward.check(directory);
        }
        ward.read_all(other);
        ward.check(other);
        ward.check();
        other.close();
        CHECK(ward.bytes() <= ward.fair_bytes());
        ward.check();
    }
}

TEST_CASE("a segment in which nothing right is left goes, and others who have it open go on") {
    Ward ward(40);
    ward.damage_all_but_one_in(0);
    Directory other(ward.files, options_for(ward.folder.path(), Ward::limit));
    {
        Directory directory(ward.files, options_for(ward.folder.path(), Ward::limit));
        directory.verify(nullptr);
        CHECK(files_with(ward.folder.path(), ".seg").empty());
        CHECK(directory.stats().segments == 0);
        REQUIRE(put(directory, ward.files, 1, payload_of(1, 5000)));
    }
    ward.read_all(other);
    other.flush();  // sees the changes
    CHECK(get(other, ward.files, 1) == payload_of(1, 5000));
    CHECK(other.stats().segments == 1);
}

TEST_CASE("a folder that is full of what is damaged takes new samples as soon as that is known") {
    Ward ward(600);
    const std::uint64_t full = ward.bytes();
    ward.damage_all_but_one_in(20);
    Directory directory(ward.files, options_for(ward.folder.path(), full));
    ward.read_all(directory);
    for (std::uint64_t key = 1000; key < 1100; ++key) {
        REQUIRE(put(directory, ward.files, key, payload_of(key, 20'000)));
        REQUIRE(ward.bytes() <= full);
    }
    CHECK(directory.stats().trouble == "");
    ward.check(directory);
}

TEST_CASE("what was read wrong once, or cannot be read just now, keeps its space") {
    Ward ward(100);
    const std::uint64_t before = ward.bytes();
    for (const bool fails_again : {false, true}) {
        std::atomic<bool> fails = false;
        const Files files([&](FileCall call, const std::string&) {
            return fails && call == FileCall::read ? Fault{EIO, UINT64_MAX} : Fault{};
        });
        Directory directory(files, options_for(ward.folder.path(), Ward::limit));
        for (const std::uint64_t key : directory.keys()) directory.forget(*directory.find(key));
        CHECK(directory.keys().empty());
        fails = fails_again;
        directory.close();
    }
    CHECK(ward.bytes() == before);
    CHECK(files_with(ward.folder.path(), ".seg").size() > 0);
    ward.check();
}

TEST_CASE("payloads whose index entries are damaged give their space back, too") {
    Ward ward(60);
    const std::uint64_t before = ward.bytes();
    for (const std::string& path : files_with(ward.folder.path(), ".seg")) {
        const Descriptor fd(ward.files.open(path, O_RDWR));
        const Bytes garbage(10 * entry_bytes, std::byte{0x5a});
        ward.files.write(fd.get(), garbage.data(), garbage.size(), entry_offset(5));
    }
    ward.right.clear();
    {
        Directory directory(ward.files, options_for(ward.folder.path(), Ward::limit));
        for (const std::uint64_t key : directory.keys()) ward.right.insert(key);
        REQUIRE(ward.right.size() == 40);
    }
    CHECK(ward.bytes() + 10 * 20'000 - 2 * page <= before);
    ward.check();
}

TEST_CASE("who may not write gives nothing back") {
    Ward ward(60);
    ward.damage_all_but_one_in(5);
    const std::uint64_t before = ward.bytes();
    {
        Directory directory(ward.files, options_for(ward.folder.path(), 0, false));
        directory.verify(nullptr);
        CHECK(directory.stats().damage.find("48 records") != std::string::npos);
    }
    CHECK(ward.bytes() == before);
}

TEST_CASE("a process that is killed at any file call while it gives space back costs nothing that is right") {
    for (const std::uint64_t each : {0, 4}) {
        int killed = 0, nth = 0;
        for (bool is_killed = true; is_killed; ++nth) {
            Ward ward(24, fast_folder());
            ward.damage_all_but_one_in(each);
            const pid_t child = hocket::test::fork_to_go_on();
            if (child == 0) {
                int calls = -1;  // counted from when all is found
                const Files files([&](FileCall, const std::string&) {
                    if (calls >= 0 && calls++ == nth) ::kill(::getpid(), SIGKILL);
                    return Fault{};
                });
                Directory directory(files, options_for(ward.folder.path(), Ward::limit));
                for (const std::uint64_t key : directory.keys()) get(directory, files, key);
                calls = 0;
                directory.close();
                ::_exit(0);
            }
            int status = 0;
            REQUIRE(::waitpid(child, &status, 0) == child);
            is_killed = WIFSIGNALED(status);
            killed += is_killed;
            ward.check();
            Directory next(ward.files, options_for(ward.folder.path(), Ward::limit));
            next.verify(nullptr);
            CHECK(ward.bytes() <= ward.fair_bytes());
            ward.check(next);
        }
        CHECK(killed > 10);
    }
}
