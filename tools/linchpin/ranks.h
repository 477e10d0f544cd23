// The processes of one `mpirun`, by messages of text. MPI is looked for when it is asked for: the module
// linchpin-mpi.so, built where CMake found an MPI, lies beside the workers.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace linchpin::cli {

/// What the module gives.
struct RankCalls {
  void (*start)(int* rank, int* size);
  void (*send)(int to, const char* data, int size);
  int (*probe)(int from, int wait, int* source);  ///< the size of a message, or −1: there is none
  void (*receive)(int from, char* data, int size);
  void (*finish)();
  void (*abort_all)(int code);
};

class Ranks {
 public:
  /// Starts MPI. @throws std::invalid_argument where this build has none, naming what was looked for.
  Ranks();
  /// Ends it; ends every process of the run where finish() was not called, because the others would wait for ever.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  void send(int to, const std::string& text) const;
  /// The next message of a rank; waits for it.
  std::string receive(int from) const;
  /// The next of any rank, if there is one.
  std::optional<std::pair<int, std::string>> poll() const;
  /// Rank 0 tells the others of which sweep it is; nothing: that there is none.
  void begin(const std::string& sweep) {
    begun_ = true;
    for (int to = 1; to < size_; ++to) send(to, sweep);
  }
  bool begun() const { return begun_; }
  /// All is said: what is left is to end together.
  void finish() { done_ = true; }

 private:
  std::string take(int from, int size) const;
  const RankCalls* calls_ = nullptr;
  int rank_ = 0, size_ = 1;
  bool begun_ = false, done_ = false;
};

}  // namespace linchpin::cli
