#include "host/body_reading.h"

#include "host/context.h"
#include "host/tuning.h"

#include <cmath>
#include <cstdio>
#include <utility>

namespace linchpin::host {

namespace {

// Such a velocity would be in every pose after it. It comes from the program: a step leaves none.
void refuse_velocities(Context& c, BodyId body) {
  BodyState& s = c.bodies.start[body];
  if (s.v.squaredNorm() + s.w.squaredNorm() < tuning::held_by_all_hosts) return;
  if (c.world.can_hold(s.v) && c.world.can_hold(s.w)) return;
  for (const auto& [u, unit] : {std::pair(&s.v, "m/s"), std::pair(&s.w, "rad/s")}) {
    if (c.world.can_hold(*u)) continue;
    char number[32];
    std::snprintf(number, sizeof number, "%g ", std::hypot(u->x(), u->y(), u->z()));
    c.notes.fallback_reason =
        "body '" + c.system.name(body) + "' had a velocity of " + number + unit +
        ", which is not finite or too large for the precision of the engine. linchpin has set it to 0";
    ++c.counts.non_finite;
    u->setZero();
  }
  Motion motion;
  motion.body = body;
  motion.v = s.v;
  motion.w = s.w;
  c.world.write({&motion, 1});
}

}  // namespace

void read_bodies(Context& c) {
  constexpr std::size_t ahead = 3;
  const std::vector<BodyId>& bodies = c.bodies.to_read();
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    if (i + ahead < bodies.size()) c.world.prefetch_body(bodies[i + ahead], World::Access::state);
    c.bodies.read(c.world, bodies[i], c.step);
    if (c.options.mode == Mode::exact) refuse_velocities(c, bodies[i]);
  }
}

}  // namespace linchpin::host
