#include "model.h"

#include "divergence.h"
#include "versions.h"
#include "worker_common/answer.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <regex>
#include <set>

namespace linchpin::mujoco_worker {

namespace {

bool is_loading = true;

std::vector<std::string>& collected() {
  static std::vector<std::string> all;
  return all;
}

std::string one_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (std::size_t at; (at = text.find('\n')) != std::string::npos;)
    text.replace(at, 1, text[at - 1] == ':' ? " " : ". ");
  return text;
}

void end_by_error(const char* message) {
  worker::end_with_error(is_loading ? "scene" : "worker", "MuJoCo: " + one_line(message));
}

void collect_warning(const char* message) {
  constexpr std::size_t most = 16;
  std::vector<std::string>& all = collected();
  const std::string text = "MuJoCo: " + one_line(message);
  if (all.size() < most && std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
}

// The reason why MuJoCo did not read a file, with the place in front where it is in the file itself.
std::string reason(const std::string& path, std::string text) {
  for (const char* title : {"XML Error: ", "XML Read Error: "})
    if (text.starts_with(title)) text.erase(0, std::string(title).size());
  text = "MuJoCo: " + one_line(text);
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::smatch place;
  static const std::regex number("[Ll]ine(?: number)?[:= ]+([0-9]+)");
  if (file.find("<include") != std::string::npos || !std::regex_search(text, place, number)) return text;
  // MuJoCo knows no column: the place is where the line begins.
  std::size_t from = 0;
  for (int line = std::stoi(place[1].str()); line > 1 && from != std::string::npos; --line) {
    from = file.find('\n', from);
    if (from != std::string::npos) ++from;
  }
  const std::size_t first = from == std::string::npos ? from : file.find_first_not_of(" \t", from);
  const std::size_t column = first == std::string::npos ? 1 : first - from + 1;
  return "line " + place[1].str() + ", column " + std::to_string(column) + ": " + text;
}

// The first free one of name, name#2, name#3, …
std::string distinct(const std::string& name, std::set<std::string>& taken) {
  std::string free = name;
  for (int i = 2; !taken.insert(free).second; ++i) free = name + "#" + std::to_string(i);
  return free;
}

std::string name_of(const mjModel& m, int type, int i, const char* kind) {
  const char* const name = mj_id2name(&m, type, i);
  return name && *name ? name : kind + ("#" + std::to_string(i));
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
Wrench nothing_known() { return {Vector3d::Constant(nan), Vector3d::Constant(nan), Vector3d::Zero()}; }

}  // namespace

void install_handlers() {
  mju_user_error = end_by_error;
  mju_user_warning = collect_warning;
}
const std::vector<std::string>& warnings() { return collected(); }
void loading_is_over() { is_loading = false; }

Model::Model(const std::string& path) {
  install_handlers();
  char error[1024] = "";
  m_ = mj_loadXML(path.c_str(), nullptr, error, sizeof error);
  if (!m_) throw Refused("scene", reason(path, error));
  if (*error) collect_warning(error);
  d_ = mj_makeData(m_);
  look_ = mj_makeData(m_);
  if (!d_ || !look_) throw Refused("scene", "MuJoCo could not allocate the data of the model");
  if (m_->nbody < 2) throw Refused("scene", "holds no body beside the world");
  name_bodies();
  find_links();
}

Model::~Model() {
  mj_deleteData(look_);
  mj_deleteData(d_);
  mj_deleteModel(m_);
}

void Model::name_bodies() {
  std::set<std::string> taken;
  for (int i = 1; i < m_->nbody; ++i) body_names_.push_back(distinct(name_of(*m_, mjOBJ_BODY, i, "body"), taken));
}

void Model::find_links() {
  std::set<std::string> taken;
  for (int i = 0; i < m_->neq; ++i) {
    Link link;
    link.name = distinct(name_of(*m_, mjOBJ_EQUALITY, i, "equality"), taken);
    link.index = i;
    const int type = m_->eq_type[i];
    const std::array<int, 2> ids = {m_->eq_obj1id[i], m_->eq_obj2id[i]};
    if (type == mjEQ_CONNECT || type == mjEQ_WELD) {
      link.unit = RowUnit::metre;
      for (std::size_t k = 0; k < 2; ++k) link.bodies[k] = is_between_sites(*m_, i) ? m_->site_bodyid[ids[k]] : ids[k];
    } else if (type == mjEQ_JOINT) {
      link.unit = m_->jnt_type[ids[0]] == mjJNT_SLIDE ? RowUnit::metre : RowUnit::radian;
      for (std::size_t k = 0; k < 2; ++k) link.bodies[k] = ids[k] >= 0 ? m_->jnt_bodyid[ids[k]] : 0;
    } else if (type == mjEQ_TENDON) {
      link.unit = RowUnit::custom;
    }
    links_.push_back(std::move(link));
  }
  for (int i = 0; i < m_->njnt; ++i) {
    const char* const name = mj_id2name(m_, mjOBJ_JOINT, i);
    if (!name || !*name || m_->jnt_type[i] == mjJNT_FREE) continue;
    const int body = m_->jnt_bodyid[i];
    links_.push_back({distinct(name, taken), Link::Kind::joint, i, {}, {m_->body_parentid[body], body}});
  }
}

BodyKind Model::kind(int body) const {
  if (m_->body_mocapid[m_->body_rootid[body]] >= 0) return BodyKind::kinematic;
  return m_->body_weldid[body] == 0 ? BodyKind::fixed : BodyKind::rigid;
}

void Model::restart() { mj_resetData(m_, d_); }

std::string Model::stiffen() {
  const double timeconst = 2 * m_->opt.timestep;
  constexpr double impedance = mjMAXIMP, width = 0.001;
  for (int i = 0; i < m_->neq; ++i) {
    mjtNum* const ref = m_->eq_solref + mjNREF * i;
    mjtNum* const imp = m_->eq_solimp + mjNIMP * i;
    ref[0] = timeconst, ref[1] = 1;
    imp[0] = imp[1] = impedance, imp[2] = width, imp[3] = 0.5, imp[4] = 2;
  }
  char text[96];
  std::snprintf(text, sizeof text, "solref=\"%g 1\" solimp=\"%g %g %g\"", timeconst, impedance, impedance, width);
  return text;
}

// ---- the present state ----

void Model::look(double back) {
  std::copy_n(d_->qpos, m_->nq, look_->qpos);
  std::copy_n(d_->qvel, m_->nv, look_->qvel);
  std::copy_n(d_->act, m_->na, look_->act);
  std::copy_n(d_->mocap_pos, 3 * m_->nmocap, look_->mocap_pos);
  std::copy_n(d_->mocap_quat, 4 * m_->nmocap, look_->mocap_quat);
  copy_switches(*m_, *d_, *look_);
  look_->time = d_->time - back;
  if (back != 0) mj_integratePos(m_, look_->qpos, look_->qvel, -back);
  mj_fwdPosition(m_, look_);
  mj_comVel(m_, look_);
  // MuJoCo 2.2 computes no energy where the model does not ask for it.
  mjModel view = *m_;
  view.opt.enableflags |= mjENBL_ENERGY;
  mj_energyPos(&view, look_);
  mj_energyVel(&view, look_);
}

BodyState Model::state(int body) const {
  BodyState out;
  out.p = vector3(look_->xipos + 3 * body);
  out.q = quaternion(look_->xquat + 4 * body).normalized();
  mjtNum velocity[6];
  mj_objectVelocity(m_, look_, mjOBJ_BODY, body, velocity, 0);
  out.w = vector3(velocity);
  out.v = vector3(velocity + 3);
  return out;
}

Ends Model::ends(int i) const {
  Ends out;
  const mjtNum* const numbers = m_->eq_data + mjNEQDATA * i;
  const bool weld = m_->eq_type[i] == mjEQ_WELD;
  const std::array<int, 2> ids = {m_->eq_obj1id[i], m_->eq_obj2id[i]};
  out.has_rotation = weld && numbers[10] != 0;
  if (is_between_sites(*m_, i)) {
    for (std::size_t k = 0; k < 2; ++k) {
      out.anchors[k] = vector3(m_->site_pos + 3 * ids[k]);
      if (weld) out.axes[k] = quaternion(m_->site_quat + 4 * ids[k]);
    }
    return out;
  }
  // A weld has its anchor in the second body first, then the pose of the second body in the first.
  out.anchors = {vector3(numbers + (weld ? 3 : 0)), vector3(numbers + (weld ? 0 : 3))};
  if (weld) out.axes[0] = quaternion(numbers + 6);
  return out;
}

/// Position of a side of an equality on joints or tendons, from its reference.
double Model::length(int i, int side) const {
  const int id = side == 0 ? m_->eq_obj1id[i] : m_->eq_obj2id[i];
  if (m_->eq_type[i] == mjEQ_TENDON) return look_->ten_length[id] - m_->tendon_length0[id];
  return look_->qpos[m_->jnt_qposadr[id]] - m_->qpos0[m_->jnt_qposadr[id]];
}

void Model::add_link(Link link, const std::vector<Gap>& own_gaps) {
  links_.push_back(std::move(link));
  own_gaps_ = &own_gaps;
}

std::optional<Ends> Model::ends_of(const Link& link) const {
  if (!link.is_equality() || (m_->eq_type[link.index] != mjEQ_CONNECT && m_->eq_type[link.index] != mjEQ_WELD))
    return {};
  return ends(link.index);
}

Gap Model::gap(const Link& link) const {
  if (link.kind == Link::Kind::own) return (*own_gaps_)[static_cast<std::size_t>(link.index)];
  Gap out;
  const int i = link.index;
  if (!link.unit || !is_active(*m_, *look_, i)) return {nan, nan, nan};
  if (m_->eq_type[i] == mjEQ_JOINT || m_->eq_type[i] == mjEQ_TENDON) {
    const mjtNum* const a = m_->eq_data + mjNEQDATA * i;
    const double x = m_->eq_obj2id[i] >= 0 ? length(i, 1) : 0;
    const double residual = std::abs(length(i, 0) - (a[0] + x * (a[1] + x * (a[2] + x * (a[3] + x * a[4])))));
    (*link.unit == RowUnit::metre ? out.metres : *link.unit == RowUnit::radian ? out.radians : out.custom) = residual;
    return out;
  }
  const Ends of = ends(i);
  std::array<Vector3d, 2> at;
  std::array<Quaterniond, 2> axes;
  for (std::size_t k = 0; k < 2; ++k) {
    const int body = link.bodies[k];
    const Quaterniond q = quaternion(look_->xquat + 4 * body);
    at[k] = vector3(look_->xpos + 3 * body) + q * of.anchors[k];
    axes[k] = (q * of.axes[k]).normalized();
  }
  out.metres = (at[0] - at[1]).norm();
  if (of.has_rotation) {
    const Quaterniond between = axes[1].conjugate() * axes[0];
    out.radians = 2 * std::atan2(between.vec().norm(), std::abs(between.w()));
  }
  return out;
}

// ---- the last step ----

Wrench Model::row_wrench(const Link& link) const {
  const int i = link.index, type = m_->eq_type[i];
  std::vector<double> f;
  for (int row = 0; row < d_->nefc; ++row)
    if (d_->efc_type[row] == mjCNSTR_EQUALITY && d_->efc_id[row] == i) f.push_back(d_->efc_force[row]);
  const int body = link.bodies[0];
  if (type == mjEQ_JOINT) {
    const int joint = m_->eq_obj1id[i];
    const Vector3d axis = vector3(d_->xaxis + 3 * joint), at = vector3(d_->xanchor + 3 * joint);
    const Vector3d along = (f.empty() ? 0.0 : f[0]) * axis;
    if (m_->jnt_type[joint] == mjJNT_SLIDE) return {along, Vector3d::Zero(), at};
    return {Vector3d::Zero(), along, at};
  }
  if (type != mjEQ_CONNECT && type != mjEQ_WELD) return nothing_known();
  const Ends of = ends(i);
  const Quaterniond q = quaternion(d_->xquat + 4 * body);
  Wrench on{Vector3d::Zero(), Vector3d::Zero(), vector3(d_->xpos + 3 * body) + q * of.anchors[0]};
  if (f.size() >= 3) on.force = {f[0], f[1], f[2]};
  if (f.size() >= 6 && of.has_rotation) {
    // These rows are half of the vector part of the rotation from the second frame to the first, times the scale.
    const Quaterniond first = q * of.axes[0],
                      second = (quaternion(d_->xquat + 4 * link.bodies[1]) * of.axes[1]).conjugate();
    Matrix3d S;
    for (int c = 0; c < 3; ++c) {
      const Vector3d e = Vector3d::Unit(c);
      S.col(c) = 0.5 * (second * Quaterniond(0, e.x(), e.y(), e.z()) * first).vec();
    }
    on.moment = m_->eq_data[mjNEQDATA * i + 10] * S.transpose() * Vector3d(f[3], f[4], f[5]);
  }
  return on;
}

// MuJoCo's arrays are of the state before the step, except for the velocities, which look() has seen.
void Model::find_joint_wrenches() {
  std::swap_ranges(d_->qvel, d_->qvel + m_->nv, look_->qvel);
  mj_rnePostConstraint(m_, d_);
  std::swap_ranges(d_->qvel, d_->qvel + m_->nv, look_->qvel);
}

Wrench Model::joint_wrench(const Link& link) const {
  const int body = link.bodies[1];
  const mjtNum* const f = d_->cfrc_int + 6 * body;
  const Wrench on{-vector3(f + 3), -vector3(f), vector3(d_->subtree_com + 3 * m_->body_rootid[body])};
  return on.about(vector3(d_->xanchor + 3 * link.index));
}

const char* Model::why_not_conserved() const {
  for (int row = 0; row < d_->nefc; ++row) {
    if (d_->efc_force[row] == 0) continue;
    switch (d_->efc_type[row]) {
      case mjCNSTR_EQUALITY:
        break;
      case mjCNSTR_FRICTION_DOF:
      case mjCNSTR_FRICTION_TENDON:
        return "dry friction of joints";
      case mjCNSTR_LIMIT_JOINT:
      case mjCNSTR_LIMIT_TENDON:
        return "a limit";
      default:
        return "contacts";
    }
  }
  return dissipation(*m_, *d_);
}

std::string Model::ruin(long step) const {
  for (const int warning : {mjWARN_BADQPOS, mjWARN_BADQVEL, mjWARN_BADQACC})
    if (d_->warning[warning].number > 0)
      return "diverged at step " + std::to_string(step) +
             ": MuJoCo found a position, a velocity or an acceleration that is too large or not a number";
  const auto beyond = [](const mjtNum* x, int n, auto bad) { return std::any_of(x, x + n, bad); };
  const auto not_finite = [](mjtNum x) { return !std::isfinite(x); };
  if (beyond(d_->qpos, m_->nq, not_finite) || beyond(d_->qvel, m_->nv, not_finite))
    return "not finite at step " + std::to_string(step) + ": a pose or a velocity is infinite or not a number";
  const auto far = [](mjtNum x) { return std::abs(x) > cli::divergence_bound; };
  if (beyond(d_->qpos, m_->nq, far) || beyond(d_->qvel, m_->nv, far)) return cli::divergence_text(step);
  return {};
}

}  // namespace linchpin::mujoco_worker
