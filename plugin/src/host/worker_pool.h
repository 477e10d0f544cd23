// Threads that wait for work. Independent jobs of a step are shared out among them and the caller, without an
// allocation. Any worker may take any job.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace linchpin::host {

class WorkerPool {
 public:
  /// @param size  threads in all, the caller's included. Where the system gives no more threads there are fewer.
  explicit WorkerPool(int size);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int size() const { return 1 + static_cast<int>(threads_.size()); }

  /// Calls work(job, worker) for every job below `count`, each once. Returns when all are done, and what they wrote can
  /// be read. A job must not throw. Workers are numbered from 0, the caller.
  template <class Work>
  void share(int count, Work work) {
    run(
        count, [](void* context, int job, int worker) { (*static_cast<Work*>(context))(job, worker); }, &work);
  }

 private:
  using Call = void (*)(void* context, int job, int worker);
  void run(int count, Call call, void* context);
  void take(int worker);
  void serve(int worker);

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable begins_, ended_;
  unsigned round_ = 0;  // number of the work that was handed out
  int busy_ = 0;        // workers beside the caller that are not done with it
  bool closing_ = false;
  // of the round
  Call call_ = nullptr;
  void* context_ = nullptr;
  int count_ = 0, portion_ = 1;
  std::atomic<int> next_{0};
};

}  // namespace linchpin::host
