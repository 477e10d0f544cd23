#include "describe.h"

#include "scene.h"

namespace linchpin::worker {

namespace {

Json numbers(std::initializer_list<Vector3d> vectors) {
  Json out = Json::array();
  for (const Vector3d& u : vectors)
    for (int i = 0; i < 3; ++i) out.push_back(u[i]);
  return out;
}

Json joint_json(btTypedConstraint& joint, const Json& a, const Json& b) {
  const bullet::JointMapping part = bullet::mapping_of(joint);
  Json out = {{"kind", part.kind},
              {"a", a},
              {"b", b},
              {"acting", numbers({part.application_A, part.application_B})},
              {"native", part.native},
              {"points", Json::array()},
              {"axes", Json::array()},
              {"dots", Json::array()}};
  for (const auto& p : part.rows.points) out["points"].push_back(numbers({p.p_AQ, p.p_BQ}));
  for (const auto& l : part.rows.axes) {
    out["axes"].push_back(numbers({l.u_A, l.p_AQ, l.p_BQ}));
    out["axes"].back().push_back(l.d0);
  }
  for (const auto& d : part.rows.dots) {
    out["dots"].push_back(numbers({d.u_A, d.w_B}));
    out["dots"].back().push_back(d.c);
  }
  const JointRows::Alignment& alignment = part.rows.alignment;
  out["alignment"] = {{"of", static_cast<int>(alignment.of)},
                      {"frames", numbers({alignment.A.col(0), alignment.A.col(1), alignment.A.col(2),
                                          alignment.B.col(0), alignment.B.col(1), alignment.B.col(2)})}};
  if (const auto* gear = dynamic_cast<const btGearConstraint*>(&joint)) {
    out["gear"] = numbers({bullet::from_bullet(gear->getAxisA()), bullet::from_bullet(gear->getAxisB())});
    out["gear"].push_back(double(gear->getRatio()));
  }
  return out;
}

}  // namespace

Json describe(const std::string& file) {
  Job job;
  job.scene = file;
  job.kind = "exact";
  Scene scene(job);
  Json out;
  out["gravity"] = nullptr;
  if (scene.gravity_from_file()) out["gravity"] = numbers({bullet::from_bullet(scene.world().getGravity())});
  out["bodies"] = Json::array();
  for (const scene::SceneBody& body : scene.describe()) {
    const Quaterniond& q = body.start.q;
    out["bodies"].push_back({{"name", body.name},
                             {"kind", body.kind == BodyKind::rigid      ? "rigid"
                                      : body.kind == BodyKind::particle ? "particle"
                                                                        : "fixed"},
                             {"mass", body.mass},
                             {"inertia", numbers({Vector3d(body.inertia.diagonal())})},
                             {"place", numbers({body.start.p})},
                             {"rotation", {q.w(), q.x(), q.y(), q.z()}},
                             {"motion", numbers({body.start.v, body.start.w})}});
  }
  const auto index = [&](const btRigidBody& body) -> Json {
    for (std::size_t i = 0; i < scene.bodies().size(); ++i)
      if (scene.bodies()[i] == &body) return i;
    return nullptr;  // the world itself
  };
  out["joints"] = Json::array();
  for (std::size_t i = 0; i < scene.joints().size(); ++i) {
    btTypedConstraint& joint = *scene.joints()[i];
    if (!joint.isEnabled()) continue;
    Json each = joint_json(joint, index(joint.getRigidBodyA()), index(joint.getRigidBodyB()));
    const std::string& name = scene.joint_names()[i];
    // As the adapter names what has no name.
    each["name"] = name.empty() ? each["kind"].get<std::string>() + "#" + std::to_string(i) : name;
    out["joints"].push_back(std::move(each));
  }
  return out;
}

}  // namespace linchpin::worker
