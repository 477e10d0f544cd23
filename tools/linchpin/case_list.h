// The cases of a sweep: which parameters have which values in the case of a number. Knows no scene and no process, so
// that every worker, shard and machine has the same list.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace linchpin::cli {

/// Philox4x32-10 (Salmon and others, SC 2011): random bits as a function of a counter and a key, so that sample n needs
/// no sample before it.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

class CaseList {
 public:
  struct Random {
    std::uint64_t samples = 0, seed = 0;
  };
  /// @param sets  "name=first:last:count", "name=a,b,c"; with `random` "name=least:most" is drawn uniformly, from a
  /// list each value as often. Without it all combinations, the last name fastest.
  /// @throws std::invalid_argument naming the option, the value and what was expected.
  CaseList(const std::vector<std::string>& sets, const std::optional<Random>& random);

  static constexpr std::uint64_t most = 10'000'000;
  std::uint64_t size() const { return size_; }
  const std::vector<std::string>& names() const { return names_; }
  /// By names(); depends on the number of the case, on the sets and on the seed, on nothing else.
  std::vector<double> values(std::uint64_t number) const;

 private:
  struct Axis {
    std::vector<double> values;  ///< empty: any between these two
    double least = 0, most = 0;
  };
  std::vector<std::string> names_;
  std::vector<Axis> axes_;
  std::optional<Random> random_;
  std::uint64_t size_ = 1;
};

/// "3/16": the cases whose number leaves 3 on division by 16.
struct Shard {
  std::uint64_t index = 0, count = 1;
  /// @throws std::invalid_argument
  explicit Shard(const std::string& text);
  bool has(std::uint64_t number) const { return number % count == index; }
};

}  // namespace linchpin::cli
