// Axes along which a host forbids a body to change its motion. They are rows on that body alone: a host that scales
// impulses by factors row by row has no mass matrix for it.
#pragma once

#include "math/vector_ops.h"

#include <linchpin/constraint.h>

#include <memory>
#include <vector>

namespace linchpin::host {

struct Context;

/// v̇ = 0 along axes of the world. @param axes  bit i for linear x y z, bit 3 + i for angular
std::unique_ptr<ConstraintFunction> hold_axes(unsigned axes);

/// The entries of bodies that have locked axes. Such an entry takes part wherever the body does.
class LockedAxes {
 public:
  int entry(BodyId body) const { return z(body.index) < bodies_.size() ? bodies_[z(body.index)].entry : -1; }
  unsigned axes(BodyId body) const { return z(body.index) < bodies_.size() ? bodies_[z(body.index)].axes : 0; }
  void set(BodyId body, unsigned axes, int entry) {
    if (z(body.index) >= bodies_.size()) bodies_.resize(z(body.index) + 1);
    bodies_[z(body.index)] = {axes, entry};
  }

 private:
  struct Body {
    unsigned axes = 0;
    int entry = -1;
  };
  std::vector<Body> bodies_;  // by id
};

}  // namespace linchpin::host
