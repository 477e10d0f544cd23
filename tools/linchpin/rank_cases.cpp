#include "rank_cases.h"

#include "case_workers.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace linchpin::cli {

namespace {

// What a rank says: it wants cases, or "number row". What it is told: numbers; none is the end.
constexpr const char* wants = "?";

std::vector<std::uint64_t> numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::uint64_t> out;
  for (std::uint64_t n = 0; in >> n;) out.push_back(n);
  return out;
}

}  // namespace

void hand_out(Ranks& ranks, const std::vector<std::uint64_t>& cases, int jobs, const CaseWork& work,
              const std::function<void(std::uint64_t, const std::string&)>& done) {
  std::size_t next = 0;
  int ended = 1;  // this one has itself to ask
  const auto some = [&] {
    constexpr std::size_t most = 2000;
    const std::size_t left = cases.size() - next;
    const std::size_t n = std::min(
        {left, most,
         std::max<std::size_t>(static_cast<std::size_t>(jobs), left / (4 * static_cast<std::size_t>(ranks.size())))});
    std::vector<std::uint64_t> out(cases.begin() + static_cast<std::ptrdiff_t>(next),
                                   cases.begin() + static_cast<std::ptrdiff_t>(next + n));
    next += n;
    return out;
  };
  const auto listen = [&] {
    while (const auto message = ranks.poll()) {
      const auto& [from, text] = *message;
      if (text == wants) {
        std::string out;
        for (const std::uint64_t n : some()) out += std::to_string(n) + " ";
        ended += out.empty();
        ranks.send(from, out);
        continue;
      }
      const std::size_t space = text.find(' ');
      done(std::stoull(text.substr(0, space)), text.substr(space + 1));
    }
  };
  for (auto mine = some(); !mine.empty(); mine = some())
    run_cases(
        mine, jobs, work.row, done,
        [&](std::uint64_t n, const std::string& how) { done(n, work.row_of_the_dead(n, how)); }, listen);
  while (ended < ranks.size()) {
    listen();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void work_off(Ranks& ranks, int jobs, const CaseWork& work) {
  const auto tell = [&](std::uint64_t n, const std::string& row) { ranks.send(0, std::to_string(n) + " " + row); };
  for (;;) {
    ranks.send(0, wants);
    const std::vector<std::uint64_t> mine = numbers(ranks.receive(0));
    if (mine.empty()) return;
    run_cases(mine, jobs, work.row, tell,
              [&](std::uint64_t n, const std::string& how) { tell(n, work.row_of_the_dead(n, how)); });
  }
}

}  // namespace linchpin::cli
