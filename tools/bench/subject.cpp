#include "tools/bench/subject.hpp"

namespace hocket::bench {
namespace {

// The name is nccl-tests'. All ranks send, all receive, and nothing is combined.
constexpr dsl::Contract messages{"sendrecv",
                                 {dsl::Share::whole, dsl::Share::whole},
                                 {dsl::Share::whole, dsl::Share::whole},
                                 dsl::Effect::copies};

std::vector<Subject> list_subjects() {
    std::vector<Subject> subjects;
    for (const hkt_collective collective : capi::all_collectives) subjects.emplace_back(collective);
    for (const hkt_collective collective : capi::all_collectives)
        if (contract_of(collective).is_by_rank())
            subjects.emplace_back(collective, Subject::Kind::with_counts);
    subjects.emplace_back(HKT_ALL_REDUCE, Subject::Kind::messages);
    return subjects;
}

}  // namespace

const dsl::Contract& Subject::contract() const {
    return is_messages() ? messages : contract_of(collective);
}

std::string Subject::name() const {
    return std::string(contract().name) + (has_counts() ? "_v" : "");
}

const std::vector<Subject>& all_subjects() {
    static const std::vector<Subject> subjects = list_subjects();
    return subjects;
}

std::optional<Subject> find_subject(std::string_view name) {
    for (const Subject& subject : all_subjects())
        if (subject.name() == name) return subject;
    return std::nullopt;
}

}  // namespace hocket::bench
