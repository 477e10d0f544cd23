// Threads that wait for work: independent jobs of a step are shared out among them and the caller, without an
// allocation. Who takes which job is left open; jobs must not care.
#pragma once

#include <linchpin/bullet.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

class Crew {
 public:
  /// @param size  threads in all, the caller's included. Where the system gives no more threads there are fewer.
  explicit Crew(int size);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int size() const { return 1 + static_cast<int>(threads_.size()); }

  /// work(job, member) for every job below `count`, each once; returns when all are done, and what they wrote can be
  /// read. A job must not throw. Members are numbered from 0, the caller.
  template <class Work>
  void share(int count, Work work) {
    run(
        count, [](void* context, int job, int member) { (*static_cast<Work*>(context))(job, member); }, &work);
  }

 private:
  using Call = void (*)(void* context, int job, int member);
  void run(int count, Call call, void* context);
  void take(int member);
  void serve(int member);

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable begins_, ended_;
  unsigned round_ = 0;  // of work handed out
  int busy_ = 0;        // members other than the caller that are not done with it
  bool closing_ = false;
  // of the round
  Call call_ = nullptr;
  void* context_ = nullptr;
  int count_ = 0, portion_ = 1;
  std::atomic<int> next_{0};
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
