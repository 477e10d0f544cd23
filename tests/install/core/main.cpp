#include <linchpin/dynamics.h>

// An empty problem has an empty answer; what is tested is that header, library and Eigen are found and link.
int main() {
  linchpin::ConstrainedProblem x;
  linchpin::Acceleration y = linchpin::solve(x);
  static_cast<void>(y);
  return 0;
}
