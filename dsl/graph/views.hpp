// The views that buffer names stand for while a schedule is laid out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <vector>

#include "dsl/graph/region.hpp"

namespace hocket::dsl {

// A view's number. Numbers are never reused, not even after a block has ended and its views are gone, so
// anything remembered under a number never comes to mean another view.
using ViewId = std::uint32_t;

class Views {
  public:
    ViewId add(View view) {
        entries_.push_back({next_, std::move(view)});
        return next_++;
    }

    // A view keeps its address while others are added.
    View& operator[](ViewId id) { return find(id)->view; }
    const View& operator[](ViewId id) const { return const_cast<Views&>(*this)[id]; }

    // Called at the end of a block: shrink(size) drops the views added since size() returned that number.
    std::size_t size() const { return entries_.size(); }
    void shrink(std::size_t size) { entries_.resize(size); }

    // Returns all views as they are now. They can be restored once all views added later are gone.
    std::vector<View> save() const {
        std::vector<View> views;
        for (const Entry& entry : entries_) views.push_back(entry.view);
        return views;
    }
    void restore(std::vector<View> views) {
        for (std::size_t i = 0; i < views.size(); ++i) entries_[i].view = std::move(views[i]);
    }
    void divide(const Topology& topology, const Group& group, Span at) {
        for (Entry& entry : entries_) entry.view.divide(topology, group, at);
    }

  private:
    struct Entry {
        ViewId id = 0;
        View view;
    };
    std::deque<Entry>::iterator find(ViewId id) {
        const auto found =
            std::lower_bound(entries_.begin(), entries_.end(), id,
                             [](const Entry& entry, ViewId wanted) { return entry.id < wanted; });
        if (found == entries_.end() || found->id != id)
            throw std::logic_error("a buffer is named after its block has ended");
        return found;
    }

    std::deque<Entry> entries_;  // ascending
    ViewId next_ = 0;
};

}  // namespace hocket::dsl
