#include "crew.h"

#include <algorithm>
#include <system_error>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

Crew::Crew(int size) {
  threads_.reserve(static_cast<std::size_t>(std::max(0, size - 1)));
  try {
    for (int member = 1; member < size; ++member) threads_.emplace_back([this, member] { serve(member); });
  } catch (const std::system_error&) {  // no more to be had: those that there are do it
  }
}

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  begins_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void Crew::run(int count, Call call, void* context) {
  call_ = call;
  context_ = context;
  count_ = count;
  portion_ = std::max(1, count / (8 * size()));  // several at once, and still none that keeps all the others waiting
  next_.store(0, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    ++round_;
    busy_ = static_cast<int>(threads_.size());
  }
  begins_.notify_all();
  take(0);
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return busy_ == 0; });
}

void Crew::take(int member) {
  for (;;) {
    const int first = next_.fetch_add(portion_, std::memory_order_relaxed);
    if (first >= count_) return;
    for (int job = first; job < std::min(first + portion_, count_); ++job) call_(context_, job, member);
  }
}

void Crew::serve(int member) {
  for (unsigned seen = 0;;) {
    {
      std::unique_lock lock(mutex_);
      begins_.wait(lock, [&] { return closing_ || round_ != seen; });
      if (closing_) return;
      seen = round_;
    }
    take(member);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) ended_.notify_one();
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
