#include "table_file.h"

#include "gaps.h"

#include <cerrno>
#include <cmath>
#include <cstring>

namespace linchpin::worker {

namespace {

// A field of RFC 4180: names may hold commas and quotes.
std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\n\r") == std::string::npos) return field;
  std::string out = "\"";
  for (const char c : field) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace

TableFile::TableFile(const std::string& file, Scene& scene, const std::vector<std::string>& joint_names, bool exact)
    : scene_(scene), exact_(exact), file_(file), feedback_(scene.joints().size()), centre_(scene.joints().size()) {
  out_ = std::fopen(file.c_str(), "w");
  if (!out_) throw Refused("csv", std::string("cannot be written: ") + std::strerror(errno));
  // Whoever asked for feedback before keeps it: only joints nobody listens to get ours.
  for (std::size_t i = 0; i < feedback_.size(); ++i)
    if (!scene.joints()[i]->getJointFeedback()) scene.joints()[i]->setJointFeedback(&feedback_[i]);
  std::string header = "t [s]";
  const auto column = [&](const std::string& name, const char* what) {
    header += ',';
    header += quoted(name + what);
  };
  for (const std::string& name : scene.body_names()) {
    for (const char* what : {".x [m]", ".y [m]", ".z [m]", ".qw", ".qx", ".qy", ".qz", ".vx [m/s]", ".vy [m/s]",
                             ".vz [m/s]", ".wx [rad/s]", ".wy [rad/s]", ".wz [rad/s]"})
      column(name, what);
  }
  for (const std::string& name : joint_names) column(name, ".gap [m]");
  for (const std::string& name : joint_names)
    for (const char* what : {".Fx [N]", ".Fy [N]", ".Fz [N]", ".Mx [N m]", ".My [N m]", ".Mz [N m]"})
      column(name, what);
  std::fprintf(out_, "%s\n", header.c_str());
}

TableFile::~TableFile() {
  if (out_) std::fclose(out_);
  for (std::size_t i = 0; i < feedback_.size(); ++i)
    if (scene_.joints()[i]->getJointFeedback() == &feedback_[i]) scene_.joints()[i]->setJointFeedback(nullptr);
}

void TableFile::put(double x) {
  if (!first_) std::fputc(',', out_);
  first_ = false;
  if (std::isfinite(x)) std::fprintf(out_, "%.17g", x);  // an empty field is what readers take for "no number"
}

void TableFile::end_row() {
  std::fputc('\n', out_);
  first_ = true;
}

void TableFile::state(double t) {
  put(t);
  for (const btRigidBody* body : scene_.bodies()) {
    const btTransform& x = body->getWorldTransform();
    const btQuaternion q = x.getRotation();
    for (int i = 0; i < 3; ++i) put(double(x.getOrigin()[i]));
    for (const btScalar e : {q.w(), q.x(), q.y(), q.z()}) put(double(e));
    for (const btVector3& v : {body->getLinearVelocity(), body->getAngularVelocity()})
      for (int i = 0; i < 3; ++i) put(double(v[i]));
  }
  for (std::size_t i = 0; i < scene_.joints().size(); ++i) {
    const Gap gap = measure_gap(*scene_.joints()[i]);
    put(gap.any ? gap.metres : std::nan(""));
    centre_[i] = scene_.joints()[i]->getRigidBodyA().getCenterOfMassPosition();
  }
}

void TableFile::forces(const bullet::Solver* solver) {
  const auto reactions = solver ? solver->reactions() : std::span<const Reaction>();
  for (std::size_t i = 0; i < scene_.joints().size(); ++i) {
    const Reaction* r = i < reactions.size() ? &reactions[i] : nullptr;
    Wrench on;
    if (exact_ && r && !r->native) {
      on = r->on_a;
    } else if (const btJointFeedback* f = scene_.joints()[i]->getJointFeedback()) {
      on = Wrench{bullet::from_bullet(f->m_appliedForceBodyA), bullet::from_bullet(f->m_appliedTorqueBodyA),
                  bullet::from_bullet(centre_[i])};
      if (r) on = on.about(r->on_a.point);
    }
    if (!scene_.joints()[i]->isEnabled()) on = Wrench();
    for (const Vector3d& v : {on.force, on.moment})
      for (int k = 0; k < 3; ++k) put(v[k]);
  }
  end_row();
}

void TableFile::close() {
  for (std::size_t i = 0; i < 6 * scene_.joints().size(); ++i) put(std::nan(""));
  end_row();
  const bool bad = std::ferror(out_) != 0;
  const bool unflushed = std::fclose(out_) != 0;
  out_ = nullptr;
  if (bad || unflushed) throw Refused("csv", std::string("was not written in full: ") + std::strerror(errno));
}

}  // namespace linchpin::worker
