// An intrusive queue: its items contain the link (T* next), so it allocates nothing and cannot fail.
#pragma once

namespace hocket::cache {

// Not thread-safe. The caller owns the items; each is in at most one queue at a time.
template <typename T>
class Fifo {
  public:
    bool empty() const { return first_ == nullptr; }

    void push(T& item) {
        item.next = nullptr;
        (first_ ? last_->next : first_) = &item;
        last_ = &item;
    }

    T& pop() {
        T& item = *first_;
        first_ = item.next;
        return item;
    }

    // Moves all items of `other` to the end.
    void append(Fifo& other) {
        if (other.empty()) return;
        (first_ ? last_->next : first_) = other.first_;
        last_ = other.last_;
        other.first_ = nullptr;
    }

  private:
    T* first_ = nullptr;
    T* last_ = nullptr;  // valid if the queue is not empty
};

}  // namespace hocket::cache
