// What laws have warned of since the start, each sentence once: a step that was no answer is told however many good
// ones follow it.
#pragma once

#include <linchpin/bullet.h>
#include <linchpin/detail/same_words.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

class LawWarnings {
 public:
  static constexpr std::size_t most = 16;  ///< that are kept; who has so many reads the first

  /// Of one step. Allocates only for what is new.
  void note(std::string_view text, double t, unsigned step) {
    const int at = find(text, t);
    if (at < 0) return;
    LawWarning& to = all_[static_cast<std::size_t>(at)];
    unsigned& last = last_step_[static_cast<std::size_t>(at)];
    if (to.steps == 0 || last != step) ++to.steps;
    last = step;
  }
  /// Of what is so as long as laws and constraints stay what they are: its steps are not counted.
  void note_standing(std::string_view text, double t) { find(text, t); }
  const std::vector<LawWarning>& all() const { return all_; }
  bool full() const { return full_; }  ///< there were more
  void clear() { *this = {}; }

 private:
  int find(std::string_view text, double t) {
    const auto at =
        std::find_if(all_.begin(), all_.end(), [&](const LawWarning& w) { return detail::same_words(w.text, text); });
    if (at != all_.end()) return static_cast<int>(at - all_.begin());
    full_ = full_ || all_.size() >= most;
    if (full_) return -1;
    all_.push_back({std::string(text), t, 0});
    last_step_.push_back(0);
    return static_cast<int>(all_.size()) - 1;
  }

  std::vector<LawWarning> all_;
  std::vector<unsigned> last_step_;  ///< in which each was last noted
  bool full_ = false;
};

/// Whether what stands of the laws of a block has been told: where its rows depend on each other, and where they do
/// not.
struct StandingTold {
  unsigned laws = 0;  ///< Engine::law_edits_ then
  std::array<bool, 2> told{};
};

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
