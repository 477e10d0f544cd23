#include "reference.h"

#include "gaps.h"

#include <Eigen/Cholesky>
#include <Eigen/QR>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace linchpin::worker {

using Eigen::MatrixXd;
using Eigen::Vector3d;
using Eigen::VectorXd;

namespace {

Vector6 about_centre(const Wrench& wrench, const Vector3d& centre) {
  const Wrench w = wrench.about(centre);
  Vector6 out;
  out << w.force, w.moment;
  return out;
}

Vector6 six(const btVector3& force, const btVector3& moment) {
  Vector6 out;
  out << bullet::from_bullet(force), bullet::from_bullet(moment);
  return out;
}

// λ and the free acceleration's rows of a problem, by decompositions of Eigen: B = A M^-½, B y = b − A M⁻¹ Q for the
// least y, F = M^½ y = Aᵀλ. Rank is judged on rows of unit length (T6), the pseudo-inverse taken in the rows as given.
bool solve_densely(const ConstrainedProblem& in, double rank_tolerance, VectorXd& lambda,
                   std::vector<MatrixXd>& roots) {
  const int n = in.n(), m = in.m();
  MatrixXd A = MatrixXd::Zero(m, n);
  for (int row = 0; row < m; ++row)
    for (int k = in.row_start[static_cast<std::size_t>(row)]; k < in.row_start[static_cast<std::size_t>(row) + 1]; ++k)
      A(row, in.entries[static_cast<std::size_t>(k)].column) = in.entries[static_cast<std::size_t>(k)].value;
  VectorXd r = VectorXd::Map(in.b.data(), m), force = VectorXd::Map(in.Q.data(), n);
  if (!in.c.empty()) force += VectorXd::Map(in.c.data(), n);
  MatrixXd B = A;
  roots.clear();
  int column = 0;
  std::size_t at = 0;
  for (const int size : in.block_sizes) {
    using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const MatrixXd M = RowMajor::Map(in.mass.data() + at, size, size);
    const Eigen::LLT<MatrixXd> cholesky(M);
    if (cholesky.info() != Eigen::Success) return false;
    r -= A.middleCols(column, size) * cholesky.solve(force.segment(column, size));
    // B L^T = A, block by block
    B.middleCols(column, size) = cholesky.matrixL().solve(A.middleCols(column, size).transpose()).transpose();
    roots.push_back(M);
    column += size;
    at += static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  }
  VectorXd length = B.rowwise().norm();
  for (int i = 0; i < m; ++i) length[i] = length[i] > 0 ? length[i] : 1;
  Eigen::CompleteOrthogonalDecomposition<MatrixXd> unit;
  unit.setThreshold(rank_tolerance);
  unit.compute((length.cwiseInverse().asDiagonal() * B).transpose());
  const auto rank = unit.rank();
  const MatrixXd V = unit.householderQ() * MatrixXd::Identity(n, rank);  // of B's row space
  const Eigen::HouseholderQR<MatrixXd> qr(B * V);
  const MatrixXd thin = qr.householderQ() * MatrixXd::Identity(m, rank);
  const auto R = qr.matrixQR().topLeftCorner(rank, rank).triangularView<Eigen::Upper>();
  const VectorXd z = R.solve(thin.transpose() * r);
  lambda = thin * R.transpose().solve(z);
  return lambda.allFinite();
}

/// Multiplications of one dense solution, and how many are too many: some seconds' worth, reached by 1500 rows.
double work_of(const ConstrainedProblem& problem) {
  return double(problem.m()) * problem.n() * std::min(problem.m(), problem.n());
}
constexpr double most_work = 5e9;

}  // namespace

void Reference::Sum::add(const Sum& other) {
  difference += other.difference;
  size += other.size;
}

void Reference::Sum::add(const Vector3d& is, const Vector3d& should) {
  difference += (is - should).squaredNorm();
  size += should.squaredNorm();
}

Json Reference::Sum::relative(double load) const {
  if (difference == 0) return 0.0;
  const double value = std::sqrt(difference / size);
  // Joints that carry less than a millionth of the load (a structure in free fall) have nothing to be relative to.
  return size > 1e-12 * load && std::isfinite(value) ? Json(value) : Json();
}

Reference::Reference(Scene& scene, bullet::Solver& solver, const Job& job, bool by_body)
    : scene_(scene),
      solver_(solver),
      exact_(job.kind == "exact"),
      dt_(job.dt),
      steps_(job.steps),
      by_body_(by_body),
      feedback_(scene.joints().size()),
      before_(scene.bodies().size()) {
  for (std::size_t i = 0; i < scene.bodies().size(); ++i) index_[scene.bodies()[i]] = i;
  for (std::size_t i = 0; i < scene.joints().size(); ++i) {
    btTypedConstraint& joint = *scene.joints()[i];
    joint.setJointFeedback(&feedback_[i]);
    // Bullet's feedback adds limits and motors to what holds the joint together; only sums over bodies can be told
    // apart.
    by_body_ = by_body_ || has_native_rows(joint);
    links_.push_back({&joint, {&joint.getRigidBodyA(), &joint.getRigidBodyB()}});
  }
  if (!scene.built()) return;
  for (const Built::Constrained& each : scene.built()->constrained()) links_.push_back({nullptr, each.bodies});
  // Bullet has no feedback for rows that are not its own.
  by_body_ = by_body_ || (!exact_ && !scene.built()->constrained().empty());
}

Reference::~Reference() {
  for (btTypedConstraint* joint : scene_.joints()) joint->setJointFeedback(nullptr);
}

void Reference::before() {
  added_.reset();
  t_ = solver_.t();
  substepped_ = solver_.counts().substepped_steps;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    const btRigidBody& body = *scene_.bodies()[i];
    before_[i] = {bullet::from_bullet(body.getCenterOfMassPosition()), bullet::from_bullet(body.getLinearVelocity()),
                  bullet::from_bullet(body.getAngularVelocity())};
  }
}

void Reference::after(long step) {
  // A step redone in halves has the problem of its last part only; the sample waits for a whole one.
  if (step < next_ || solver_.counts().substepped_steps != substepped_) return;
  work_ = 0;
  const Sum force = std::exchange(force_, {}), moment = std::exchange(moment_, {}),
            impulse = std::exchange(impulse_, {});
  if (sample()) {
    ++samples_;
    added_ = Added{std::sqrt(force_.difference), std::sqrt(force_.size),         std::sqrt(moment_.difference),
                   std::sqrt(moment_.size),      std::sqrt(impulse_.difference), std::sqrt(impulse_.size)};
  }
  force_.add(force), moment_.add(moment), impulse_.add(impulse);
  // Multiplications, not seconds: the same samples on every machine, so the same numbers.
  constexpr double about_a_second = 1e9;
  const double left = double(std::max(steps_ - step, 1L));
  if (stride_ == 0)
    stride_ = static_cast<long>(std::ceil(left / std::clamp(about_a_second / std::max(work_, 1.0), 1.0, left)));
  next_ = step + stride_;
}

bool Reference::sample() {
  const auto reactions = solver_.reactions();  // in world order, as the scene's joints
  const std::size_t joints = links_.size(), bodies = scene_.bodies().size();
  if (reactions.size() != joints) {
    note_ = "the reactions are not those of the scene's joints";
    return false;
  }
  link_of_.clear();
  for (std::size_t i = 0; i < joints; ++i) link_of_[reactions[i].name] = i;
  should_.resize(joints);
  for (std::size_t i = 0; i < joints; ++i) should_[i].assign(links_[i].bodies.size(), Vector6::Zero());
  has_.assign(joints, 0);
  for (auto* of_body : {&body_should_, &Q_, &momentum_}) of_body->assign(bodies, Vector6::Zero());
  body_has_.assign(bodies, 0);
  bool any = false;
  std::vector<char> covered(joints, 0);
  for (std::size_t i = 0; i < joints; ++i) {
    // What sleeps, is broken or was left to the host has no reaction of this step.
    const bool now = std::abs(reactions[i].t - t_) < 0.5 * dt_ && (!links_[i].joint || links_[i].joint->isEnabled());
    if (covered[i] || !now || (exact_ && reactions[i].native)) continue;
    const ConstrainedProblem problem = solver_.problem(reactions[i].name);
    if (problem.m() == 0) continue;
    for (const std::string& name : problem.constraints)
      if (const auto found = link_of_.find(name); found != link_of_.end()) covered[found->second] = 1;
    if (work_of(problem) > most_work) {
      note_ = "an island has " + std::to_string(problem.m()) +
              " equations, too many for the dense solution that the forces are compared with";
      work_ += 0.1 * most_work;  // a look now and then: it may break
      continue;
    }
    any = solve_block(problem) || any;
  }
  if (any) by_body_ ? compare_bodies() : compare_joints();
  return any;
}

bool Reference::solve_block(const ConstrainedProblem& problem) {
  VectorXd lambda;
  std::vector<MatrixXd> masses;
  if (!solve_densely(problem, *solver_.options().rank_tolerance, lambda, masses)) {
    note_ = "the mass matrix of an island is not positive definite";
    return false;
  }
  work_ += work_of(problem);
  // The columns of a ConstrainedProblem are its movable bodies in the order of their ids; which bodies those are
  // follows from the joints it names.
  std::map<int, btRigidBody*> movable;
  for (const std::string& name : problem.constraints) {
    if (!link_of_.count(name)) {
      note_ = "'" + name + "' is not one of the scene's joints";
      return false;
    }
    for (btRigidBody* body : links_[link_of_[name]].bodies)
      if (index_.count(body) && !body->isStaticOrKinematicObject()) movable[solver_.id(*body).index] = body;
  }
  if (movable.size() != problem.block_sizes.size()) {
    note_ = "the bodies of an island could not be identified";
    return false;
  }
  std::unordered_map<const btRigidBody*, int> column, size_of;
  int at = 0;
  std::size_t k = 0;
  for (const auto& [id, body] : movable) {
    const std::size_t b = index_.at(body);
    const int size = problem.block_sizes[k];
    column[body] = at;
    size_of[body] = size;
    body_has_[b] = 1;
    Q_[b].head(size) = VectorXd::Map(problem.Q.data() + at, size);
    load_ += Q_[b].head<3>().squaredNorm();
    Vector6 change;
    change << bullet::from_bullet(body->getLinearVelocity()) - before_[b].v,
        bullet::from_bullet(body->getAngularVelocity()) - before_[b].w;
    momentum_[b].head(size) = masses[k] * change.head(size) / dt_;
    at += size;
    ++k;
  }
  for (int row = 0; row < problem.m(); ++row) {
    const std::size_t r = static_cast<std::size_t>(row);
    const std::size_t i = link_of_.at(problem.constraints[static_cast<std::size_t>(problem.row_constraint[r])]);
    has_[i] = 1;
    for (std::size_t side = 0; side < links_[i].bodies.size(); ++side) {
      const btRigidBody& body = *links_[i].bodies[side];
      const auto found = column.find(&body);
      if (found == column.end()) continue;
      Vector6 force = Vector6::Zero();
      for (int e = problem.row_start[r]; e < problem.row_start[r + 1]; ++e) {
        const ConstrainedProblem::Entry& entry = problem.entries[static_cast<std::size_t>(e)];
        const int place = entry.column - found->second;
        if (place >= 0 && place < size_of.at(&body)) force[place] += entry.value * lambda[row];
      }
      should_[i][side] += force;
      body_should_[index_.at(&body)] += force;
    }
  }
  return true;
}

namespace {

// What the rows of a constraint do to a body: its reaction without the forces of its laws.
Wrench of_rows(const Reaction& r, int k) {
  Wrench w = r.on(k);
  const Wrench laws = r.prescribed.on(k).about(w.point);
  w.force -= laws.force;
  w.moment -= laws.moment;
  return w;
}

}  // namespace

// Forces on the first body of each joint that can move.
void Reference::compare_joints() {
  const auto reactions = solver_.reactions();
  for (std::size_t i = 0; i < has_.size(); ++i) {
    if (!has_[i]) continue;
    const auto& bodies = links_[i].bodies;
    const auto moves = std::find_if(bodies.begin(), bodies.end(), [&](const btRigidBody* body) {
      return !body->isStaticOrKinematicObject() && index_.count(body);
    });
    if (moves == bodies.end()) continue;
    const int k = static_cast<int>(moves - bodies.begin());
    const Vector3d& centre = before_[index_.at(*moves)].p;
    const Vector6& should = should_[i][static_cast<std::size_t>(k)];
    Vector6 reported, applied;
    if (exact_) {
      const Reaction& r = reactions[i];
      reported = about_centre(of_rows(r, k), centre);
      applied = reported + about_centre(r.stabilisation.on(k), centre);
    } else {
      const btJointFeedback& f = feedback_[i];
      reported = k == 1 ? six(f.m_appliedForceBodyB, f.m_appliedTorqueBodyB)
                        : six(f.m_appliedForceBodyA, f.m_appliedTorqueBodyA);
      applied = reported;
    }
    force_.add(reported.head<3>(), should.head<3>());
    moment_.add(reported.tail<3>(), should.tail<3>());
    impulse_.add(applied.head<3>(), should.head<3>());
  }
}

// Sum of all joints' forces on each body: unique even where joints share a load in a way the equations leave open.
void Reference::compare_bodies() {
  const auto reactions = solver_.reactions();
  const std::size_t bodies = body_has_.size();
  std::vector<Vector6> reported(bodies, Vector6::Zero()), applied(bodies, Vector6::Zero());
  if (exact_) {
    for (std::size_t i = 0; i < has_.size(); ++i) {
      if (!has_[i]) continue;
      const Reaction& r = reactions[i];
      for (std::size_t k = 0; k < links_[i].bodies.size(); ++k) {
        const auto found = index_.find(links_[i].bodies[k]);
        if (found == index_.end()) continue;
        const std::size_t b = found->second;
        const Vector6 w = about_centre(of_rows(r, static_cast<int>(k)), before_[b].p);
        reported[b] += w;
        applied[b] += w + about_centre(r.stabilisation.on(static_cast<int>(k)), before_[b].p);
      }
    }
  } else {
    // What Bullet's equality rows did is what is left of the change of momentum.
    for (std::size_t b = 0; b < bodies; ++b) applied[b] = reported[b] = momentum_[b] - Q_[b];
  }
  for (std::size_t b = 0; b < bodies; ++b) {
    if (!body_has_[b]) continue;
    force_.add(reported[b].head<3>(), body_should_[b].head<3>());
    moment_.add(reported[b].tail<3>(), body_should_[b].tail<3>());
    impulse_.add(applied[b].head<3>(), body_should_[b].head<3>());
  }
}

void Reference::report(Json& row) const {
  const bool any = samples_ > 0;
  row["force_rms_error_rel"] = any ? force_.relative(load_) : Json();
  row["moment_rms_error_rel"] = any ? moment_.relative(load_) : Json();
  row["impulse_rms_error_rel"] = any ? impulse_.relative(load_) : Json();
  row["force_samples"] = samples_;
  row["force_basis"] = by_body_ ? "bodies" : "joints";
  const bool idle = any && row["force_rms_error_rel"].is_null();
  row["force_note"] = !note_.empty() ? Json(note_)
                      : idle         ? Json("all joint forces are 0, so there is no relative error")
                                     : Json();
}

}  // namespace linchpin::worker
