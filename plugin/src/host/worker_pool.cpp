#include "host/worker_pool.h"

#include <algorithm>
#include <system_error>

namespace linchpin::host {

WorkerPool::WorkerPool(int size) {
  threads_.reserve(static_cast<std::size_t>(std::max(0, size - 1)));
  try {
    for (int worker = 1; worker < size; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
  } catch (const std::system_error&) {  // the system gives no more threads
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  begins_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void WorkerPool::run(int count, Call call, void* context) {
  call_ = call;
  context_ = context;
  count_ = count;
  portion_ =
      std::max(1, count / (8 * size()));  // several jobs at once, but few enough that no worker waits long for another
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

void WorkerPool::take(int worker) {
  for (;;) {
    const int first = next_.fetch_add(portion_, std::memory_order_relaxed);
    if (first >= count_) return;
    for (int job = first; job < std::min(first + portion_, count_); ++job) call_(context_, job, worker);
  }
}

void WorkerPool::serve(int worker) {
  for (unsigned seen = 0;;) {
    {
      std::unique_lock lock(mutex_);
      begins_.wait(lock, [&] { return closing_ || round_ != seen; });
      if (closing_) return;
      seen = round_;
    }
    take(worker);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) ended_.notify_one();
  }
}

}  // namespace linchpin::host
