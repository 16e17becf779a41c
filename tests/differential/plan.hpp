// Random plans that are right: the transfers of a collective on a group, before they are written in the
// language. A plan keeps, for each piece of the buffer, classes of members: all members of a class hold the
// same, and classes hold contributions of different ranks. Steps merge classes, and spread complete data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/differential/random.hpp"

namespace hocket::differential {

// A name of the buffer: the whole, or part `index` of `parts` of another.
struct View {
    const View* parent = nullptr;
    int index = 0;  // whole_of_loop: of the loop's current round
    int parts = 1;
    const View* beside = nullptr;  // the same part of another buffer
};
inline constexpr int of_the_round = -1;

struct Move {
    const View* view;
    int first, last;  // chunks
    int source, destination;
    bool combines;
    // The destination of the chunks if it is another place: the chunks from to_first on.
    const View* to_view = nullptr;
    int to_first = 0;
};

struct Plan {
    enum class Kind {
        phase,        // moves, all at once
        sequence,     // one after the other
        independent,  // in any order: of different places
        rounds,       // parts[0] for each part of `view` alike
        symmetric,    // parts[0] for chunk 0; for chunk c all members and chunks are turned by c
        family,       // a known algorithm on all of `view`
    };
    Kind kind = Kind::sequence;
    std::vector<Move> moves = {};
    std::vector<Plan> parts = {};
    const View* view = nullptr;    // rounds: of a round; family
    bool turns_by_xor = false;     // symmetric: instead of by addition
    std::string collective = {};   // family
    const View* second = nullptr;  // family: the second buffer
};

struct PlanRequest {
    std::string collective;
    int size;                           // of the group
    int root = 0;                       // member
    bool chunks_of_parts_agree = true;  // y[c] is a part of x[c]: not so in some schedules
    bool with_families = true;
};

class Planning {
  public:
    Planning(Random& random, PlanRequest request) : random_(random), request_(std::move(request)) {}

    // A plan for all of the view. The plan's views live as long as this object.
    Plan plan(const View& view);

  private:
    using Members = std::uint32_t;  // a bit each
    struct Piece {
        const View* view;
        int first, last;
        std::vector<Members> classes;  // still to be merged; one: complete
        bool fresh;                    // as the collective starts
    };

    Members everyone() const { return (Members{1} << request_.size) - 1; }
    std::vector<int> members(Members set) const;
    int any_of(Members set) { return random_.pick(members(set)); }
    Members some_of(Members set);
    // Properties of the collective: it combines; members start, or end, with their own chunks; only the root
    // has something at the start, or gets something.
    bool is_one_of(std::initializer_list<const char*> names) const {
        return std::find(names.begin(), names.end(), request_.collective) != names.end();
    }
    bool reduces() const { return is_one_of({"all_reduce", "reduce_scatter", "reduce"}); }
    bool gathers() const { return is_one_of({"all_gather", "gather"}); }
    bool scatters() const { return is_one_of({"reduce_scatter", "scatter"}); }
    bool is_from_root() const { return is_one_of({"broadcast", "scatter"}); }
    bool is_to_root() const { return is_one_of({"reduce", "gather"}); }
    Members root() const { return Members{1} << request_.root; }
    // The members that must have all of x in the end.
    Members receivers() const { return scatters() ? 0 : is_to_root() ? root() : everyone(); }
    // Other members that the data may pass on the way.
    Members detour();

    Plan process(Piece piece, Members must, Members& holders, int depth);
    bool split(const Piece& piece, Members must, Members& holders, int depth, Plan& sequence);
    bool split_parts(const Piece& piece, Members must, Members& holders, int depth, Plan& sequence);
    bool split_chunks(const Piece& piece, Members must, Members& holders, int depth, Plan& sequence);
    bool split_alike(const Piece& piece, Members must, Members& holders, int depth, Plan& sequence);
    void merge(Piece& piece, Plan& sequence);
    void spread(const Piece& piece, Members& holders, Members must, Plan& sequence);
    void add(Plan& sequence, std::vector<Move> moves, bool can_be_serial);

    Random& random_;
    PlanRequest request_;
    std::deque<View> views_;
    bool turned_ = false;  // inside of symmetric
    int splits_left_ = 8;  // more only where the collective asks for it: programs stay small
};

}  // namespace hocket::differential
