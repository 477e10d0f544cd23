// What classification and the search for rest share: the directions in which a system's poses can go.
#pragma once

#include <linchpin/system.h>

#include <Eigen/Core>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace linchpin::analysis {

// The same numbers on every machine.
class Numbers {
 public:
  double next() {  // in (−1, 1); splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) / 9007199254740992.0 * 2 - 1;
  }

 private:
  std::uint64_t state_ = 1;
};

struct Direction {  // of one column: a body and one of its six
  BodyId body;
  int axis = 0;
};

std::vector<BodyId> movable(const System& system);
std::vector<Direction> directions_of(const System& system, std::span<const BodyId> bodies);
void displace(State& state, const Direction& d, double h);
// All columns of a body at once: rotations do not commute.
void displace(State& state, const std::vector<Direction>& directions, const Eigen::VectorXd& by);
State at_rest(const System& system, State state);
/// What displaces `from` to `to` in one step, in these directions.
Eigen::VectorXd difference(const State& from, const State& to, const std::vector<Direction>& directions);

/// The directions in which rows leave a state free: Π w = Z Zᵀ w of a basis Z of unit length.
Eigen::MatrixXd kernel(Eigen::MatrixXd rows);

/// How directions change along a way, at a state; one number more is the rate of time. Empty: the way ends.
using Rate = std::function<Eigen::VectorXd(const State&)>;
/// Goes the way q' = rate(q) for a unit of its parameter, in so many parts of fourth order (Runge, Kutta and
/// Munthe-Kaas), and more where it bends. @return false where it ended before, or bends without end
bool follow(State& state, const std::vector<Direction>& directions, const Rate& rate, int parts);

// Weights of f(x + kh) − f(x − kh), k = 1, 2, 3, in h f'(x): wrong by h⁶.
inline constexpr double difference_weights[] = {45.0 / 60, -9.0 / 60, 1.0 / 60};

}  // namespace linchpin::analysis
