#include "case_workers.h"

#include "worker_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

namespace linchpin::cli {

namespace {

using Work = std::function<std::string(std::uint64_t)>;

// All of it or nothing more to say to the other end.
bool send_all(int socket, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::send(socket, data, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n, size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool receive_all(int socket, char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::recv(socket, data, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n, size -= static_cast<std::size_t>(n);
  }
  return true;
}

// A worker: numbers in, lengths and texts out.
[[noreturn]] void serve(int socket, const Work& work) {
  std::uint64_t number = 0;
  while (receive_all(socket, reinterpret_cast<char*>(&number), sizeof number)) {
    const std::string text = work(number);
    const std::uint64_t size = text.size();
    std::string answer(reinterpret_cast<const char*>(&size), sizeof size);
    answer += text;
    if (!send_all(socket, answer.data(), answer.size())) break;
  }
  ::_exit(0);  // nothing of the parent's is flushed or removed here
}

class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    (void)end();
  }

  void start(const std::vector<Worker>& all, const Work& work) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::system_error(errno, std::generic_category(), "socketpair");
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) {
      const int why = errno;
      ::close(ends[0]), ::close(ends[1]);
      throw std::system_error(why, std::generic_category(), "a process cannot be started");
    }
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(0);
      // With these open another worker would not see that the parent is done with it.
      for (const Worker& each : all)
        if (each.socket_ >= 0) ::close(each.socket_);
      ::close(ends[0]);
      serve(ends[1], work);
    }
    ::close(ends[1]);
    socket_ = ends[0];
  }
  bool running() const { return socket_ >= 0; }
  int socket() const { return socket_; }

  void give(std::uint64_t number) {
    at_ = number;
    answer_.clear();
    // A worker that is gone already says so by the end of what it has to say.
    (void)send_all(socket_, reinterpret_cast<const char*>(&number), sizeof number);
  }
  std::uint64_t at() const { return at_; }

  /// What has come. @return false at the end: the process is gone
  bool receive() {
    char buffer[4096];
    const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
    if (n > 0) answer_.append(buffer, static_cast<std::size_t>(n));
    return n > 0 || (n < 0 && errno == EINTR);
  }
  std::optional<std::string> answer() const {
    std::uint64_t size = 0;
    if (answer_.size() < sizeof size) return {};
    std::memcpy(&size, answer_.data(), sizeof size);
    if (answer_.size() < sizeof size + size) return {};
    return answer_.substr(sizeof size);
  }
  /// Waits for it. @return waitpid's status
  int end() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
    int status = 0;
    while (pid_ > 0 && ::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  std::uint64_t at_ = 0;
  std::string answer_;
};

}  // namespace

void run_cases(const std::vector<std::uint64_t>& cases, int jobs, const Work& work,
               const std::function<void(std::uint64_t, const std::string&)>& done,
               const std::function<void(std::uint64_t, const std::string&)>& died,
               const std::function<void()>& meanwhile) {
  std::vector<Worker> workers(std::min(static_cast<std::size_t>(jobs), cases.size()));
  std::size_t next = 0;
  const auto give_next = [&](Worker& worker) {
    if (next == cases.size()) {
      (void)worker.end();
      return;
    }
    if (!worker.running()) worker.start(workers, work);
    worker.give(cases[next++]);
  };
  for (Worker& worker : workers) give_next(worker);
  for (;;) {
    std::vector<pollfd> wait;
    std::vector<Worker*> asked;
    for (Worker& worker : workers) {
      if (!worker.running()) continue;
      wait.push_back({worker.socket(), POLLIN, 0});
      asked.push_back(&worker);
    }
    if (wait.empty()) return;
    if (meanwhile) meanwhile();
    if (::poll(wait.data(), wait.size(), meanwhile ? 1 : -1) < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category(), "poll");
    }
    for (std::size_t i = 0; i < wait.size(); ++i) {
      if (wait[i].revents == 0) continue;
      Worker& worker = *asked[i];
      const bool open = worker.receive();
      if (const auto answer = worker.answer()) {
        done(worker.at(), *answer);
        give_next(worker);
      } else if (!open) {
        died(worker.at(), ending(worker.end()));
        give_next(worker);
      }
    }
  }
}

}  // namespace linchpin::cli
