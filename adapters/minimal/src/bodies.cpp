#include "indices.h"

#include <linchpin/minimal.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace linchpin::minimal {

namespace {
constexpr BodyKind kinds[] = {BodyKind::fixed, BodyKind::kinematic, BodyKind::rigid};  // by toy::Body::Motion

/// Returns why a body that is to move by forces has no mass matrix, with its number and what to do, or nothing.
std::string fault_of(int index, const toy::Body& body) {
  return body.motion == body.moves() ? "" : "body " + std::to_string(index) + ", " + body.fault();
}
}  // namespace

BodyId Solver::id(int body) {
  if (body == -1) return linchpin::ground;
  const toy::Body* const of = world_.body(body);
  if (!of)
    throw std::invalid_argument("linchpin: the world has no body " + std::to_string(body) + "; −1 is the world itself");
  if (z(body) >= bodies_.size()) bodies_.resize(z(body) + 1);
  BodyBinding& binding = bodies_[z(body)];
  if (binding.id.index >= 0) return binding.id;
  binding = {solver_.add_body(kinds[static_cast<int>(of->moves())], of->mass, of->inertia), of->moves(), of->mass,
             of->inertia, fault_of(body, *of)};
  body_of_.resize(std::max(body_of_.size(), z(binding.id.index) + 1), -1);
  body_of_[z(binding.id.index)] = body;
  return binding.id;
}

int Solver::body_of(BodyId id) const { return z(id.index) < body_of_.size() ? body_of_[z(id.index)] : -1; }

// ---- host::World ----

// The program may have changed, moved or removed bodies since the last step. One that became kinematic, or free again,
// has another id.
void Solver::look_at_bodies(bool) {
  for (int i = 0; i < static_cast<int>(bodies_.size()); ++i) {
    BodyBinding& binding = bodies_[z(i)];
    const toy::Body* const body = world_.body(i);
    if (binding.id.index >= 0 && (!body || body->moves() != binding.motion)) {
      const BodyId was = std::exchange(binding.id, {});
      body_of_[z(was.index)] = -1;
      if (body)
        solver_.replace_body(was, id(i));
      else
        solver_.release_body(was);
    }
    if (binding.id.index < 0) continue;
    if (body->mass != binding.mass || body->inertia != binding.inertia) {
      binding.mass = body->mass;
      binding.inertia = body->inertia;
      binding.fault = fault_of(i, *body);
      solver_.change_body(binding.id, binding.mass, binding.inertia);
    }
  }
}

// The engine moves a kinematic body after the solve; the solver must know where it will be.
void Solver::read(BodyId id, BodyState& out) const {
  const toy::Body* const body = world_.body(body_of(id));
  if (!body) return;
  out.p = body->p;
  out.q = body->q;
  out.v = body->v;
  out.w = body->w;
  if (body->motion == toy::Body::Motion::kinematic && !is_integrated_) advance(out, body->v, body->w, dt_);
}

const char* Solver::why_unsupported(BodyId id) const {
  const int body = body_of(id);
  return body < 0 || bodies_[z(body)].fault.empty() ? nullptr : bodies_[z(body)].fault.c_str();
}

void Solver::read_forces(BodyId id, host::Load& load) const {
  if (const toy::Body* const body = world_.body(body_of(id)))
    load = {body->force + body->mass * world_.gravity, body->torque, /*gyroscopic=*/true};
}

void Solver::write(std::span<host::Motion> motions) {
  for (host::Motion& m : motions) {
    toy::Body* const body = world_.body(body_of(m.body));
    m.written = body && m.v.allFinite() && m.w.allFinite();
    if (!m.written) continue;
    body->v = m.v;
    body->w = m.w;
    if (!m.write_pose) continue;
    body->p = m.start.p;
    body->q = m.start.q;
  }
}

}  // namespace linchpin::minimal
